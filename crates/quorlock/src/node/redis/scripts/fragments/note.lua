-- The data stored with the fence: the attempt that signed the vote, the start of the vote, the attempt's ticket, and
-- the holder.
local by, began, voted, who = string.match(got[3] or '', '^%d+ ?(%x*) ?(%d*) ?(%S*) ?(.*)$')
