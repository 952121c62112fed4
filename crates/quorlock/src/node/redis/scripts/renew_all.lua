-- Renews the votes of several exclusive attempts, like acquire.lua for each. If the votes are unchanged, this script
-- needs fewer commands: it reads all votes with one command, and then extends the fence and the vote of each.
-- The votes are not declared as keys: otherwise an ACL that denies one of them would fail the whole command.
-- ARGV  1 the text of the epoch key ('epoch floor')   2 ttl (ms)   3 max clock skew (us)   4 fence retention (ms)   5 holder
--       6 'repair' or 'renew'; then for each attempt: the vote's key (each key once), the attempt, the fence
-- Returns {now, and for each attempt its fence, or the result of acquire.lua, or an error}
local function acquire(KEYS, ARGV)
  --#acquire
end
local mark, ttl, skew, retention, holder, verb = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local wanted = {EPOCH_KEY}
for i = 1, (#ARGV - 6) / 3 do
  local of = i * 3
  local key, attempt = ARGV[of + 4], ARGV[of + 5]
  -- Reject values that would not be read back as written.
  if not (#attempt == 32 and string.find(attempt, '^%x+$')) then return redis.error_reply('ERR not an attempt') end
  wanted[of - 1], wanted[of], wanted[of + 1] = key, FENCE_OF .. key, DONE_OF .. attempt
end
--#each
local got = redis.pcall('MGET', unpack(wanted))
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
-- PEXPIRE with zero would delete the key instead of extending it.
local function is_time(text) return string.find(text, '^0*[1-9]%d*$') end
local is_sound = not got.err and got[1] == mark and verb ~= 'acquire' and is_time(ttl) and #ttl < 9 and is_time(retention)
local gave = {now}
for i = 1, (#ARGV - 6) / 3 do
  local of = i * 3
  local key, attempt, asked = ARGV[of + 4], ARGV[of + 5], ARGV[of + 6]
  if is_sound and got[of - 1] == attempt and not got[of + 1] and got[of] and string.find(asked, '^%d+$') then
    local fence, by, who = string.match(got[of], '^(%d+) (%x+) %d+ %- (.*)$')
    if by == attempt and who == holder then
      -- Extend the fence first, because a vote must not outlive its fence. Never shorten a vote.
      local kept = redis.pcall('PEXPIRE', wanted[of], retention)
      if kept == 1 then kept = redis.pcall('PTTL', key) end
      if type(kept) == 'number' then kept = redis.pcall('PEXPIRE', key, math.max(ttl, kept)) end
      if kept == 1 then gave[i + 1] = tonumber(fence) end
    end
  end
  if not gave[i + 1] then
    gave[i + 1] = each(acquire, {EPOCH_KEY, key, wanted[of], wanted[of + 1], QUEUE_OF .. key, KEPT_OF .. key},
      {mark, verb, asked, ttl, skew, retention, holder, ''})
  end
end
return gave
