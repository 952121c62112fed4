-- Releases the votes of several attempts without queue positions and tombstones, like release.lua for each.
-- If no client waits for these locks, three commands release all votes.
-- The votes are not declared as keys: otherwise an ACL that denies one of them would fail the whole command.
-- ARGV  for each attempt: the vote's key (each key once), the attempt
-- Returns a list of the results of release.lua, or errors
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
