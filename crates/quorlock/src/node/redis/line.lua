-- Who waits, lowest ticket first: node::line of quorlock-core. Needs `line`, `kept`, `millis`, `at` and `place`.
-- A place is '<ticket id> <s or x> <channel>'. It is in two sorted sets: in `line` by its ticket's time, where the ids
-- decide between equal times, and in `kept` by its last millisecond.
local function whole(x) return string.format('%.0f', x) end

local function drop_lapsed()
  for _, gone in ipairs(redis.call('ZRANGEBYSCORE', kept, '-inf', '(' .. whole(millis))) do
    redis.call('ZREM', line, gone)
    redis.call('ZREM', kept, gone)
  end
end

-- Hexadecimal digits by their value: compared as text they would follow the server's locale.
local function is_lower(id, other)
  local high, other_high = tonumber(string.sub(id, 1, 8), 16), tonumber(string.sub(other, 1, 8), 16)
  if high ~= other_high then return high < other_high end
  return tonumber(string.sub(id, 9, 16), 16) < tonumber(string.sub(other, 9, 16), 16)
end

-- How many have a lower ticket than the asker; all of them, if it has none.
local function count_before()
  if at == '' then return redis.call('ZCARD', line) end
  local rank = redis.call('ZRANK', line, place)
  if rank then return rank end
  local before = redis.call('ZCOUNT', line, '-inf', '(' .. at)
  for _, other in ipairs(redis.call('ZRANGEBYSCORE', line, at, at)) do
    if is_lower(other, place) then before = before + 1 end
  end
  return before
end

-- How many of the first so many are in the way. Those who share pass others who do: for them, one tells as much as all.
local function count_ahead(before, shares)
  if not shares then return before end
  for from = 0, before - 1, 64 do
    for _, other in ipairs(redis.call('ZRANGE', line, from, math.min(from + 63, before - 1))) do
      if string.sub(other, 18, 18) == 'x' then return 1 end
    end
  end
  return 0
end

local function keep_place()
  redis.call('ZADD', kept, whole(millis + ENTRY_LEASE), place)
  redis.call('ZADD', line, at, place)
  local last = whole(redis.call('ZREVRANGE', kept, 0, 0, 'WITHSCORES')[2])
  redis.call('PEXPIREAT', kept, last)
  redis.call('PEXPIREAT', line, last)
end

local function leave_line()
  redis.call('ZREM', line, place)
  redis.call('ZREM', kept, place)
end

-- Whom to tell that a vote may be had, as a channel and a ticket: the first in line, if it could have one now.
-- `taken` is nil when no vote stands, else how it is held; `room` says whether a slot is free.
local function hint_for(taken, room)
  local first, score = unpack(redis.call('ZRANGE', line, 0, 0, 'WITHSCORES'))
  if not first then return end
  local shares = string.sub(first, 18, 18) == 's'
  if not taken or taken == 's' and shares or taken == 'k' and room then
    return string.sub(first, 20), whole(score) .. '-' .. string.sub(first, 1, 16)
  end
end
