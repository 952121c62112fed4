-- Returns whether no client waits for the name with index `i`. One EXISTS for all queues is enough if all queues are
-- empty. Needs `queues`. A queue that we may not read does not count as quiet.
local waited = redis.pcall('EXISTS', unpack(queues)) ~= 0
local function is_quiet(i)
  return not waited or redis.pcall('EXISTS', queues[i]) == 0
end
