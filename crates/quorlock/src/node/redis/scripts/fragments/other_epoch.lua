-- Refuses a request under another epoch. The first 16 digits of an epoch are the life of the memory, and the next 16 the
-- generation of the roster: if only the generation differs, the node has forgotten nothing, and the reason is another one.
if got[1] ~= ARGV[1] then
  local same_life = got[1] and string.sub(got[1], 1, 16) == string.sub(ARGV[1], 1, 16)
  return {same_life and string.sub(got[1], 17, 32) ~= string.sub(ARGV[1], 17, 32) and -11 or -1, now}
end
