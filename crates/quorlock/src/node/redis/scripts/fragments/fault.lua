-- Converts an error to a reply. Redis before 7 puts the position in the script before the message.
local function fault(gave)
  local why = string.gsub(type(gave) == 'table' and gave.err or gave, '^@?user_script: ?%d+: %-?', '')
  return redis.error_reply(string.find(why, '^%u+ ') and why or 'ERR ' .. why)
end
