-- Takes back the votes of several attempts that neither have a place in line nor leave a tombstone: release.lua for each.
-- Where nobody waits, that takes three commands for all of them.
-- KEYS  the votes, no two the same
-- ARGV  the attempts
-- Gives a list of what release.lua gives, or of errors
local function release(KEYS, ARGV)
  --#release
end
local votes, lines, own, gave = redis.call('MGET', unpack(KEYS)), {}, {}, {}
for i, key in ipairs(KEYS) do lines[i] = LINE_OF .. key end
--#each
for i, key in ipairs(KEYS) do
  local attempt = ARGV[i]
  if votes[i] == attempt and is_quiet(i) then
    own[#own + 1] = key
    gave[i] = 1
  elseif not votes[i] and is_quiet(i) then
    gave[i] = -4
  else
    gave[i] = each(release, {key, DONE_OF .. attempt, lines[i], KEPT_OF .. key, HOLDS_OF .. key}, {''})
  end
end
if own[1] then redis.call('DEL', unpack(own)) end
return gave
