-- The fence of a vote that is given. Needs `own`, `reentry` for another entry of the same owner, and `among` for one of
-- several holds with fences of their own.
if verb == 'acquire' and not (reentry and fence) or verb ~= 'acquire' and not (own and fence) then
  if asked > math.max(now + sigma, fence and fence + 1 or 0) then return {-3, now} end
  if verb ~= 'acquire' or own and fence and not among then
    fence = math.max(asked, fence or 0)
  else
    if fence == FENCE_MAX then return {-3, now} end
    local floor = tonumber(string.match(got[1], ' (%d+)$'))
    fence = math.max(asked, floor, fence and fence + 1 or now - sigma)
  end
end
