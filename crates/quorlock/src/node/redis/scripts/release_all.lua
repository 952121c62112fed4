-- Releases the votes of several attempts without queue positions and tombstones, like release.lua for each attempt.
-- If no client waits for these locks, three commands release all votes.
-- The keys of the votes are arguments and not KEYS: if an ACL denies one of KEYS, the server refuses the whole call.
-- ARGV  for each attempt: the vote's key (each key once), the attempt
-- Returns a list of the results of release.lua, or errors
local function release(KEYS, ARGV)
  --#release
end
local keys, queues, deletable, results = {}, {}, {}, {}
for i = 1, #ARGV / 2 do
  keys[i] = ARGV[i * 2 - 1]
  queues[i] = QUEUE_OF .. keys[i]
end
--#each
--#quiet
local votes = redis.pcall('MGET', unpack(keys))
local function release_alone(i)
  local attempt = ARGV[i * 2]
  results[i] = each(release, {keys[i], DONE_OF .. attempt, queues[i], KEPT_OF .. keys[i], HOLDS_OF .. keys[i]}, {''})
end
for i, key in ipairs(keys) do
  if votes.err or not is_quiet(i) or votes[i] and votes[i] ~= ARGV[i * 2] then
    release_alone(i)
  elseif votes[i] then
    deletable[#deletable + 1] = key
    results[i] = 1
  else
    results[i] = -4
  end
end
if deletable[1] and type(redis.pcall('DEL', unpack(deletable))) == 'table' then
  for i in ipairs(keys) do
    if results[i] == 1 and votes[i] == ARGV[i * 2] then release_alone(i) end
  end
end
return results
