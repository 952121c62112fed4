-- What goes with the fence: who signed the vote that it was given under, since when, with which ticket, and who it was.
local by, began, voted, who = string.match(got[3] or '', '^%d+ ?(%x*) ?(%d*) ?(%S*) ?(.*)$')
