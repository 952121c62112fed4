-- KEYS 1 holds  2 line   ARGV 1 the current millisecond
local held = redis.call('HGETALL', KEYS[1])
for i = 1, #held, 2 do
  local till = string.match(held[i + 1], '^(%d+) %w+$')
  if till and tonumber(till) < tonumber(ARGV[1]) then redis.call('HDEL', KEYS[1], held[i]) end
end
local line = redis.call('GET', KEYS[2])
if line then
  local kept = string.gsub(line, ';%S+ %S %x+ (%d+)', function(till)
    if tonumber(till) < tonumber(ARGV[1]) then return '' end
  end)
  if #kept == 27 then redis.call('DEL', KEYS[2]) else redis.call('SET', KEYS[2], kept, 'KEEPTTL') end
end
