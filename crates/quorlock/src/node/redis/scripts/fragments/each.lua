-- Runs a script for one name of several. An error is the result for that name and does not affect the others.
--#fault
local function each(script, keys, args)
  local done, gave = pcall(script, keys, args)
  return (not done or type(gave) == 'table' and gave.err) and fault(gave) or gave
end
