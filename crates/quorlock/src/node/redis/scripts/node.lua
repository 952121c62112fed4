-- Executes a client's command about the node itself. Mirrors `attend` of quorlock-core's node::restart line by line.
-- KEYS  1 the epoch key: 'epoch' while the node is in quarantine, 'epoch floor' once it may vote. The epoch (32 digits)
--         names this incarnation (one life of the node's memory). The node grants no fence at or below the floor.
--       2 the meta key: the node's constants and the state of its quarantine
-- ARGV  1 the command, then its arguments
-- Returns {accepted, now, the text of the epoch key, and the fields of the meta key}
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local epoch_text = redis.call('GET', KEYS[1])
local fields = {META_FIELDS}
local meta = redis.call('HMGET', KEYS[2], unpack(fields))
local command = ARGV[1]
local blank = not meta[2]
local accepted = 0

local function number(x) return string.format('%.0f', x) end

-- Reject values that would not be read back as written: they could let a node vote too early, or never again.
local function is_count(x) return x and #x < 16 and (x == '0' or string.find(x, '^[1-9]%d*$')) end
local function is_id(x) return x and #x == 32 and string.find(x, '^[0-9a-f]+$') end
local function is_word(x) return x and string.find(x, '^[!-~]*$') end
local function is_offset(x) return x and (x == '' or is_count(string.match(x, '^%-?(.*)$'))) end
local function is_life()
  return is_word(ARGV[2]) and is_id(ARGV[3]) and is_word(ARGV[4]) and ARGV[4] ~= '' and is_count(ARGV[5])
    and is_count(ARGV[6]) and is_count(ARGV[7]) and is_word(ARGV[8])
end
local sound = command == 'look' or command == 'init' and is_life()
  or command == 'hello' and is_life() and is_word(ARGV[9]) and is_offset(ARGV[10])
  or command == 'reconfigure' and is_life() and is_offset(ARGV[9]) and (ARGV[10] == '0' or ARGV[10] == '1')
  or command == 'claim' and is_id(ARGV[2]) and is_count(ARGV[3])
if not sound then return redis.error_reply('ERR not a node command') end

local old_floor = epoch_text and tonumber(string.match(epoch_text, ' (%d+)$'))

-- Starts an incarnation. ARGV 2 to 8 are the run, the epoch, the constants and the promotion.
local function begin(founders, floor, quarantine, suspended, restarts)
  redis.call('DEL', KEYS[2])
  redis.call('HSET', KEYS[2], 'run', ARGV[2], 'cluster', ARGV[4], 'nodes', ARGV[5], 'max_ttl', ARGV[6],
    'skew', ARGV[7], 'elapsed', '0', 'founders', founders, 'quarantine', number(quarantine),
    'suspended', suspended, 'restarts', number(restarts), 'promotion', ARGV[8])
  redis.call('SET', KEYS[1], floor and ARGV[3] .. ' ' .. number(math.max(floor, old_floor or 0)) or ARGV[3])
end

-- Returns the length of the quarantine: at least as long as every lease under the new or the previous constants can
-- last.
local function quarantine_micros()
  local old_quarantine = blank and 0 or old_floor and meta[4] * 1100 or tonumber(meta[8])
  return math.max(ARGV[6] * 1100, old_quarantine)
end

-- Returns the floor if the node may vote at once, and false if not.
local function floor_of(offset, suspended)
  return offset ~= '' and suspended == '0' and now + offset
end

-- Returns whether the server's memory may have been replaced: ARGV has another run than meta, or a promotion that meta
-- does not have.
local function is_replaced()
  for promotion in string.gmatch(ARGV[8], '[^+]+') do
    if not string.find('+' .. (meta[11] or '') .. '+', '+' .. promotion .. '+', 1, true) then return true end
  end
  return meta[1] ~= ARGV[2]
end

if command == 'look' then
  accepted = 1
elseif command == 'hello' then
  -- 2 run  3 fresh epoch  4 cluster  5 nodes  6 max_ttl  7 skew  8 promotion  9 founders
  -- 10 floor's offset from the clock, or ''
  local has_same_constants = blank or (meta[2] == ARGV[4] and meta[3] == ARGV[5] and meta[4] == ARGV[6] and meta[5] == ARGV[7])
  if has_same_constants then
    accepted = 1
    if blank or not epoch_text or is_replaced() then
      local suspended = not blank and meta[9] or '0'
      local founders, restarts = blank and ARGV[9] or meta[7], blank and 0 or meta[10] + 1
      begin(founders, floor_of(ARGV[10], suspended), quarantine_micros(), suspended, restarts)
    end
  end
elseif command == 'reconfigure' then
  -- 2 run  3 fresh epoch  4 cluster  5 nodes  6 max_ttl  7 skew  8 promotion
  -- 9 floor's offset, or ''  10 whether to suspend
  if blank or meta[2] == ARGV[4] then
    begin(not blank and meta[7] or '', floor_of(ARGV[9], ARGV[10]), quarantine_micros(), ARGV[10], not blank and meta[10] or 0)
    accepted = 1
  end
elseif command == 'init' then
  -- 2 run  3 fresh epoch  4 cluster  5 nodes  6 max_ttl  7 skew  8 promotion
  begin('', now - ARGV[7], ARGV[6] * 1100, '0', 0)
  accepted = 1
elseif command == 'claim' and not blank and epoch_text == ARGV[2] then
  -- 2 epoch, which is the whole text of the epoch key while the node is in quarantine  3 how many microseconds of the
  -- quarantine have passed
  -- The highest claim counts, never the sum.
  local elapsed = math.max(meta[6], ARGV[3])
  if elapsed > tonumber(meta[6]) then redis.call('HSET', KEYS[2], 'elapsed', number(elapsed)) end
  if meta[9] == '0' and elapsed >= tonumber(meta[8]) then
    redis.call('SET', KEYS[1], epoch_text .. ' ' .. number(math.max(now - meta[5], 0)))
  end
  accepted = 1
end

local standing = {accepted, now, redis.call('GET', KEYS[1]) or ''}
for _, value in ipairs(redis.call('HMGET', KEYS[2], unpack(fields))) do
  standing[#standing + 1] = value or ''
end
return standing
