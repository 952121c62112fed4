-- Grants the stored request of `first`, the first waiter, if its client listens. Mirrors `hand_on` of quorlock-core's
-- node::apply.
wanted = wanted or not taken and redis.call('HMGET', ASKED, first[1])[1]
if wanted and not taken then
  local next_attempt, vote_key, fence_key = string.sub(wanted, 1, 32), WHICH, FENCE_OF .. WHICH
  local stored = redis.call('MGET', EPOCH_KEY, fence_key, DONE_OF .. next_attempt)
  local epoch_text, stored_fence = stored[1], stored[2] and tonumber(string.match(stored[2], '^%d+'))
  local proposal, skew = tonumber(string.sub(wanted, 33, 48)), tonumber(string.sub(wanted, 65, 80))
  local now = clock[1] * 1000000 + clock[2]
  if epoch_text and not stored[3] and string.sub(wanted, 113, 113 + #epoch_text) == epoch_text .. ' '
    and stored_fence ~= FENCE_MAX and proposal <= math.max(now + skew, stored_fence and stored_fence + 1 or 0)
    -- PUBLISH also counts pattern subscribers, such as a monitor. If NUMSUB is not permitted, assume that nobody listens.
    and (redis.pcall('PUBSUB', 'NUMSUB', channel)[2] or 0) > 0 then
    local fence = math.max(proposal, string.sub(epoch_text, 34), stored_fence and stored_fence + 1 or now - skew)
    fence = string.format('%.0f', fence)
    -- Write the fence first, as for every vote. Publish only after the fence and the vote are written.
    local voted = redis.pcall('SET', fence_key, fence .. ' ' .. next_attempt .. ' ' .. clock[1]
      .. string.sub('00000', #clock[2]) .. clock[2] .. ' ' .. ticket .. ' ' .. string.sub(wanted, 114 + #epoch_text),
      'PX', tonumber(string.sub(wanted, 81, 96)))
    voted = voted.ok and redis.pcall('SET', vote_key, next_attempt, 'NX', 'PX', tonumber(string.sub(wanted, 49, 64)))
    if voted and voted.ok then
      local listeners = redis.pcall('PUBLISH', channel,
        ticket .. ' ' .. string.sub(redis.sha1hex(next_attempt), 1, 16) .. ' ' .. fence)
      is_handed = type(listeners) == 'number' and listeners > 0
      if is_handed then redis.call('ZREM', queue, first[1]) else redis.call('DEL', vote_key) end
    end
  end
end
