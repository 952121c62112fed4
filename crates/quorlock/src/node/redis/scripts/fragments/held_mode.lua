-- Parses the vote. An exclusive vote, ours or another program's, has no `kind`. `signed` is the attempt that signed the
-- vote: the holder, or the first attempt that entered. `detail` is the owner or the number of slots.
local kind, signed, detail
if vote then kind, signed, detail = string.match(vote, '^([rsk]) (%x+) ?(%x*)$') end
-- Another program's value may look similar to ours.
if kind and (#signed ~= 32 or kind == 's' and detail ~= '' or kind == 'r' and #detail ~= 32
  or kind == 'k' and not string.find(detail, '^%d%d?%d?%d?$')) then kind, signed = nil, nil end
signed = signed or vote
