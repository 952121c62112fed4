-- A vote for an attempt, or a renewal of it: `acquire` and `renew` of quorlock-core's node::apply, line by line.
-- KEYS  1 epoch   2 vote   3 fence   4 the attempt's tombstone
-- ARGV  1 the epoch's mark   2 attempt   3 proposal, or the lease's fence   4 ttl (ms)   5 sigma (us)
--       6 fence retention (ms)   7 holder   8 'acquire', 'repair' (renew, vote anew if free) or 'renew' (only if own)
-- Gives {1, now, fence}            granted
--       {0, now, left, fence, who} held by another
--       {-1, now} wrong epoch  {-2, now} tombstoned  {-3, now} too far ahead  {-4, now} absent
local got = redis.call('MGET', KEYS[1], KEYS[2], KEYS[3], KEYS[4])
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local millis = math.floor(now / 1000)
if got[1] ~= ARGV[1] then return {-1, now} end
if got[4] then return {-2, now} end
local own = got[2] == ARGV[2]
local fence, by, since, who
if got[3] then
  fence, by, since, who = string.match(got[3], '^(%d+) (%x+) (%d+) (.*)$')
  fence = tonumber(fence)
end
if got[2] and not own then
  if by ~= got[2] then who = '' end
  return {0, now, redis.call('PTTL', KEYS[2]), fence or 0, who}
end
local mode, asked, sigma = ARGV[8], tonumber(ARGV[3]), tonumber(ARGV[5])
if mode == 'renew' and not own then return {-4, now} end
if not (own and fence) or mode == 'acquire' then
  if asked > math.max(now + sigma, fence and fence + 1 or 0) then return {-3, now} end
end
if mode == 'acquire' and own and fence or mode ~= 'acquire' and not (own and fence) then
  fence = math.max(asked, fence or 0)
elseif mode == 'acquire' then
  if fence == 9007199254740991 then return {-3, now} end
  local floor = tonumber(string.match(got[1], ' (%d+)$'))
  fence = math.max(asked, floor, fence and fence + 1 or now - sigma)
end
local till = millis + ARGV[4]
if own then till = math.max(till, millis + redis.call('PTTL', KEYS[2])) end
if not (own and by == ARGV[2]) then since = string.format('%.0f', now) end
-- The fence first: a vote without its fence must not survive a server that runs out of memory in between.
redis.call('SET', KEYS[3], string.format('%.0f %s %s %s', fence, ARGV[2], since, ARGV[7]), 'PX', ARGV[6])
till = string.format('%.0f', till)
if own then
  redis.call('SET', KEYS[2], ARGV[2], 'PXAT', till)
elseif not redis.call('SET', KEYS[2], ARGV[2], 'NX', 'PXAT', till) then
  return redis.error_reply('WRONGTYPE the key of this lock holds other data')
end
return {1, now, fence}
