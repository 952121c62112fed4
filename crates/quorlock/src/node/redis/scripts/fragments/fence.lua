-- Computes the fence of a grant. Needs `own` (the attempt has the vote), `reentry` (the owner has another entry),
-- `among` (each attempt that holds the lock has its own fence) and `passed` (another client may have held the lock
-- since the owner did).
local asked, skew = string.match(ARGV[3], '^%d+$'), ARGV[5]
local ttl = string.match(ARGV[4], '^%d+$')
-- Reject numbers that would not be read back as written ('1e15', 'nan').
if not (asked and ttl and #ttl < 9) then return redis.error_reply('ERR not a fence and a ttl') end
asked = tonumber(asked)
if verb == 'acquire' and not (reentry and fence) or verb ~= 'acquire' and not (own and fence) then
  if not (asked <= math.min(math.max(now + skew, fence and fence + 1 or 0), FENCE_MAX)) then return {-3, now} end
  if verb ~= 'acquire' or own and fence and not among then
    if passed and fence == FENCE_MAX then return {-3, now} end
    fence = math.max(asked, passed and fence + 1 or fence or 0)
  else
    if fence == FENCE_MAX then return {-3, now} end
    -- The floor (the number at or below which the node grants no fence) follows the 32 digits of the epoch.
    fence = math.max(asked, string.sub(ARGV[1], 34), fence and fence + 1 or now - skew)
  end
end
