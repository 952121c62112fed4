-- Another program holds the lock: its key has another type, for which MGET returns nil. Restores the fence. The code that
-- follows sees a vote.
if got[3] then redis.call('SET', KEYS[3], got[3], 'KEEPTTL') else redis.call('DEL', KEYS[3]) end
fence = got[3] and tonumber(string.match(got[3], '^%d+'))
vote = '0'
local other = 'TYPE ' .. (redis.pcall('TYPE', KEYS[2]).ok or 'unknown')
