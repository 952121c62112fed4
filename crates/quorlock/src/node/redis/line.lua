-- Who waits, lowest ticket first: node::line of quorlock-core. Needs `line`, `line_key`, `millis` and `place`.
-- The line is one string: no later than when the first place in it ends, and when the last one does, as '<13 digits> <13
-- digits>', and then for each place ';<ticket> <s or x> <channel> <its last millisecond>', which is 83 characters long.
local function drop_lapsed()
  if not line or tonumber(string.sub(line, 1, 13)) >= millis then return end
  local kept, first, last = {}, nil, nil
  for from = 28, #line, 83 do
    local till = string.sub(line, from + 70, from + 82)
    if tonumber(till) >= millis then
      kept[#kept + 1] = string.sub(line, from, from + 82)
      if not first or till < first then first = till end
      if not last or till > last then last = till end
    end
  end
  line = first and first .. ' ' .. last .. table.concat(kept)
end

local function count_all() return line and (#line - 27) / 83 or 0 end

-- Digits of one length compare as text in every locale; hexadecimal ones are compared by their value.
local function is_lower(one, other)
  local at, other_at = string.sub(one, 1, 16), string.sub(other, 1, 16)
  if at ~= other_at then return at < other_at end
  local high, other_high = tonumber(string.sub(one, 18, 25), 16), tonumber(string.sub(other, 18, 25), 16)
  if high ~= other_high then return high < other_high end
  return tonumber(string.sub(one, 26, 33), 16) < tonumber(string.sub(other, 26, 33), 16)
end

-- How many have a lower ticket than the asker; all of them, if it has none. And where its own place is, if it has one.
local function look_up()
  if place == '' or not line then return count_all() end
  local own = string.find(line, ';' .. place, 1, true)
  if own then return (own - 28) / 83, own end
  local low, high = 0, count_all()
  -- Most come last.
  local middle = high - 1
  while low < high do
    if is_lower(string.sub(line, middle * 83 + 29, middle * 83 + 61), place) then low = middle + 1 else high = middle end
    middle = math.floor((low + high) / 2)
  end
  return low
end

-- How many of the first so many are in the way. Those who share pass others who do: for them, one tells as much as all.
local function count_ahead(before, shares)
  if not shares then return before end
  for from = 28, 27 + before * 83, 83 do
    if string.sub(line, from + 35, from + 35) == 'x' then return 1 end
  end
  return 0
end

local function keep_place(before, own)
  local till = string.format('%013.0f', millis + ENTRY_LEASE)
  local first, last = till, till
  if line then first, last = string.sub(line, 1, 13), string.sub(line, 15, 27) end
  if till < first then first = till end
  if till > last then last = till end
  local from = 28 + before * 83
  line = first .. ' ' .. last .. string.sub(line or '', 28, from - 1) .. ';' .. place .. ' ' .. till
    .. string.sub(line or '', own and from + 83 or from)
  --#write_line
end

-- Tells the first in line that a vote may be had, if it could have one now.
-- `taken` is nil when no vote stands, else how it is held; `room` says whether a slot is free.
local function give_hint(taken, room)
  if count_all() == 0 then return end
  local shares = string.sub(line, 63, 63) == 's'
  if not taken or taken == 's' and shares or taken == 'k' and room then
    redis.pcall('PUBLISH', HINT_CHANNEL .. string.sub(line, 65, 96), string.sub(line, 29, 61))
  end
end
