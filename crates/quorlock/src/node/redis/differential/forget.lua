-- Removes the expired entries and queue positions of a name, as quorlock-core's node does before each request.
-- KEYS 1 holds  2 queue  3 kept  4 asked   ARGV 1 the current millisecond
local entries = redis.call('HGETALL', KEYS[1])
for i = 1, #entries, 2 do
  local till = string.match(entries[i + 1], '^(%d+) %w+ %d+$')
  if till and tonumber(till) < tonumber(ARGV[1]) then redis.call('HDEL', KEYS[1], entries[i]) end
end
for _, waiter in ipairs(redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', '(' .. ARGV[1])) do
  redis.call('ZREM', KEYS[2], waiter)
  redis.call('ZREM', KEYS[3], waiter)
  redis.call('HDEL', KEYS[4], waiter)
end
