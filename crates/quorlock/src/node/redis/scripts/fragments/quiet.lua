-- Returns whether nobody waits for a name. Usually one EXISTS for all queues is enough. Needs `queues`. A queue that we may
-- not read is not quiet.
local waited = redis.pcall('EXISTS', unpack(queues)) ~= 0
local function is_quiet(i)
  return not waited or redis.pcall('EXISTS', queues[i]) == 0
end
