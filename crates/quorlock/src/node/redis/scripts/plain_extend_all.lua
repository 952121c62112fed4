-- Extends the votes of several plain attempts, like plain_extend.lua for each attempt, but reads all votes with one
-- command.
-- The keys of the votes are arguments and not KEYS: if an ACL denies one of KEYS, the server refuses the whole call.
-- ARGV  1 ttl (ms); then for each attempt: the vote's key (each key once), the attempt
-- Returns a list of the results of plain_extend.lua, or errors
local keys, results = {}, {}
for i = 1, (#ARGV - 1) / 2 do keys[i] = ARGV[i * 2] end
--#fault
local votes = redis.pcall('MGET', unpack(keys))
for i, key in ipairs(keys) do
  local vote = votes.err and redis.pcall('GET', key) or votes[i]
  if type(vote) == 'table' and vote.err then
    results[i] = fault(vote)
  elseif vote == ARGV[i * 2 + 1] then
    local extended = redis.pcall('PEXPIRE', key, ARGV[1])
    results[i] = type(extended) == 'table' and fault(extended) or extended
  else
    results[i] = 0
  end
end
return results
