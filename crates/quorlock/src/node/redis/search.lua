-- Keys of locks that may be held or waited for: one step of a scan. It changes nothing.
-- ARGV  1 cursor   2 how many keys to look at   3 what a lock's key begins with   4 what it ends with
--       5 '1' if a key can be told by these; if not, only those count that a companion key vouches for
-- Gives {next cursor, {keys}}
local step = redis.call('SCAN', ARGV[1], 'COUNT', ARGV[2])
local start, last, fixed, found = ARGV[3], ARGV[4], ARGV[5] == '1', {}
local function take(key)
  local begins, ends = string.sub(key, 1, #start) == start, last == '' or string.sub(key, -#last) == last
  if begins and ends then found[#found + 1] = key end
end
for _, key in ipairs(step[2]) do
  local companion, of = string.match(string.sub(key, #RESERVED_PREFIX + 1), '^(%a+):' .. TAG .. '(.*)$')
  if string.sub(key, 1, #RESERVED_PREFIX) ~= RESERVED_PREFIX then
    if fixed then take(key) end
  elseif companion == 'line' or companion == 'fence' and not fixed and redis.call('EXISTS', of) == 1 then
    take(of)
  end
end
return {step[1], found}
