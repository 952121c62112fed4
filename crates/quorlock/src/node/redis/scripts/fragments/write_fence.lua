-- Stores the fence of a vote, and the data that note.lua reads. Needs `signed` (the attempt that signed the vote) and
-- `since` (the start of the vote, if the vote existed before).
redis.call('SET', KEYS[3], (fence == asked and ARGV[3] or string.format('%.0f', fence)) .. ' ' .. signed .. ' '
  .. (since or clock[1] .. string.sub('00000', #clock[2]) .. clock[2]) .. ' '
  .. (ticket == '' and '-' or ticket) .. ' ' .. ARGV[7], 'PX', ARGV[6])
