-- What a script gives in the place of another. What goes wrong with one name is no harm to others: its error is its answer.
local function each(script, keys, args)
  local done, gave = pcall(script, keys, args)
  if done then return gave end
  -- Redis before 7 raises a text.
  return redis.error_reply(type(gave) == 'table' and gave.err or gave)
end
-- Of each name whether nobody waits for it: as a rule one look at all lines is enough. Needs `lines`.
local waited = redis.call('EXISTS', unpack(lines)) > 0
local function is_quiet(i)
  return not waited or redis.call('EXISTS', lines[i]) == 0
end
