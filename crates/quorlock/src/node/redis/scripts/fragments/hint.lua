-- Tells `first`, the first waiter, that it may get a vote now or that this node gave it the vote. Needs `queue`,
-- `clock`, `taken` (how the vote is held, or nil if there is none), `room` (whether a slot is free) and `wanted` (the
-- request of `first`, if known).
if first[1] and (not taken or taken == 's' and string.sub(first[1], 18, 18) == 's' or taken == 'k' and room) then
  local ticket = string.format('%016.0f', first[2]) .. '-' .. string.sub(first[1], 1, 16)
  local channel, is_handed = HINT_CHANNEL .. string.sub(first[1], 20), false
  --#hand_on
  if not is_handed then redis.pcall('PUBLISH', channel, ticket) end
end
