-- Tells `first`, who is the first in the queue, that a vote may be had, if it could have one now, or that it has one. Needs
-- `queue`, `clock`, `taken`, which is nil when no vote stands, else how it is held, `room`, which says whether a slot is
-- free, and `wanted`, which is what `first` waits for if that is known.
if first[1] and (not taken or taken == 's' and string.sub(first[1], 18, 18) == 's' or taken == 'k' and room) then
  local ticket = string.format('%016.0f', first[2]) .. '-' .. string.sub(first[1], 1, 16)
  local channel, is_handed = HINT_CHANNEL .. string.sub(first[1], 20), false
  --#hand_on
  if not is_handed then redis.pcall('PUBLISH', channel, ticket) end
end
