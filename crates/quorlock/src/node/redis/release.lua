-- Takes a vote back, and gives up or keeps the place in line: `part` of quorlock-core's node::apply.
-- KEYS  1 vote   2 line   3 the attempt's tombstone, which ends with its id   4 holds
-- ARGV  1 the place in line behind 'leave ' or 'yield ', or ''   2 how long the tombstone stands (ms), if there is to be one
-- Gives 1: taken back   -4: there was nothing to take back
local got = redis.call('MGET', KEYS[1], KEYS[2])
local vote, line, line_key, holds = got[1], got[2], KEYS[2], KEYS[4]
local attempt, parting, place = string.sub(KEYS[3], -32), string.sub(ARGV[1], 1, 5), string.sub(ARGV[1], 7)
local code = -4
if vote == attempt then
  redis.call('DEL', KEYS[1])
  vote, code = false, 1
end
local keeps = code == 1 and parting == 'yield'
-- Nobody waits, and nobody else is in: that is all.
if not (vote or line or keeps or ARGV[2]) then return code end

local clock = redis.call('TIME')
local millis = math.floor((clock[1] * 1000000 + clock[2]) / 1000)
--#period
--#entries
if kind then
  local known = redis.call('HMGET', holds, 'period', attempt)
  local till = known[1] == vote and known[2] and tonumber(string.match(known[2], '^(%d+) '))
  if till and till >= millis then
    code = 1
    if not take_back(KEYS[1], attempt, till) then vote, kind = false, nil end
  end
  keeps = code == 1 and parting == 'yield'
end

--#line
drop_lapsed()
local is_told = code == 1
if keeps or parting == 'leave' and line then
  local before, own_place = look_up()
  if keeps then
    keep_place(before, own_place)
    -- Nobody behind one who yields could get the vote, and it is not to wake itself.
    is_told = before > 0
  else
    is_told = is_told or own_place and before == 0
    --#leave
  end
end

-- After the vote is gone, whatever happens to these; an error of the tombstone keeps the release owed.
local done
if ARGV[2] then
  done = redis.pcall('SET', KEYS[3], '1', 'PX', math.max(ARGV[2], redis.call('PTTL', KEYS[3])))
end
if is_told then give_hint(vote and (kind or 'x'), kind == 'k' and #read_entries() < tonumber(detail)) end
if done and done.err then return done end
return code
