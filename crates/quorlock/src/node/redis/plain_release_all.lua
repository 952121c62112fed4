-- Takes back the votes of several plain attempts: plain_release.lua for each, with two commands for all of them.
-- KEYS  the votes, no two the same
-- ARGV  the attempts
-- Gives a list of what plain_release.lua gives
local votes, own, gave = redis.call('MGET', unpack(KEYS)), {}, {}
for i, key in ipairs(KEYS) do
  gave[i] = 0
  if votes[i] == ARGV[i] then
    own[#own + 1] = key
    gave[i] = 1
  end
end
if own[1] then redis.call('DEL', unpack(own)) end
return gave
