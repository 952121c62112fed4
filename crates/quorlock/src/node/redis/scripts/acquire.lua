-- Votes for an exclusive attempt, or renews its vote. Mirrors `acquire` and `renew` of quorlock-core's node::apply.
-- KEYS  1 epoch   2 vote   3 fence   4 the attempt's tombstone, which ends with its id   5 queue   6 kept
--       7 holds, for a writer
-- ARGV  1 the text of the epoch key ('epoch floor')
--       2 'acquire', 'repair' (renew the vote, or vote again if the lock is free) or 'renew' (only an existing vote)
--       3 proposed fence, or the lease's fence   4 ttl (ms)   5 max clock skew (us)   6 fence retention (ms)   7 holder
--       8 the ticket, whose time has 16 digits, and the other parts of the queue position; or ''   9 owner, for a writer
-- Returns {1, now, fence}                                       granted
--         {0, now, left, fence, who, position, waiting, lower}     held by another attempt
--         {-1, now} wrong epoch  {-2, now} tombstoned  {-3, now} the proposed fence is too far ahead  {-4, now} absent
--         {-5, now, fence, position, waiting, lower} behind other waiters
--         {-6, now} the queue is full  {-8, now} a reader may not upgrade  {-11, now} new roster
--#begin
-- The loop runs at most twice: if the vote's key has another type, MGET returns nil, and only SET detects that the key exists.
while true do
  local own, reentry, among, passed = vote == attempt, false, false, false
  -- A renewal ignores the queue.
  local first = verb == 'acquire' and redis.call('ZRANGE', queue, 0, 0, 'WITHSCORES') or {}
  if not own and (vote or first[1] and first[1] ~= waiter) then
    --#held_mode
    --#queue
    --#refuse
    drop_lapsed()
    if verb ~= 'acquire' then return held(0, redis.call('ZCARD', queue), 0) end
    if kind == 's' and ARGV[9] then
      --#entries
      for _, entry in ipairs(read_entries()) do
        if entry[3] == ARGV[9] then return {-8, now} end
      end
    end
    first = vote and first or redis.call('ZRANGE', queue, 0, 0, 'WITHSCORES')
    if vote or first[1] and (waiter == '' or is_lower(tonumber(first[2]), first[1], tonumber(at), waiter)) then
      return refuse(vote, false)
    end
  end
  if not own and verb == 'renew' then return {-4, now} end
  --#fence
  local signed, since, is_given = attempt, nil, true
  if own then
    --#note
    since = by == attempt and began
  end
  -- Write the fence first: if the server runs out of memory in between, no vote may exist without its fence.
  --#write_fence
  if own then
    -- Never shorten a vote.
    redis.call('SET', KEYS[2], attempt, 'PX', math.max(ARGV[4], redis.call('PTTL', KEYS[2])))
  else
    is_given = redis.call('SET', KEYS[2], attempt, 'NX', 'PX', ARGV[4])
  end
  if is_given then
    if first[1] and waiter ~= '' then redis.call('ZREM', queue, waiter) end
    return {1, now, fence}
  end
  --#other_program
  got[3] = '0 0 0 - ' .. other
end
