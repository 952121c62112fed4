-- Executes a client's command about the roster. Mirrors `apply_roster` of quorlock-core's node::roster rule by rule.
-- KEYS  1 epoch: the life and the generation (16 digits each), and if the node may vote, a space and the floor
--       2 membership: the other facts, in the lines of node/membership_text.rs. A node without one of the keys is blank
-- ARGV  1 the command, then its arguments
-- Returns {accepted, now, the text of the epoch key, the membership}; the last two are '' if the node is blank
local got = redis.call('MGET', KEYS[1], KEYS[2])
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local command = ARGV[1]

local function number(x) return string.format('%.0f', x) end

-- Reject values that would not be read back as written: they could let a node vote too early, or never again.
local function is_count(x) return x and #x < 16 and (x == '0' or string.find(x, '^[1-9]%d*$')) end
local function is_hex(x, digits) return x and #x == digits and string.find(x, '^[0-9a-f]+$') end
local function is_word(x) return x and string.find(x, '^[!-~]*$') end

-- Returns whether a text is UTF-8 without control characters.
local function is_text(x)
  for _, character in ipairs({'\194[\160-\191]', '[\195-\223][\128-\191]', '\224[\160-\191][\128-\191]',
    '[\225-\236\238\239][\128-\191][\128-\191]', '\237[\128-\159][\128-\191]', '\240[\144-\191][\128-\191][\128-\191]',
    '[\241-\243][\128-\191][\128-\191][\128-\191]', '\244[\128-\143][\128-\191][\128-\191]'}) do
    x = string.gsub(x, character, ' ')
  end
  return string.find(x, '^[ -~]*$')
end

-- Returns what the rules need to know about a roster, or nil if the text is no roster.
local function read_roster(text)
  local cluster, generation, max_ttl, skew, trusts, longest, before, template, members =
    string.match(text or '', '^(%w+) (%d+) (%d+) (%d+) ([01]) (%d+)\t([^\t]*)\t([^\t]*)(\t.*)$')
  return cluster and {cluster = cluster, generation = tonumber(generation), digits = generation, max_ttl = max_ttl,
    skew = skew, trusts = trusts == '1', longest = longest, before = before, members = members}
end

-- Returns whether every part of a text is sound. The separator precedes each part.
local function all(text, separator, is_sound)
  for part in string.gmatch(text, separator .. '([^' .. separator .. ']*)') do
    if not is_sound(part) then return false end
  end
  return true
end
local function is_member(text)
  local id, since = string.match(text, '^(%w+) (%d+) ')
  return is_hex(id, 32) and is_count(since)
end
local function is_roster(text)
  local roster = read_roster(text)
  return roster and is_hex(roster.cluster, 32) and is_count(roster.digits) and roster.generation > 0
    and is_count(roster.max_ttl) and is_count(roster.skew) and is_count(roster.longest) and #roster.longest < 13
    and (roster.before == '' or all(' ' .. roster.before, ' ', function(id) return is_hex(id, 32) end))
    and all(roster.members, '\t', is_member) and is_text((string.gsub(text, '\t', ' ')))
end
local sound = command == 'identify' and is_word(ARGV[2]) and ARGV[2] ~= '' and is_word(ARGV[3]) and is_hex(ARGV[4], 32)
    and is_hex(ARGV[5], 16) and is_count(string.match(ARGV[6] or '', '^%-?(.*)$'))
  or command == 'promise' and is_count(ARGV[2]) and is_hex(ARGV[3], 32) and (ARGV[4] == 'members' or ARGV[4] == 'seats')
  or command == 'accept' and is_hex(ARGV[2], 32) and is_roster(ARGV[3])
  or command == 'install' and is_roster(ARGV[2])
  or command == 'settle' and is_count(ARGV[2])
  or command == 'claim' and is_hex(ARGV[2], 16) and is_count(ARGV[3]) and is_count(ARGV[4])
if not sound then return redis.error_reply('ERR not a roster command') end

local run, promotion, member, former, settled, promised, quarantine, roster, accepted
local mark, stored, life, floor = got[1], got[2], nil, nil
local blank, done = not (mark and stored), false
if blank then
  mark, stored = '', ''
else
  life, floor = string.sub(mark, 1, 16), tonumber(string.match(mark, ' (%d+)$'))
  run, promotion, member, former, settled, promised, quarantine, roster, accepted =
    string.match(stored, '^' .. string.rep('([^\n]*)\n', 8) .. '([^\n]*)$')
  if not run then return redis.error_reply('ERR the stored membership is malformed') end
end
local known = read_roster(roster)
local generation = known and known.generation or 0

-- Returns the generation since which this id is a member of a roster; false or nil if it is no member.
local function since_of(of, id)
  return of and id ~= '' and tonumber(string.match(of.members, '\t' .. id .. ' (%d+) '))
end

-- Returns a floor that is this far from the clock.
local function floor_at(offset) return math.min(math.max(now + offset, 0), FENCE_MAX) end

