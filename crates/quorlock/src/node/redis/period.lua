-- How the vote that stands is held. An exclusive one, ours or a stranger's, has no kind; `signed` is its first attempt.
local kind, signed, detail
if vote then kind, signed, detail = string.match(vote, '^([rsk]) (%x+) ?(%w*)$') end
signed = signed or vote
