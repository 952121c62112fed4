-- The queue, lowest ticket first. Mirrors quorlock-core's node::queue. Needs `queue`, `kept`, `millis`, `at` and
-- `waiter`. A waiter is '<ticket id> <s or x> <channel>'. Each waiter is in two sorted sets: `queue`, sorted by the
-- ticket's time and then by id, and `kept`, sorted by the waiter's last millisecond. A waiter that is only in `kept`
-- has left the queue.

-- Removes the waiters whose positions have expired.
local function drop_lapsed()
  local lapsed = redis.call('ZRANGEBYSCORE', kept, '-inf', '(' .. string.format('%.0f', millis))
  for _, gone in ipairs(lapsed) do
    redis.call('ZREM', queue, gone)
    redis.call('ZREM', kept, gone)
    --#forget_request
  end
end

-- Compares hexadecimal digits by value: a comparison of strings would depend on the server's locale.
local function is_lower(time, id, other_time, other_id)
  if time ~= other_time then return time < other_time end
  local high, other_high = tonumber(string.sub(id, 1, 8), 16), tonumber(string.sub(other_id, 1, 8), 16)
  if high ~= other_high then return high < other_high end
  return tonumber(string.sub(id, 9, 16), 16) < tonumber(string.sub(other_id, 9, 16), 16)
end

-- Adds the waiter to the queue, or keeps its position for longer. Returns 1 if the waiter is new, and 0 if not. Each
-- set expires later than its waiters, even if the clock was set back.
local function keep_position()
  if not (#waiter == 51 and string.find(waiter, '^%x+ [sx] %x+$') and string.sub(waiter, 17, 17) == ' '
    and string.find(at, '^%d+$')) then
    error('malformed waiter')
  end
  redis.call('ZADD', kept, millis + ENTRY_LEASE, waiter)
  redis.call('PEXPIRE', kept, ENTRY_LEASE * 10)
  local added = redis.call('ZADD', queue, at, waiter)
  redis.call('PEXPIRE', queue, ENTRY_LEASE * 10)
  return added
end
