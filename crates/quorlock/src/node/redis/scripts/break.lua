-- Breaks another client's lease. Mirrors quorlock-core's node::breaking.
-- KEYS  1 vote   2 fence   3 queue   4 kept   5 holds
-- ARGV  1 'fence' or 'digest'   2 its value   3 'drain' or 'now'   4 the tombstones' duration (ms)
--       5 the prefix of tombstones' keys
-- Returns {3, now, digest, stood, left} broken; stood is 1 if there was a vote; left is how long it stays (ms)
--         {-4, now} not held
--         {-9, now, fence, digest, who} held by another lease; an unknown fence is 0, and an unknown who is ''
local got = redis.call('MGET', KEYS[1], KEYS[1], KEYS[2])
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local millis = math.floor(now / 1000)
local vote, queue, kept, holds = got[1], KEYS[3], KEYS[4], KEYS[5]
local fence = string.match(got[3] or '', '^%d+')
--#note
--#held_mode
--#entries
--#digest
local is_target = ARGV[1] == 'fence' and fence and tonumber(fence) == tonumber(ARGV[2])

-- Writes a tombstone for the attempt. An attempt that was already broken has one.
local function write_tombstone(attempt)
  if broken_digest(attempt) then return end
  local key = ARGV[5] .. attempt
  local left = math.max(tonumber(ARGV[4]), redis.call('PTTL', key))
  redis.call('SET', key, '1', 'PX', left)
end

if not vote then
  if redis.call('PTTL', KEYS[1]) ~= -2 then
    -- MGET returns nil for a key of another type. The key belongs to another program, so do not delete it.
    local other = 'TYPE ' .. (redis.pcall('TYPE', KEYS[1]).ok or 'unknown')
    return {-9, now, 0, digest(other), other}
  end
  if not is_target then return {-4, now} end
  write_tombstone(by)
  return {3, now, digest(by), broken_digest(by) and 1 or 0, 0}
end
local own_fence, vote_digest = by == signed, digest(signed)
if ARGV[1] == 'fence' then
  is_target = is_target and own_fence
else
  -- A digest identifies the attempt that began to hold the lock, but not the attempts that joined later.
  is_target = vote_digest == ARGV[2] and not (kind and own_fence)
end
if not is_target then return {-9, now, own_fence and tonumber(fence) or 0, vote_digest, own_fence and who or ''} end

-- Write the tombstones first: if a later step fails, these attempts still cannot get the vote again.
if kind then
  for _, entry in ipairs(read_entries()) do write_tombstone(entry[1]) end
elseif string.match(signed, '^%x+$') and #signed == 32 then
  write_tombstone(signed)
end
local broken_signature = vote_digest .. NOBODY
if own_fence then
  -- Remove the attempt from the fence, so that no waiter yields to this attempt.
  redis.call('SET', KEYS[2], fence .. ' ' .. broken_signature .. ' ' .. began .. ' - ' .. who, 'KEEPTTL')
end
redis.call('DEL', holds)
if ARGV[3] == 'drain' then
  redis.call('SET', KEYS[1], broken_signature, 'KEEPTTL')
  -- Only another program sets a vote without an expiry. Give the vote an expiry.
  if redis.call('PTTL', KEYS[1]) < 0 then redis.call('PEXPIRE', KEYS[1], ARGV[4]) end
  local left = redis.call('PTTL', KEYS[1])
  redis.pcall('PUBLISH', BROKEN_CHANNEL, KEYS[1])
  return {3, now, vote_digest, 1, left}
end
redis.call('DEL', KEYS[1])
redis.pcall('PUBLISH', BROKEN_CHANNEL, KEYS[1])
--#queue
drop_lapsed()
local first, taken, room, wanted = redis.call('ZRANGE', queue, 0, 0, 'WITHSCORES'), nil, false, nil
--#hint
return {3, now, vote_digest, 1, 0}
