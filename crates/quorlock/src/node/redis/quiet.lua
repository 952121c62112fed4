-- Of each name whether nobody waits for it: as a rule one look at all lines is enough. Needs `lines`. A line that may not be
-- looked at is not quiet.
local waited = redis.pcall('EXISTS', unpack(lines)) ~= 0
local function is_quiet(i)
  return not waited or redis.pcall('EXISTS', lines[i]) == 0
end
