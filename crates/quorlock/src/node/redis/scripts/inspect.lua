-- Reports the state of a name. Removes expired queue positions, and changes nothing else. Mirrors `report` of
-- quorlock-core's node::inspect.
-- KEYS  1 vote   2 fence   3 queue   4 kept   5 holds
-- Returns {2, now, fence, since, waiting, queue}; if there is a vote, also the time left (ms), held_mode, number of
--         holders, who, the vote's digest ('' if the fence belongs to this vote), and 1 if the vote was broken.
--         A held mode is 'x', 'r <owner>', 's' or 'k <number of slots>'. `waiting` is the number of waiters. `queue`
--         lists the first waiters, each followed by the time of its ticket.
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local millis = math.floor(now / 1000)
local got = redis.call('MGET', KEYS[1], KEYS[1], KEYS[2])
local vote, queue, kept, holds = got[1], KEYS[3], KEYS[4], KEYS[5]
--#note
--#queue
drop_lapsed()
local fence = tonumber(string.match(got[3] or '0', '^%d+'))
local report = {2, now, fence, tonumber(began) or 0, redis.call('ZCARD', queue),
  redis.call('ZRANGE', queue, 0, QUEUE_LISTED_MAX - 1, 'WITHSCORES')}
--#digest
if not vote then
  -- MGET returns nil for a key of another type: another program holds the lock.
  local left = redis.call('PTTL', KEYS[1])
  if left == -2 then return report end
  local other = 'TYPE ' .. (redis.pcall('TYPE', KEYS[1]).ok or 'unknown')
  report[7], report[8], report[9], report[10], report[11], report[12] = left, 'x', 1, other, digest(other), 0
  return report
end
--#held_mode
--#entries
local held_mode, count = 'x', 1
if kind then
  held_mode = detail == '' and kind or kind .. ' ' .. detail
  count = math.max(#read_entries(), 1)
end
report[7], report[8], report[9] = redis.call('PTTL', KEYS[1]), held_mode, count
report[10], report[11] = by == signed and who or '', by == signed and '' or digest(signed)
report[12] = broken_digest(signed) and 1 or 0
return report
