-- Runs a script for one of several names. An error becomes the result for this name, and does not affect the other
-- names.
--#fault
local function each(script, keys, args)
  local is_ok, result = pcall(script, keys, args)
  return (not is_ok or type(result) == 'table' and result.err) and fault(result) or result
end
