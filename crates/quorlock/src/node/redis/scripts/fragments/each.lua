-- What a script gives in the place of another. What goes wrong with one name is no harm to others: its error is its answer.
--#fault
local function each(script, keys, args)
  local done, gave = pcall(script, keys, args)
  return (not done or type(gave) == 'table' and gave.err) and fault(gave) or gave
end
