-- Votes for an attempt that can hold the lock together with other attempts, or renews the vote of such an attempt. Like
-- acquire.lua, but each attempt that holds the lock has an entry in `holds`.
-- KEYS  as in acquire.lua, for a writer   8 the owner's tombstone for this name, if there is an owner
-- ARGV  1 to 8 as in acquire.lua   9 owner, or the first slot to try   10 'r' (reentrant), 's' (shared) or 'k' (slots)
--       11 number of slots; for a reader, 1 if an owner that already reads may enter again with the same fence
-- Returns as acquire.lua; for a slot {1, now, fence, slot, {other free slots}};
--         {-7, now, permits} the lock is in use with this other number of slots   {-10, now} the owner is retired
--#begin
if KEYS[8] and redis.call('EXISTS', KEYS[8]) == 1 then return {-10, now} end
local whose, mode, permits = ARGV[9], ARGV[10], tonumber(ARGV[11])
-- Reject values that would not be read back as written.
local sound = mode == 'k' and string.find(whose .. ARGV[11], '^%d+$') and permits >= 1 and permits <= PERMITS_MAX
  or (mode == 'r' or mode == 's') and #whose == 32 and string.find(whose, '^%x+$')
if not sound then return redis.error_reply('ERR not a way to hold a lock') end
--#held_mode
--#queue
--#refuse
--#entries
local fields = kind and redis.call('HMGET', holds, 'held_mode', attempt) or {}
-- Whether the stored entries belong to an earlier vote, or no vote exists that has entries.
local is_void = not kind or fields[1] ~= vote
-- The attempt's entry: its last millisecond, its owner or slot, and its fence.
local entry_end, owner_or_slot, entry_fence
if not is_void and fields[2] then
  entry_end, owner_or_slot, entry_fence = string.match(fields[2], '^(%d+) (%w+) (%d+)$')
end
entry_end = tonumber(entry_end)
local own = entry_end and entry_end >= millis
-- The attempt has one slot on this node, but a majority granted another slot: move the attempt to that slot.
local moves = verb ~= 'acquire' and own and mode == 'k' and tonumber(owner_or_slot) ~= tonumber(whose)
if moves then own = false end
-- The highest fence of the owner's entries, if the owner already reads. Search the entries only if one has this owner.
local owner_fence
if verb == 'acquire' and not own and kind == 's' and (mode == 'r' or mode == 's' and permits == 1)
  and string.find(table.concat(redis.call('HGETALL', holds), ' '), whose, 1, true) then
  for _, entry in ipairs(read_entries()) do
    if entry[3] == whose then owner_fence = math.max(owner_fence or 0, entry[4]) end
  end
  if owner_fence and mode == 'r' then return {-8, now} end
end
local reentry = owner_fence or verb == 'acquire' and not own and kind == 'r' and mode == 'r' and detail == whose
-- Whether each attempt that holds the lock has its own fence.
local among = mode ~= 'r'
-- Another client may have held the lock since the owner did. No entry may reuse the fence of that client.
local passed = verb ~= 'acquire' and mode == 'r' and not vote and fence and by ~= attempt

-- The slots in use, and their number.
local taken, count = {}, 0
if mode == 'k' and kind == 'k' then
  for _, entry in ipairs(read_entries()) do
    taken[tonumber(entry[3])] = true
    count = count + 1
  end
end

-- Returns the next free slot in search order, or nil after all slots were tried.
local tried = 0
local function next_free()
  while tried < permits do
    local slot = (whose + tried) % permits
    tried = tried + 1
    if not taken[slot] then return slot end
  end
end

-- Returns the number of waiters with a lower ticket. If the request has no ticket, returns the number of all waiters.
local function count_before()
  if waiter == '' then return redis.call('ZCARD', queue) end
  local rank = redis.call('ZRANK', queue, waiter)
  if rank then return rank end
  local before = redis.call('ZCOUNT', queue, '-inf', '(' .. at)
  for _, other in ipairs(redis.call('ZRANGEBYSCORE', queue, at, at)) do
    if is_lower(0, other, 0, waiter) then before = before + 1 end
  end
  return before
end

if verb == 'acquire' then
  if not own and not reentry then
    if kind == 'k' and mode == 'k' and tonumber(detail) ~= permits then return {-7, now, tonumber(detail)} end
    local open = not vote or kind == mode and (kind == 's' or kind == 'k' and count < permits)
    drop_lapsed()
    local before, free_count = count_before(), mode == 'k' and permits - count or 1
    if not open or count_ahead(before, mode == 's') >= free_count then return refuse(not open, mode == 's') end
  end
elseif not own then
  local can_join = kind == mode
    and (kind == 's' or kind == 'r' and detail == whose or kind == 'k' and detail == ARGV[11])
  if vote and not (can_join and (kind ~= 'k' or tonumber(whose) < permits and not taken[tonumber(whose)])) then
    drop_lapsed()
    return held(0, redis.call('ZCARD', queue), 0)
  end
  if verb == 'renew' then return {-4, now} end
end
local stored = fence
--#fence
-- The fence to return (`given`), and the highest one to store (`fence`).
local given = fence
if owner_fence and stored then
  given, fence = owner_fence, math.max(owner_fence, stored)
end
if verb == 'acquire' then entry_fence = given elseif not own then entry_fence = asked end

if moves then
  taken[tonumber(owner_or_slot)] = nil
  if not remove_entry(KEYS[2], attempt, entry_end) then vote, kind, is_void = false, nil, true end
end
local free = {}
if mode == 'k' then
  owner_or_slot = own and owner_or_slot or next_free() or 0
  while #free < FREE_LISTED_MAX do
    local slot = next_free()
    if not slot then break end
    free[#free + 1] = slot
  end
else
  owner_or_slot = whose
end
local till = millis + ARGV[4]
if own then till = math.max(till, entry_end) end
if not vote then
  signed = attempt
  vote = mode .. ' ' .. attempt
  if mode == 'r' then vote = vote .. ' ' .. whose end
  if mode == 'k' then vote = vote .. ' ' .. ARGV[11] end
end
local since = (own or reentry) and by == signed and began
-- Write the vote last: if the server runs out of memory in between, no vote may exist without its fence and entry.
--#write_fence
if is_void then redis.call('DEL', holds) end
redis.call('HSET', holds, 'held_mode', vote, attempt,
  string.format('%.0f', till) .. ' ' .. owner_or_slot .. ' ' .. string.format('%.0f', entry_fence))
if not kind then
  if not redis.call('SET', KEYS[2], vote, 'NX', 'PXAT', till) then
    redis.call('DEL', holds)
    --#other_program
    by, signed, who = vote, vote, other
    drop_lapsed()
    if verb ~= 'acquire' then return held(0, redis.call('ZCARD', queue), 0) end
    return refuse(true, mode == 's')
  end
  redis.call('PEXPIREAT', holds, till)
else
  -- Never shorten a vote.
  local last = millis + redis.call('PTTL', KEYS[2])
  if till > last then redis.call('PEXPIREAT', KEYS[2], till) end
  if till > last or is_void then redis.call('PEXPIREAT', holds, math.max(till, last)) end
end
if verb == 'acquire' and waiter ~= '' then redis.call('ZREM', queue, waiter) end
-- The next waiter may be able to enter too: send it a hint.
if verb == 'acquire' and not own and not reentry then
  local first, taken, room = redis.call('ZRANGE', queue, 0, 0, 'WITHSCORES'), mode, count + 1 < (permits or 0)
  local wanted
  --#hint
end
if mode == 'k' then return {1, now, given, tonumber(owner_or_slot), free} end
return {1, now, given}
