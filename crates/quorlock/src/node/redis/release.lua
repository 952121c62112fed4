-- Takes a vote back: `release` of quorlock-core's node::apply.
-- KEYS  1 vote   2 the attempt's tombstone
-- ARGV  1 attempt   2 how long the tombstone stands (ms), or ''
-- Gives {1, now} taken back   {-4, now} there was nothing to take back
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local code = -4
if redis.pcall('GET', KEYS[1]) == ARGV[1] then
  redis.call('DEL', KEYS[1])
  code = 1
end
-- After the vote is gone, whatever happens to the tombstone; an error keeps the release owed.
if ARGV[2] ~= '' then
  local left = math.max(tonumber(ARGV[2]), redis.call('PTTL', KEYS[2]))
  local till = string.format('%.0f', math.floor(now / 1000) + left)
  local done = redis.pcall('SET', KEYS[2], '1', 'PXAT', till)
  if done.err then return done end
end
return {code, now}
