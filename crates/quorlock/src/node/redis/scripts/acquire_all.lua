-- Votes for several attempts that want to be alone: acquire.lua for each. Where nobody is in the way, with fewer commands:
-- one look for all of them, and for each its fence and its vote.
-- The votes are no keys of the command: a server that keeps one of them from us would refuse all.
-- ARGV  1 the epoch's mark   2 ttl (ms)   3 skew (us)   4 fence retention (ms)   5 holder; and of each
--       its vote, no two the same, attempt, proposal, and the place in the queue as of acquire.lua
-- Gives {now, and of each its fence, or else what acquire.lua gives, or an error}
local function acquire(KEYS, ARGV)
  --#acquire
end
local mark, ttl, skew, retention, holder = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local wanted, queues = {EPOCH_KEY}, {}
for i = 1, (#ARGV - 5) / 4 do
  local of, at = i * 4 + 2, i * 3
  local key, attempt = ARGV[of], ARGV[of + 1]
  -- What could not be read again is not written.
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
-- The floor stands behind the 32 digits of the epoch.
local floor = is_sound and tonumber(string.sub(mark, 34))
local gave = {now}
for i in ipairs(queues) do
  local of, at = i * 4 + 2, i * 3
  local key, attempt, proposal, place = ARGV[of], ARGV[of + 1], ARGV[of + 2], ARGV[of + 3]
  local fence = got[at] and tonumber(string.match(got[at], '^%d+'))
  local asked = string.find(proposal, '^%d+$') and tonumber(proposal)
  if is_sound and not got[at - 1] and not got[at + 1] and fence ~= FENCE_MAX and asked
    and asked <= math.min(math.max(now + skew, fence and fence + 1 or 0), FENCE_MAX) and is_quiet(i) then
    fence = math.max(asked, floor, fence and fence + 1 or now - skew)
    local digits = fence == asked and proposal or string.format('%.0f', fence)
    -- The fence first: a vote without its fence must not survive a server that runs out of memory in between.
    local stored = redis.pcall('SET', wanted[at], digits .. ' ' .. attempt .. ' ' .. since .. ' '
      .. (place == '' and '-' or string.sub(place, 1, 33)) .. ' ' .. holder, 'PX', retention)
    if not stored.err then stored = redis.pcall('SET', key, attempt, 'NX', 'PX', ttl) end
    if stored then
      gave[i + 1] = stored.err and fault(stored) or fence
    else
      -- A key of another type: acquire.lua finds out more, and the fence is to be as it was.
      redis.call(unpack(got[at] and {'SET', wanted[at], got[at], 'KEEPTTL'} or {'DEL', wanted[at]}))
    end
  end
  if not gave[i + 1] then
    gave[i + 1] = each(acquire, {EPOCH_KEY, key, wanted[at], wanted[at + 1], queues[i], KEPT_OF .. key},
      {mark, 'acquire', proposal, ttl, skew, retention, holder, place})
  end
end
return gave
