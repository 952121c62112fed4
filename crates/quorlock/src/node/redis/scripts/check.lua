-- Checks whether an attempt's vote exists, and changes nothing. Mirrors `check` of quorlock-core's node::inspect.
-- KEYS  1 epoch   2 vote   3 the attempt's tombstone   4 holds
-- ARGV  1 the text of the epoch key ('epoch floor')   2 attempt   3 the slot that the attempt must have, or ''
-- Returns {3, now, left} the vote exists   {-1, now} wrong epoch   {-11, now} new roster
--         {-2, now} tombstoned   {-4, now} absent
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local millis = math.floor(now / 1000)
local got, holds, attempt = redis.call('MGET', KEYS[1], KEYS[2], KEYS[3]), KEYS[4], ARGV[2]
--#life
local vote = got[2]
--#other_epoch
if got[3] then return {-2, now} end
if vote == attempt and ARGV[3] == '' then return {3, now, redis.call('PTTL', KEYS[2])} end
--#held_mode
if not kind then return {-4, now} end
local known = redis.call('HMGET', holds, 'held_mode', attempt)
local till, whose = string.match(known[1] == vote and known[2] or '', '^(%d+) (%w+) ')
if not till or tonumber(till) < millis then return {-4, now} end
if ARGV[3] ~= (kind == 'k' and whose or '') then return {-4, now} end
return {3, now, till - millis}
