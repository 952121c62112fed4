-- Votes for several exclusive attempts, like acquire.lua for each attempt. If the locks are free, this script needs
-- fewer commands: it reads all locks with one command, and then writes the fence and the vote of each lock.
-- The keys of the votes are arguments and not KEYS: if an ACL denies one of KEYS, the server refuses the whole call.
-- ARGV  1 the text of the epoch key ('epoch floor')   2 ttl (ms)   3 max clock skew (us)   4 fence retention (ms)
--       5 holder; then for each attempt: the vote's key (each key once), the attempt, the proposed fence, ARGV[8] of
--       acquire.lua (the ticket and the other parts of the queue position, or '')
-- Returns {now, and for each attempt its fence, or the result of acquire.lua, or an error}
local function acquire(KEYS, ARGV)
  --#acquire
end
local epoch_text, ttl, skew, retention, holder = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local keys, queues = {EPOCH_KEY}, {}
for i = 1, (#ARGV - 5) / 4 do
  local arg, index = i * 4 + 2, i * 3
  local key, attempt = ARGV[arg], ARGV[arg + 1]
  -- Reject values that would not be read back as written.
  if not (#attempt == 32 and string.find(attempt, '^%x+$')) then return redis.error_reply('ERR not an attempt') end
  keys[index - 1], keys[index], keys[index + 1] = key, FENCE_OF .. key, DONE_OF .. attempt
  queues[i] = QUEUE_OF .. key
end
--#each
--#quiet
local values = redis.pcall('MGET', unpack(keys))
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local since = clock[1] .. string.sub('00000', #clock[2]) .. clock[2]
local is_sound = not values.err and values[1] == epoch_text and string.find(ttl, '^%d+$') and #ttl < 9
-- The floor (the number at or below which the node grants no fence) follows the 32 digits of the epoch.
local floor = is_sound and tonumber(string.sub(epoch_text, 34))
local results = {now}
for i in ipairs(queues) do
  local arg, index = i * 4 + 2, i * 3
  local key, attempt, proposal, waiter = ARGV[arg], ARGV[arg + 1], ARGV[arg + 2], ARGV[arg + 3]
  local fence = values[index] and tonumber(string.match(values[index], '^%d+'))
  local proposed = string.find(proposal, '^%d+$') and tonumber(proposal)
  if is_sound and not values[index - 1] and not values[index + 1] and fence ~= FENCE_MAX and proposed
    and proposed <= math.min(math.max(now + skew, fence and fence + 1 or 0), FENCE_MAX) and is_quiet(i) then
    fence = math.max(proposed, floor, fence and fence + 1 or now - skew)
    local digits = fence == proposed and proposal or string.format('%.0f', fence)
    -- Write the fence first: if the server runs out of memory in between, no vote may exist without its fence.
    local stored = redis.pcall('SET', keys[index], digits .. ' ' .. attempt .. ' ' .. since .. ' '
      .. (waiter == '' and '-' or string.sub(waiter, 1, 33)) .. ' ' .. holder, 'PX', retention)
    if not stored.err then stored = redis.pcall('SET', key, attempt, 'NX', 'PX', ttl) end
    if stored then
      results[i + 1] = stored.err and fault(stored) or fence
    else
      -- The key has another type: restore the fence, and let acquire.lua handle the request.
      redis.call(unpack(values[index] and {'SET', keys[index], values[index], 'KEEPTTL'} or {'DEL', keys[index]}))
    end
  end
  if not results[i + 1] then
    results[i + 1] = each(acquire, {EPOCH_KEY, key, keys[index], keys[index + 1], queues[i], KEPT_OF .. key},
      {epoch_text, 'acquire', proposal, ttl, skew, retention, holder, waiter})
  end
end
return results
