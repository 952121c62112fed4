-- Extends the votes of several attempts: plain_extend.lua for each, with one look for all of them.
-- The votes are no keys of the command: a server that keeps one of them from us would refuse all.
-- ARGV  1 ttl (ms); and of each the vote, no two the same, and the attempt
-- Gives a list of what plain_extend.lua gives, or of errors
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
