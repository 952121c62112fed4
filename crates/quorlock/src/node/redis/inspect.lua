-- How a name stands: `report` of quorlock-core's node::apply. It changes nothing.
-- KEYS  1 vote   2 fence   3 holds   4 kept
-- Gives {2, now, fence, since, waiting}, and of a vote that stands also left, period, how many hold it, who.
--       A period is 'x', 'r <owner>', 's' or 'k <permits>'.
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local millis = math.floor(now / 1000)
local holds, vote, note = KEYS[3], redis.call('GET', KEYS[1]), redis.call('GET', KEYS[2])
local fence, by, since, who = string.match(note or '', '^(%d+) ?(%x*) ?(%d*) ?%S* ?(.*)$')
local waiting = redis.call('ZCOUNT', KEYS[4], string.format('%.0f', millis), '+inf')
local report = {2, now, tonumber(fence or 0), tonumber(since) or 0, waiting}
if not vote then return report end
--#period
--#entries
local period, count = 'x', 1
if kind then
  period = detail == '' and kind or kind .. ' ' .. detail
  count = math.max(#read_entries(), 1)
end
report[6], report[7], report[8] = redis.call('PTTL', KEYS[1]), period, count
report[9] = by == signed and who or ''
return report
