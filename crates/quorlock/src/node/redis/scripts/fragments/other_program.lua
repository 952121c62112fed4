-- Runs if another program holds the lock: the vote's key has another type, for which MGET returns nil. Restores the
-- fence, and sets `vote`, so that the code after this fragment treats the lock as held.
if got[3] then redis.call('SET', KEYS[3], got[3], 'KEEPTTL') else redis.call('DEL', KEYS[3]) end
fence = got[3] and tonumber(string.match(got[3], '^%d+'))
vote = '0'
local other = 'TYPE ' .. (redis.pcall('TYPE', KEYS[2]).ok or 'unknown')
