-- Releases a vote. The client leaves the queue or keeps its queue position. Mirrors `release` of quorlock-core's
-- node::apply. With an owner's tombstone, releases all entries of the owner. Mirrors `retire` of node::apply.
-- KEYS  1 vote   2 the tombstone of the attempt, or of the owner for this name; its key ends with the id
--       3 queue   4 kept   5 holds
-- ARGV  1 'leave ' or 'yield ', followed by ARGV[8] of acquire.lua; or ''
--       2 the tombstone's duration (ms), to write a tombstone   3 any value, if KEYS[2] is the tombstone of an owner
-- Returns 1: released   -4: there was nothing to release
local attempt, parting, queue, kept = string.sub(KEYS[2], -32), string.sub(ARGV[1], 1, 5), KEYS[3], KEYS[4]
local vote, code = redis.pcall('GET', KEYS[1]), -4
if type(vote) == 'table' then
  -- A key of another type is another program's vote. Any other error means that we may not read the key: return it.
  if not string.find(vote.err, 'WRONGTYPE', 1, true) then return vote end
  vote = ''
end
if vote == attempt then
  redis.call('DEL', KEYS[1])
  vote, code = false, 1
end
local first = redis.call('ZRANGE', queue, 0, 0, 'WITHSCORES')
local yields = parting == 'yield'
if yields then
  -- When the waiter asks again, it is another attempt.
  local gone = string.sub(ARGV[1], 24)
  --#forget_request
end
-- Stop here if there are no waiters, no other holders and no tombstone to write.
if not (vote or first[1] or yields or ARGV[2]) then return code end

local clock = redis.call('TIME')
local millis = math.floor((clock[1] * 1000000 + clock[2]) / 1000)
--#held_mode
local room = false
if kind then
  local holds = KEYS[5]
  --#entries
  local gone = {}
  if ARGV[3] then
    for _, entry in ipairs(read_entries()) do
      if entry[3] == attempt then gone[#gone + 1] = entry end
    end
  else
    local known = redis.call('HMGET', holds, 'held_mode', attempt)
    local till = known[1] == vote and known[2] and tonumber(string.match(known[2], '^(%d+) '))
    if till and till >= millis then gone[1] = {attempt, till} end
  end
  for _, entry in ipairs(gone) do
    code = 1
    if not remove_entry(KEYS[1], entry[1], entry[2]) then vote, kind = false, nil end
  end
  room = kind == 'k' and #read_entries() < tonumber(detail)
end

-- `is_told`: whether the first waiter gets a hint. `keeps`: whether a waiter that yields keeps its position. `wanted`:
-- the stored request of the first waiter, if there is one.
local is_told = code == 1
local keeps, wanted = is_told and yields, nil
if keeps or first[1] and (is_told or parting == 'leave') then
  local at, waiter = string.sub(ARGV[1], 7, 22), string.sub(ARGV[1], 24)
  --#queue
  --#wanted
  local is_current = wanted and tonumber(string.sub(wanted, 97, 112)) >= millis
  -- If the first waiter has not expired, there is no need to examine the other waiters.
  if keeps or not is_current and tonumber(redis.call('ZSCORE', kept, first[1]) or 0) < millis then
    wanted = nil
    drop_lapsed()
    if keeps then keep_position() end
    first = redis.call('ZRANGE', queue, 0, 0, 'WITHSCORES')
    -- If the yielding waiter is still first, send no hint: the waiter must not wake itself.
    if keeps then is_told = first[1] ~= waiter end
  end
  if parting == 'leave' then
    local was_first = first[1] == waiter
    if redis.call('ZREM', queue, waiter) == 1 and was_first then
      wanted = nil
      drop_lapsed()
      first = redis.call('ZRANGE', queue, 0, 0, 'WITHSCORES')
      is_told = true
    end
  end
end

-- Write the tombstone after the vote is deleted. If that fails, return the error, so that the client repeats the
-- release.
local done
if ARGV[2] then
  done = redis.pcall('SET', KEYS[2], '1', 'PX', math.max(ARGV[2], redis.call('PTTL', KEYS[2])))
end
if is_told then
  local taken = vote and (kind or 'x')
  --#hint
end
if done and done.err then return done end
return code
