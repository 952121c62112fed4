-- Tries every command of the other scripts on an unused key and a channel without subscribers. Leaves nothing behind.
-- KEYS  1 key   ARGV  1 channel
-- Returns a list with each command that failed, followed by the server's error
local failures = {}
local function note(command, answer)
  local why = type(answer) == 'table' and answer.err
  if why then
    failures[#failures + 1] = command
    failures[#failures + 1] = why
  end
  return not why
end
local function try(command, ...)
  return note(command, redis.pcall(command, ...))
end

local key = KEYS[1]
try('TIME')
try('PUBLISH', ARGV[1], '')
note('PUBSUB NUMSUB', redis.pcall('PUBSUB', 'NUMSUB', ARGV[1]))
try('SCAN', '0', 'COUNT', '1')
for _, command in ipairs({'GET', 'MGET', 'EXISTS', 'PTTL', 'TYPE', 'HLEN', 'HGETALL', 'ZCARD'}) do try(command, key) end
for _, command in ipairs({'HMGET', 'ZSCORE', 'ZRANK'}) do try(command, key, 'a') end
for _, command in ipairs({'ZRANGE', 'ZRANGEBYSCORE', 'ZCOUNT'}) do try(command, key, 0, 0) end
-- SET must be the first write: after a script has written, the server lets the script continue even if memory is full.
-- A later SET would not show that.
try('SET', key, '', 'PX', 1000)
try('PEXPIRE', key, 1000)
try('PEXPIREAT', key, 0)
-- Create other types only if the key can be deleted again.
if try('DEL', key) then
  try('HDEL', key, 'a')
  try('HSET', key, 'a', '')
  redis.pcall('DEL', key)
  try('ZADD', key, 0, 'a')
  try('ZREM', key, 'a')
  redis.pcall('DEL', key)
end
return failures
