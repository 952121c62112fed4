-- Why not now: `held` of node::apply and `line_up` of node::line. Needs what begins a vote, its period, and the line.
--#note
local function held(spot, waiting, lower)
  return {0, now, redis.call('PTTL', KEYS[2]), fence or 0, by == signed and who or '', spot, waiting, lower}
end

-- Whether the vote that stands may be that of another waiter with a lower ticket, who has yet to win.
local function is_voted_lower()
  if not vote then return false end
  -- Of several entries it is not known whose tickets are lower: better to yield once too often.
  if kind then return true end
  return by == vote and #ticket == 33 and is_lower(ticket, place)
end

-- Puts the asker in line, if it has a ticket, and tells how the line looks to it.
local function refuse(taken, before, own_place, shares)
  local spot, lower = 0, 0
  if place ~= '' then
    if not own_place and count_all() >= WAITERS_MAX then return {-6, now} end
    keep_place(before, own_place)
    spot = before + 1
    if is_voted_lower() or count_ahead(before, shares) > 0 then lower = 1 end
  end
  if taken then return held(spot, count_all(), lower) end
  return {-5, now, fence or 0, spot, count_all(), lower}
end
