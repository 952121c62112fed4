-- A client's errands about the node itself: `attend` of quorlock-core's node::incarnation, line by line.
-- KEYS  1 epoch: the mark of this life, with the floor once it is ripe ('hex' or 'hex floor')   2 meta
-- ARGV  1 errand, then its arguments
-- Gives {accepted, now, mark, run, cluster, nodes, max_ttl, sigma, witnessed, witness, seen, founders}
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local mark = redis.call('GET', KEYS[1])
local fields = {'run', 'cluster', 'nodes', 'max_ttl', 'sigma', 'witnessed', 'witness', 'seen', 'founders'}
local meta = redis.call('HMGET', KEYS[2], unpack(fields))
local errand = ARGV[1]
local blank = not meta[2]
local accepted = 0

local function number(x) return string.format('%.0f', x) end

local function floored(floor)
  local before = mark and tonumber(string.match(mark, ' (%d+)$'))
  return math.max(floor, before or 0)
end

local function begin(run, epoch, cluster, nodes, max_ttl, sigma, founders, floor)
  redis.call('DEL', KEYS[2])
  redis.call('HSET', KEYS[2], 'run', run, 'cluster', cluster, 'nodes', nodes, 'max_ttl', max_ttl, 'sigma', sigma,
    'witnessed', '0', 'founders', founders)
  redis.call('SET', KEYS[1], floor and epoch .. ' ' .. number(floored(floor)) or epoch)
end

if errand == 'look' then
  accepted = 1
elseif errand == 'hello' then
  -- 2 run  3 fresh epoch  4 cluster  5 nodes  6 max_ttl  7 sigma  8 founders  9 floor's offset from the clock, or ''
  local kin = blank or (meta[2] == ARGV[4] and meta[3] == ARGV[5] and meta[4] == ARGV[6] and meta[5] == ARGV[7])
  if kin then
    accepted = 1
    if blank or not mark or meta[1] ~= ARGV[2] then
      local floor = ARGV[9] ~= '' and now + ARGV[9]
      local founders = blank and ARGV[8] or meta[9]
      begin(ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7], founders, floor)
    end
  end
elseif errand == 'init' then
  -- 2 run  3 fresh epoch  4 cluster  5 nodes  6 max_ttl  7 sigma
  begin(ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7], '', now - ARGV[7])
  accepted = 1
elseif not blank and mark == ARGV[2] then
  -- 2 epoch, which is the whole mark as long as the node is not ripe  3 witness
  if errand == 'witness' then
    if not meta[7] or meta[7] == ARGV[3] or math.abs(now - meta[8]) >= 2000000 then
      redis.call('HSET', KEYS[2], 'witness', ARGV[3], 'seen', number(now))
      accepted = 1
    end
  elseif errand == 'add' then
    if meta[7] == ARGV[3] then
      redis.call('HSET', KEYS[2], 'witnessed', number(meta[6] + ARGV[4]), 'seen', number(now))
      accepted = 1
    end
  elseif errand == 'ripen' then
    if tonumber(meta[6]) >= meta[4] * 1100 then
      redis.call('SET', KEYS[1], mark .. ' ' .. number(math.max(now - meta[5], 0)))
      accepted = 1
    end
  end
end

local standing = {accepted, now, redis.call('GET', KEYS[1]) or ''}
for _, value in ipairs(redis.call('HMGET', KEYS[2], unpack(fields))) do
  standing[#standing + 1] = value or ''
end
return standing
