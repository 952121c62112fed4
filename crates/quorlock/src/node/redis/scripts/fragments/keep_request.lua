-- Stores the request of a queue position, so that a handoff can grant it: the attempt (32 digits); proposed fence, ttl,
-- max clock skew, fence retention and the position's last millisecond (16 digits each); the text of the epoch key, a
-- space, and the holder.
if not ARGV[9] then
  redis.call('HSET', ASKED, waiter, attempt .. string.format('%016.0f%016.0f%016.0f%016.0f%016.0f', ARGV[3], ARGV[4],
    ARGV[5], ARGV[6], millis + ENTRY_LEASE) .. ARGV[1] .. ' ' .. ARGV[7])
  redis.call('PEXPIRE', ASKED, ENTRY_LEASE * 10)
else
  redis.call('HDEL', ASKED, waiter)
end
