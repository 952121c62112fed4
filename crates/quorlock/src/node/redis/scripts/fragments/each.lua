-- Runs a script for one name of several. An error becomes the result for this name, and does not affect the other
-- names.
--#fault
local function each(script, keys, args)
  local done, gave = pcall(script, keys, args)
  return (not done or type(gave) == 'table' and gave.err) and fault(gave) or gave
end
