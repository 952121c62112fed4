-- Takes back the votes of several attempts that neither have a place in the queue nor leave a tombstone: release.lua for each.
-- Where nobody waits, that takes three commands for all of them.
-- The votes are no keys of the command: a server that keeps one of them from us would refuse all.
-- ARGV  of each the vote, no two the same, and the attempt
-- Gives a list of what release.lua gives, or of errors
local function release(KEYS, ARGV)
  --#release
end
local names, queues, own, gave = {}, {}, {}, {}
for i = 1, #ARGV / 2 do
  names[i] = ARGV[i * 2 - 1]
  queues[i] = QUEUE_OF .. names[i]
end
--#each
--#quiet
local votes = redis.pcall('MGET', unpack(names))
local function release_alone(i)
  local attempt = ARGV[i * 2]
  gave[i] = each(release, {names[i], DONE_OF .. attempt, queues[i], KEPT_OF .. names[i], HOLDS_OF .. names[i]}, {''})
end
for i, name in ipairs(names) do
  if votes.err or not is_quiet(i) or votes[i] and votes[i] ~= ARGV[i * 2] then
    release_alone(i)
  elseif votes[i] then
    own[#own + 1] = name
    gave[i] = 1
  else
    gave[i] = -4
  end
end
if own[1] and type(redis.pcall('DEL', unpack(own))) == 'table' then
  for i in ipairs(names) do
    if gave[i] == 1 and votes[i] == ARGV[i * 2] then release_alone(i) end
  end
end
return gave