-- Returns whether a promise is higher than another one. Compares hexadecimal digits by value: a comparison of strings
-- would depend on the server's locale.
local function is_higher(one, other)
  local decides, ballot = string.match(one, '^(%d+) (%w+)$')
  local other_decides, other_ballot = string.match(other, '^(%d+) (%w+)$')
  if decides ~= other_decides then return tonumber(decides) > tonumber(other_decides) end
  for at = 1, 25, 8 do
    local part, other_part = tonumber(string.sub(ballot, at, at + 7), 16), tonumber(string.sub(other_ballot, at, at + 7), 16)
    if part ~= other_part then return part > other_part end
  end
  return false
end

-- Returns whether the server's memory may have been replaced: the run or the promotion in ARGV differs from the stored one.
local function is_replaced()
  for part in string.gmatch(ARGV[3], '[^+]+') do
    if not string.find('+' .. promotion .. '+', '+' .. part .. '+', 1, true) then return true end
  end
  return run ~= ARGV[2]
end

-- Gives the server an id for a memory that knows nothing.
local function begin()
  run, promotion, member, life, former, settled = ARGV[2], ARGV[3], ARGV[4], ARGV[5], '', '0'
  promised, quarantine, accepted, floor = '', '', '', nil
end

if command == 'identify' then
  -- 2 run  3 promotion  4 fresh id  5 fresh life  6 floor's offset from the clock, if restarts are trusted
  if blank then
    begin()
    roster = ''
  elseif is_replaced() then
    if known and known.trusts then
      floor = floor and math.max(floor, floor_at(ARGV[6]))
      run, promotion, life = ARGV[2], ARGV[3], ARGV[5]
      -- The memory may be older than the last promise.
      promised = ''
    else
      -- The roster stays: it is only a sign that the server belonged to a cluster.
      begin()
    end
  elseif member == '' then
    member, life = ARGV[4], ARGV[5]
  end
  done = true
elseif blank then
  return {0, now, '', ''}
elseif command == 'promise' then
  -- 2 generation to be decided  3 ballot  4 who decides
  local asked = ARGV[2] .. ' ' .. ARGV[3]
  if ARGV[4] == 'members' then
    done = since_of(known, member) and tonumber(ARGV[2]) == generation + 1
  else
    done = member ~= '' and tonumber(ARGV[2]) > generation
  end
  -- A repeated request gets the same answer.
  done = done and not (promised ~= '' and is_higher(promised, asked))
  if done then promised = asked end
elseif command == 'accept' then
  -- 2 ballot  3 roster. A memory that did not give the promise does not know what it had accepted before.
  done = promised == read_roster(ARGV[3]).digits .. ' ' .. ARGV[2]
  if done then accepted = ARGV[2] .. ' ' .. ARGV[3] end
elseif command == 'install' then
  -- 2 roster
  local new = read_roster(ARGV[2])
  if known and (known.cluster ~= new.cluster and new.before ~= '' or generation >= new.generation) then
    done = roster == ARGV[2]
  else
    local was_member = since_of(known, member)
    local since = since_of(new, member)
    if promised ~= '' and tonumber(string.match(promised, '^%d+')) <= new.generation then promised = '' end
    if accepted ~= '' and read_roster(string.sub(accepted, 34)).generation <= new.generation then accepted = '' end
    settled = '0'
    if not since then
      if was_member then former, member = member, '' end
      floor, quarantine = nil, ''
    elseif (was_member and generation or 0) < since then
      floor, quarantine = nil, number(since) .. ' ' .. number(new.longest * 1100) .. ' 0'
    end
    known, generation, roster, done = new, new.generation, ARGV[2], true
  end
elseif command == 'settle' then
  -- 2 generation
  done = tonumber(ARGV[2]) == generation
  if done then settled = '1' end
elseif command == 'claim' then
  -- 2 life  3 the generation that ordered the quarantine  4 how much of it has passed
  local since, micros, elapsed = string.match(quarantine, '^(%d+) (%d+) (%d+)$')
  done = since == ARGV[3] and life == ARGV[2]
  if done then
    -- The highest claim counts, never the sum.
    elapsed = math.max(elapsed, ARGV[4])
    quarantine = since .. ' ' .. micros .. ' ' .. number(elapsed)
    if elapsed >= tonumber(micros) then floor, quarantine = floor_at(known and -known.skew or 0), '' end
  end
end

local new_stored = table.concat({run, promotion, member, former, settled, promised, quarantine, roster, accepted}, '\n')
local new_mark = life .. string.format('%016x', generation) .. (floor and ' ' .. number(floor) or '')
if stored ~= new_stored then redis.call('SET', KEYS[2], new_stored) end
-- Clients watch the epoch: write it only if it has changed.
if mark ~= new_mark then redis.call('SET', KEYS[1], new_mark) end
return {done and 1 or 0, now, new_mark, new_stored}
