-- Refusals. Mirrors `held` of quorlock-core's node::apply and `enqueue` of node::queue.
-- Needs the fragments begin, held_mode and queue.
--#note
local function held(position, waiting, lower)
  return {0, now, redis.call('PTTL', KEYS[2]), fence or 0, by == signed and who or '', position, waiting, lower}
end

-- Returns whether the current vote may belong to a waiter with a lower ticket that has not won yet.
local function is_vote_for_lower_ticket()
  if not vote then return false end
  -- The tickets of several entries are not known. Assume a lower one: an unnecessary yield is safe.
  if kind then return true end
  local time, id = string.match(by == vote and voted or '', '^(%d+)-(%x+)$')
  return time and is_lower(tonumber(time), id, tonumber(at), waiter)
end

-- Returns how many of the first `before` waiters block this request. Shared waiters do not block a shared request, for
-- which the result is 1 if one of the first waiters is exclusive, and otherwise 0.
local function count_ahead(before, shares)
  if not shares then return before end
  for from = 0, before - 1, 64 do
    for _, other in ipairs(redis.call('ZRANGE', queue, from, math.min(from + 63, before - 1))) do
      if string.sub(other, 18, 18) == 'x' then return 1 end
    end
  end
  return 0
end

-- Adds the waiter to the queue if it has a ticket, and returns a refusal with its queue position.
local function refuse(taken, shares)
  local position, lower, waiting = 0, 0, redis.call('ZCARD', queue)
  if waiter ~= '' then
    if waiting >= WAITERS_MAX and not redis.call('ZSCORE', queue, waiter) then return {-6, now} end
    waiting = waiting + keep_position()
    --#keep_request
    local before = redis.call('ZRANK', queue, waiter)
    position = before + 1
    if is_vote_for_lower_ticket() or count_ahead(before, shares) > 0 then lower = 1 end
  end
  if taken then return held(position, waiting, lower) end
  return {-5, now, fence or 0, position, waiting, lower}
end
