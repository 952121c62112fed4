-- Converts an error to a reply. Redis before 7 puts the position in the script before the message.
local function fault(failure)
  local message = string.gsub(type(failure) == 'table' and failure.err or failure, '^@?user_script: ?%d+: %-?', '')
  return redis.error_reply(string.find(message, '^%u+ ') and message or 'ERR ' .. message)
end
