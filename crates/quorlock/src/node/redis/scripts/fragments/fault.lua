-- What went wrong, as an answer. Redis before 7 says where that was before it says what.
local function fault(gave)
  local why = string.gsub(type(gave) == 'table' and gave.err or gave, '^@?user_script: ?%d+: %-?', '')
  return redis.error_reply(string.find(why, '^%u+ ') and why or 'ERR ' .. why)
end
