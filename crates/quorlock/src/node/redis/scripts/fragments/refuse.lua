-- Why not now: `held` of node::apply and `line_up` of node::queue. Needs what begins a vote, its period and the queue.
--#note
local function held(spot, waiting, lower)
  return {0, now, redis.call('PTTL', KEYS[2]), fence or 0, by == signed and who or '', spot, waiting, lower}
end

-- Whether the vote that stands may be that of another waiter with a lower ticket, who has yet to win.
local function is_voted_lower()
  if not vote then return false end
  -- Of several entries it is not known whose tickets are lower: better to yield once too often.
  if kind then return true end
  local time, id = string.match(by == vote and voted or '', '^(%d+)-(%x+)$')
  return time and is_lower(tonumber(time), id, tonumber(at), place)
end

-- How many of the first so many are in the way. Those who share pass others who do: for them, one tells as much as all.
local function count_ahead(before, shares)
  if not shares then return before end
  for from = 0, before - 1, 64 do
    for _, other in ipairs(redis.call('ZRANGE', queue, from, math.min(from + 63, before - 1))) do
      if string.sub(other, 18, 18) == 'x' then return 1 end
    end
  end
  return 0
end

-- Puts the asker in the queue, if it has a ticket, and tells how the queue looks to it.
local function refuse(taken, shares)
  local spot, lower, waiting = 0, 0, redis.call('ZCARD', queue)
  if place ~= '' then
    if waiting >= WAITERS_MAX and not redis.call('ZSCORE', queue, place) then return {-6, now} end
    waiting = waiting + keep_place()
    --#keep_request
    local before = redis.call('ZRANK', queue, place)
    spot = before + 1
    if is_voted_lower() or count_ahead(before, shares) > 0 then lower = 1 end
  end
  if taken then return held(spot, waiting, lower) end
  return {-5, now, fence or 0, spot, waiting, lower}
end
