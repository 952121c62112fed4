-- Of each name whether nobody waits for it: as a rule one look at all queues is enough. Needs `queues`. A queue that may not be
-- looked at is not quiet.
local waited = redis.pcall('EXISTS', unpack(queues)) ~= 0
local function is_quiet(i)
  return not waited or redis.pcall('EXISTS', queues[i]) == 0
end
