-- What a vote begins with: whether this life of the node may vote, and what it has stored.
local got = redis.call('MGET', KEYS[1], KEYS[2], KEYS[3], KEYS[4])
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local millis = math.floor(now / 1000)
if got[1] ~= ARGV[1] then return {-1, now} end
if got[4] then return {-2, now} end
local vote, holds, line, kept = got[2], KEYS[5], KEYS[6], KEYS[7]
local attempt, asked, sigma, verb = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[5]), ARGV[8]
local at, place = ARGV[9], ARGV[10]
local fence, by, since, ticket, who
if got[3] then
  -- Whatever became of the rest, a fence is not forgotten.
  fence, by, since, ticket, who = string.match(got[3], '^(%d+) ?(%x*) ?(%d*) ?(%S*) ?(.*)$')
  fence = tonumber(fence)
end
