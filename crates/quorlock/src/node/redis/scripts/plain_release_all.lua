-- Releases the votes of several plain attempts, like plain_release.lua for each attempt, but with two commands for all
-- votes.
-- The keys of the votes are arguments and not KEYS: if an ACL denies one of KEYS, the server refuses the whole call.
-- ARGV  for each attempt: the vote's key (each key once), the attempt
-- Returns a list of the results of plain_release.lua, or errors
--#fault
local keys, deletable, results = {}, {}, {}
for i = 1, #ARGV / 2 do keys[i] = ARGV[i * 2 - 1] end
local votes = redis.pcall('MGET', unpack(keys))
for i, key in ipairs(keys) do
  local vote = votes[i]
  if votes.err then vote = redis.pcall('GET', key) end
  results[i] = type(vote) == 'table' and fault(vote) or 0
  if vote == ARGV[i * 2] then
    deletable[#deletable + 1] = key
    results[i] = 1
  end
end
if deletable[1] and type(redis.pcall('DEL', unpack(deletable))) == 'table' then
  for i, key in ipairs(keys) do
    if results[i] == 1 then
      local deleted = redis.pcall('DEL', key)
      results[i] = type(deleted) == 'table' and fault(deleted) or deleted
    end
  end
end
return results
