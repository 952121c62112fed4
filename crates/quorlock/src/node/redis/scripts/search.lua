-- Returns one page of keys of locks that may be held or waited for. Changes nothing.
-- Scans the keys of votes first, then the keys of queues. There may be many other keys, because each name leaves a
-- fence for a day. Such keys cost little, because SCAN itself filters by the pattern.
-- ARGV  1 the cursor, with a leading 'q' for queues   2 keys to scan per step, and about the most keys to return
--       3 the most steps   4 the pattern of votes' keys, or of fences' keys   5 the pattern of queues' keys
--       6 '1' if ARGV[4] matches votes' keys. If it matches fences' keys, only names whose vote exists are returned
-- Returns {next cursor, {keys}}
local queues, cursor = string.match(ARGV[1], '^(q?)(%d+)$')
local found, page_size = {}, tonumber(ARGV[2])
for _ = 1, ARGV[3] do
  local step = redis.call('SCAN', cursor, 'MATCH', ARGV[queues == '' and 4 or 5], 'COUNT', page_size)
  cursor = step[1]
  for _, key in ipairs(step[2]) do
    local vote_key = string.match(key, '^' .. RESERVED_PREFIX .. '%a+:' .. TAG .. '(.*)$')
    if queues == '' and ARGV[6] == '1' then
      if not vote_key then found[#found + 1] = key end
    elseif vote_key and (queues ~= '' or redis.call('EXISTS', vote_key) == 1) then
      found[#found + 1] = vote_key
    end
  end
  if cursor == '0' or #found >= page_size then break end
end
if cursor == '0' and queues == '' then return {'q0', found} end
return {cursor == '0' and '0' or queues .. cursor, found}
