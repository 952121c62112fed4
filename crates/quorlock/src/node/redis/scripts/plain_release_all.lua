-- Releases the votes of several plain attempts, like plain_release.lua for each, but with two commands for all votes.
-- The votes are not declared as keys: otherwise an ACL that denies one of them would fail the whole command.
-- ARGV  for each attempt: the vote's key (each key once), the attempt
-- Returns a list of the results of plain_release.lua, or errors
--#fault
local names, own, gave = {}, {}, {}
for i = 1, #ARGV / 2 do names[i] = ARGV[i * 2 - 1] end
local votes = redis.pcall('MGET', unpack(names))
for i, name in ipairs(names) do
  local vote = votes[i]
  if votes.err then vote = redis.pcall('GET', name) end
  gave[i] = type(vote) == 'table' and fault(vote) or 0
  if vote == ARGV[i * 2] then
    own[#own + 1] = name
    gave[i] = 1
  end
end
if own[1] and type(redis.pcall('DEL', unpack(own))) == 'table' then
  for i, name in ipairs(names) do
    if gave[i] == 1 then
      local gone = redis.pcall('DEL', name)
      gave[i] = type(gone) == 'table' and fault(gone) or gone
    end
  end
end
return gave
