-- Tells `first`, who is the first in line, that a vote may be had, if it could have one now. Needs `taken`, which is nil
-- when no vote stands, else how it is held, and `room`, which says whether a slot is free.
if first[1] and (not taken or taken == 's' and string.sub(first[1], 18, 18) == 's' or taken == 'k' and room) then
  redis.pcall('PUBLISH', HINT_CHANNEL .. string.sub(first[1], 20),
    string.format('%.0f', first[2]) .. '-' .. string.sub(first[1], 1, 16))
end
