-- A vote for an attempt that wants to be alone, or a renewal of it: `acquire` and `renew` of quorlock-core's node::apply.
-- KEYS  1 epoch   2 vote   3 fence   4 the attempt's tombstone   5 holds   6 line   7 kept
-- ARGV  1 the epoch's mark   2 attempt   3 proposal, or the lease's fence   4 ttl (ms)   5 sigma (us)
--       6 fence retention (ms)   7 holder   8 'acquire', 'repair' (renew, vote anew if free) or 'renew' (only if own)
--       9 the ticket's time, or ''   10 the place in line, or ''   11 'x'   12 the writer's owner, or ''
-- Gives {1, now, fence}                                       granted
--       {0, now, left, fence, who, place, waiting, lower}     held by another
--       {-1, now} wrong epoch  {-2, now} tombstoned  {-3, now} too far ahead  {-4, now} absent
--       {-5, now, fence, place, waiting, lower} behind others  {-6, now} the line is full  {-8, now} an upgrade
--#begin
local own, reentry, among = vote == attempt, false, false
-- A renewal does not care who waits.
local lined = verb == 'acquire' and redis.call('EXISTS', kept) == 1
if not own and (vote or lined) then
  --#period
  --#line
  --#refuse
  drop_lapsed()
  if verb ~= 'acquire' then return held(0, redis.call('ZCARD', kept), 0) end
  if kind == 's' and ARGV[12] ~= '' then
    --#entries
    for _, entry in ipairs(read_entries()) do
      if entry[3] == ARGV[12] then return {-8, now} end
    end
  end
  local before = count_before()
  if vote or before > 0 then return refuse(vote, before, false) end
end
if not own and verb == 'renew' then return {-4, now} end
--#fence
local till = millis + ARGV[4]
if own then till = math.max(till, millis + redis.call('PTTL', KEYS[2])) end
if not (own and by == attempt) then since = string.format('%.0f', now) end
ticket = at == '' and '-' or at .. '-' .. string.sub(place, 1, 16)
-- The fence first: a vote without its fence must not survive a server that runs out of memory in between.
redis.call('SET', KEYS[3], string.format('%.0f %s %s %s %s', fence, attempt, since, ticket, ARGV[7]), 'PX', ARGV[6])
till = string.format('%.0f', till)
if own then
  redis.call('SET', KEYS[2], attempt, 'PXAT', till)
elseif not redis.call('SET', KEYS[2], attempt, 'NX', 'PXAT', till) then
  return redis.error_reply('WRONGTYPE the key of this lock holds other data')
end
if lined and at ~= '' then
  redis.call('ZREM', line, place)
  redis.call('ZREM', kept, place)
end
return {1, now, fence}
