-- The data stored with the fence: the attempt that signed the vote, its start, its ticket, and its holder.
local by, began, voted, who = string.match(got[3] or '', '^%d+ ?(%x*) ?(%d*) ?(%S*) ?(.*)$')
