-- The start of every vote. Reads the stored state, and checks the text of the epoch key: a node votes only if its
-- incarnation (one life of the node's memory) is the one that the client knows.
local got = redis.call('MGET', KEYS[1], KEYS[2], KEYS[3], KEYS[4])
--#life
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local millis = math.floor(now / 1000)
--#other_epoch
if got[4] then return {-2, now} end
local vote, queue, kept, holds = got[2], KEYS[5], KEYS[6], KEYS[7]
local attempt, verb, ticket = string.sub(KEYS[4], -32), ARGV[2], string.sub(ARGV[8], 1, 33)
local at, waiter = string.sub(ticket, 1, 16), string.sub(ARGV[8], 18)
-- Read the fence even if the rest of the value is malformed: a fence must not be forgotten.
local fence = got[3] and tonumber(string.match(got[3], '^%d+'))
