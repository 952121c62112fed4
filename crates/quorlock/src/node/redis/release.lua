-- Takes a vote back, and gives up or keeps the place in line: `part` of quorlock-core's node::apply.
-- KEYS  1 vote   2 the attempt's tombstone   3 holds   4 line   5 kept
-- ARGV  1 attempt   2 how long the tombstone stands (ms), or ''   3 'leave', 'yield' or '': what becomes of the place
--       4 the ticket's time, or ''   5 the place in line, or ''
-- Gives {1, now} taken back   {-4, now} there was nothing to take back
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local millis = math.floor(now / 1000)
local attempt, parting, at, place = ARGV[1], ARGV[3], ARGV[4], ARGV[5]
local holds, line, kept = KEYS[3], KEYS[4], KEYS[5]
local vote = redis.pcall('GET', KEYS[1])
if type(vote) ~= 'string' then vote = false end
local code, channel, ticket = -4, nil, nil
if vote == attempt then
  redis.call('DEL', KEYS[1])
  vote, code = false, 1
end

--#period
--#entries
if kind then
  local known = redis.call('HMGET', holds, 'period', attempt)
  local till = known[1] == vote and known[2] and tonumber(string.match(known[2], '^(%d+) '))
  if till and till >= millis then
    code = 1
    if not take_back(KEYS[1], attempt, till) then vote, kind = false, nil end
  end
end

local keeps = code == 1 and parting == 'yield'
if keeps or (code == 1 or parting == 'leave') and redis.call('EXISTS', kept) == 1 then
  --#line
  drop_lapsed()
  local was_first = parting == 'leave' and redis.call('ZRANGE', line, 0, 0)[1] == place
  if parting == 'leave' then leave_line() end
  if keeps then keep_place() end
  -- Nobody behind one who yields could get the vote, and it is not to wake itself.
  local is_next = keeps and redis.call('ZRANK', line, place) == 0
  if (code == 1 or was_first) and not is_next then
    local room = kind == 'k' and #read_entries() < tonumber(detail)
    channel, ticket = hint_for(vote and (kind or 'x'), room)
  end
end

-- After the vote is gone, whatever happens to these; an error of the tombstone keeps the release owed.
local done
if ARGV[2] ~= '' then
  local left = math.max(tonumber(ARGV[2]), redis.call('PTTL', KEYS[2]))
  done = redis.pcall('SET', KEYS[2], '1', 'PXAT', string.format('%.0f', millis + left))
end
if channel then redis.pcall('PUBLISH', HINT_CHANNEL .. channel, ticket) end
if done and done.err then return done end
return {code, now}
