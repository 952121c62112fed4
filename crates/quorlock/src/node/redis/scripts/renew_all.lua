-- Renews the votes of several exclusive attempts, like acquire.lua for each attempt. If the attempts still have their
-- votes, this script needs fewer commands: it reads all votes with one command, and then extends the fence and the vote
-- of each attempt.
-- The keys of the votes are arguments and not KEYS: if an ACL denies one of KEYS, the server refuses the whole call.
-- ARGV  1 the text of the epoch key ('epoch floor')   2 ttl (ms)   3 max clock skew (us)   4 fence retention (ms)
--       5 holder   6 'repair' or 'renew'; then for each attempt: the vote's key (each key once), the attempt, the fence
-- Returns {now, and for each attempt its fence, or the result of acquire.lua, or an error}
local function acquire(KEYS, ARGV)
  --#acquire
end
local epoch_text, ttl, skew, retention, holder, verb = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local keys = {EPOCH_KEY}
for i = 1, (#ARGV - 6) / 3 do
  local index = i * 3
  local key, attempt = ARGV[index + 4], ARGV[index + 5]
  -- Reject values that would not be read back as written.
  if not (#attempt == 32 and string.find(attempt, '^%x+$')) then return redis.error_reply('ERR not an attempt') end
  keys[index - 1], keys[index], keys[index + 1] = key, FENCE_OF .. key, DONE_OF .. attempt
end
--#each
local values = redis.pcall('MGET', unpack(keys))
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
-- PEXPIRE with zero would delete the key instead of extending it.
local function is_time(text) return string.find(text, '^0*[1-9]%d*$') end
local is_sound = not values.err and values[1] == epoch_text and verb ~= 'acquire' and is_time(ttl) and #ttl < 9
  and is_time(retention)
local results = {now}
for i = 1, (#ARGV - 6) / 3 do
  local index = i * 3
  local key, attempt, lease_fence = ARGV[index + 4], ARGV[index + 5], ARGV[index + 6]
  if is_sound and values[index - 1] == attempt and not values[index + 1] and values[index]
    and string.find(lease_fence, '^%d+$') then
    local fence, by, who = string.match(values[index], '^(%d+) (%x+) %d+ %- (.*)$')
    if by == attempt and who == holder then
      -- Extend the fence first, because a vote must not outlive its fence. Never shorten a vote.
      local kept = redis.pcall('PEXPIRE', keys[index], retention)
      if kept == 1 then kept = redis.pcall('PTTL', key) end
      if type(kept) == 'number' then kept = redis.pcall('PEXPIRE', key, math.max(ttl, kept)) end
      if kept == 1 then results[i + 1] = tonumber(fence) end
    end
  end
  if not results[i + 1] then
    results[i + 1] = each(acquire, {EPOCH_KEY, key, keys[index], keys[index + 1], QUEUE_OF .. key, KEPT_OF .. key},
      {epoch_text, verb, lease_fence, ttl, skew, retention, holder, ''})
  end
end
return results
