-- How the vote that stands is held. An exclusive one, ours or a stranger's, has no kind; `signed` is its first attempt.
local kind, signed, detail
if vote then kind, signed, detail = string.match(vote, '^([rsk]) (%x+) ?(%x*)$') end
-- A stranger may sign in words that look like ours.
if kind and (#signed ~= 32 or kind == 's' and detail ~= '' or kind == 'r' and #detail ~= 32
  or kind == 'k' and not string.find(detail, '^%d%d?%d?%d?$')) then kind, signed = nil, nil end
signed = signed or vote
