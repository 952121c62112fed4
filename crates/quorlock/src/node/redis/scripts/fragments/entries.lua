-- Returns the valid entries, each as {attempt, last millisecond, owner or slot, fence}, and the attempts of expired
-- entries. Needs `holds`, `vote` and `millis`. Ignores entries that belong to an earlier vote.
local function read_entries()
  local entries, lapsed = {}, {}
  local all, valid = redis.call('HGETALL', holds), false
  for i = 1, #all, 2 do
    if all[i] == 'held_mode' then valid = all[i + 1] == vote end
    local till, whose, its = string.match(all[i + 1], '^(%d+) (%w+) (%d+)$')
    if till and tonumber(till) >= millis then
      entries[#entries + 1] = {all[i], tonumber(till), whose, tonumber(its)}
    elseif till then
      lapsed[#lapsed + 1] = all[i]
    end
  end
  if not valid then return {}, {} end
  return entries, lapsed
end

-- Removes the entry of an attempt, whose last millisecond is `till`. Returns whether the vote still exists.
local function remove_entry(key, attempt, till)
  redis.call('HDEL', holds, attempt)
  local ends = millis + redis.call('PTTL', key)
  -- Examine the other entries only if the removed entry was the only one or the last to expire.
  if till < ends and redis.call('HLEN', holds) > 1 then return true end
  local last = 0
  local entries, lapsed = read_entries()
  for _, entry in ipairs(entries) do last = math.max(last, entry[2]) end
  if last == 0 then
    redis.call('DEL', key, holds)
    return false
  end
  for _, gone in ipairs(lapsed) do redis.call('HDEL', holds, gone) end
  if last < ends then
    -- PEXPIREAT with the current time would delete the key.
    last = math.max(last, millis + 1)
    redis.call('PEXPIREAT', key, last)
    redis.call('PEXPIREAT', holds, last)
  end
  return true
end
