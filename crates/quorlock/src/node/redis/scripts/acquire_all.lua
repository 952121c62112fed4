-- Votes for several exclusive attempts, like acquire.lua for each. If the locks are free, this script needs fewer commands: it
-- reads all locks with one command, and then writes the fence and the vote of each.
-- The votes are not declared as keys: otherwise an ACL that denies one of them would fail the whole command.
-- ARGV  1 the text of the epoch key ('epoch floor')   2 ttl (ms)   3 max clock skew (us)   4 fence retention (ms)   5 holder;
--       then for each attempt: the vote's key (each key once), the attempt, the proposed fence, ARGV[8] of acquire.lua
-- Returns {now, and for each attempt its fence, or the result of acquire.lua, or an error}
local function acquire(KEYS, ARGV)
  --#acquire
end
local mark, ttl, skew, retention, holder = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local wanted, queues = {EPOCH_KEY}, {}
for i = 1, (#ARGV - 5) / 4 do
  local of, at = i * 4 + 2, i * 3
  local key, attempt = ARGV[of], ARGV[of + 1]
  -- Reject values that would not be read back as written.
  if not (#attempt == 32 and string.find(attempt, '^%x+$')) then return redis.error_reply('ERR not an attempt') end
  wanted[at - 1], wanted[at], wanted[at + 1] = key, FENCE_OF .. key, DONE_OF .. attempt
  queues[i] = QUEUE_OF .. key
end
--#each
--#quiet
local got = redis.pcall('MGET', unpack(wanted))
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local since = clock[1] .. string.sub('00000', #clock[2]) .. clock[2]
local is_sound = not got.err and got[1] == mark and string.find(ttl, '^%d+$') and #ttl < 9
-- The floor (the number at or below which the node grants no fence) follows the 32 digits of the epoch.
local floor = is_sound and tonumber(string.sub(mark, 34))
local gave = {now}
for i in ipairs(queues) do
  local of, at = i * 4 + 2, i * 3
  local key, attempt, proposal, waiter = ARGV[of], ARGV[of + 1], ARGV[of + 2], ARGV[of + 3]
  local fence = got[at] and tonumber(string.match(got[at], '^%d+'))
  local asked = string.find(proposal, '^%d+$') and tonumber(proposal)
  if is_sound and not got[at - 1] and not got[at + 1] and fence ~= FENCE_MAX and asked
    and asked <= math.min(math.max(now + skew, fence and fence + 1 or 0), FENCE_MAX) and is_quiet(i) then
    fence = math.max(asked, floor, fence and fence + 1 or now - skew)
    local digits = fence == asked and proposal or string.format('%.0f', fence)
    -- Write the fence first: if the server runs out of memory in between, no vote may exist without its fence.
    local stored = redis.pcall('SET', wanted[at], digits .. ' ' .. attempt .. ' ' .. since .. ' '
      .. (waiter == '' and '-' or string.sub(waiter, 1, 33)) .. ' ' .. holder, 'PX', retention)
    if not stored.err then stored = redis.pcall('SET', key, attempt, 'NX', 'PX', ttl) end
    if stored then
      gave[i + 1] = stored.err and fault(stored) or fence
    else
      -- The key has another type: restore the fence, and let acquire.lua handle the request.
      redis.call(unpack(got[at] and {'SET', wanted[at], got[at], 'KEEPTTL'} or {'DEL', wanted[at]}))
    end
  end
  if not gave[i + 1] then
    gave[i + 1] = each(acquire, {EPOCH_KEY, key, wanted[at], wanted[at + 1], queues[i], KEPT_OF .. key},
      {mark, 'acquire', proposal, ttl, skew, retention, holder, waiter})
  end
end
return gave
