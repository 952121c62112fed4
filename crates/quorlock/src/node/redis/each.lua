-- What a script gives in the place of another. What goes wrong with one name is no harm to others: its error is its answer.
--#fault
local function each(script, keys, args)
  local done, gave = pcall(script, keys, args)
  return (not done or type(gave) == 'table' and gave.err) and fault(gave) or gave
end
-- Of each name whether nobody waits for it: as a rule one look at all lines is enough. Needs `lines`. A line that may not be
-- looked at is not quiet.
local waited = redis.pcall('EXISTS', unpack(lines)) ~= 0
local function is_quiet(i)
  return not waited or redis.pcall('EXISTS', lines[i]) == 0
end
