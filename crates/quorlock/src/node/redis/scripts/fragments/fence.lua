-- Computes the fence of a grant. Needs `own`; `reentry`: another entry of the same owner; `among`: one of several holds
-- with fences of their own; `passed`: the owner returns after somebody else may have held the lock.
local asked, skew = string.match(ARGV[3], '^%d+$'), ARGV[5]
local lasts = string.match(ARGV[4], '^%d+$')
-- Reject numbers that would not be read back as written ('1e15', 'nan').
if not (asked and lasts and #lasts < 9) then return redis.error_reply('ERR not a fence and a ttl') end
asked = tonumber(asked)
if verb == 'acquire' and not (reentry and fence) or verb ~= 'acquire' and not (own and fence) then
  if not (asked <= math.min(math.max(now + skew, fence and fence + 1 or 0), FENCE_MAX)) then return {-3, now} end
  if verb ~= 'acquire' or own and fence and not among then
    if passed and fence == FENCE_MAX then return {-3, now} end
    fence = math.max(asked, passed and fence + 1 or fence or 0)
  else
    if fence == FENCE_MAX then return {-3, now} end
    -- The floor follows the 32 digits of the epoch.
    fence = math.max(asked, string.sub(ARGV[1], 34), fence and fence + 1 or now - skew)
  end
end
