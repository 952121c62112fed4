-- Extends the votes of several attempts, like plain_extend.lua for each, but reads all votes with one command.
-- The votes are not declared as keys: otherwise an ACL that denies one of them would fail the whole command.
-- ARGV  1 ttl (ms); then for each attempt: the vote's key (each key once), the attempt
-- Returns a list of the results of plain_extend.lua, or errors
local names, gave = {}, {}
for i = 1, (#ARGV - 1) / 2 do names[i] = ARGV[i * 2] end
--#fault
local votes = redis.pcall('MGET', unpack(names))
for i, name in ipairs(names) do
  local vote = votes.err and redis.pcall('GET', name) or votes[i]
  if type(vote) == 'table' and vote.err then
    gave[i] = fault(vote)
  elseif vote == ARGV[i * 2 + 1] then
    local lives = redis.pcall('PEXPIRE', name, ARGV[1])
    gave[i] = type(lives) == 'table' and fault(lives) or lives
  else
    gave[i] = 0
  end
end
return gave
