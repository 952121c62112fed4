-- Returns whether no client waits for the name with index `i`. Needs `queues`, the keys of all queues: if none of them
-- exists, one EXISTS is enough. A queue that we may not read does not count as quiet.
local may_wait = redis.pcall('EXISTS', unpack(queues)) ~= 0
local function is_quiet(i)
  return not may_wait or redis.pcall('EXISTS', queues[i]) == 0
end
