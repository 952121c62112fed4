-- Who waits, lowest ticket first: node::queue of quorlock-core. Needs `queue`, `kept`, `millis`, `at` and `place`.
-- A place is '<ticket id> <s or x> <channel>'. It is in two sorted sets: in `queue` by its ticket's time, where the ids
-- decide between equal times, and in `kept` by its last millisecond. What is in `kept` alone has left the queue.
local function drop_lapsed()
  local lapsed = redis.call('ZRANGEBYSCORE', kept, '-inf', '(' .. string.format('%.0f', millis))
  for _, gone in ipairs(lapsed) do
    redis.call('ZREM', queue, gone)
    redis.call('ZREM', kept, gone)
    --#forget_request
  end
end

-- Hexadecimal digits by their value: compared as text they would follow the server's locale.
local function is_lower(time, id, other_time, other_id)
  if time ~= other_time then return time < other_time end
  local high, other_high = tonumber(string.sub(id, 1, 8), 16), tonumber(string.sub(other_id, 1, 8), 16)
  if high ~= other_high then return high < other_high end
  return tonumber(string.sub(id, 9, 16), 16) < tonumber(string.sub(other_id, 9, 16), 16)
end

-- Puts the place in the queue, or keeps it there for longer. Whether it is a new one, as 1 or 0. The sets end later than anything in them, also when the clock has
-- been set back.
local function keep_place()
  if not (#place == 51 and string.find(place, '^%x+ [sx] %x+$') and string.sub(place, 17, 17) == ' '
    and string.find(at, '^%d+$')) then
    error('not a place in queue')
  end
  redis.call('ZADD', kept, millis + ENTRY_LEASE, place)
  redis.call('PEXPIRE', kept, ENTRY_LEASE * 10)
  local added = redis.call('ZADD', queue, at, place)
  redis.call('PEXPIRE', queue, ENTRY_LEASE * 10)
  return added
end
