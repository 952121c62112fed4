-- Stores the fence of a vote. Needs `signed`, and `goes_on` for a vote that stood before, with its note.
if not (goes_on and by == signed) then since = clock[1] .. string.sub('000000', #clock[2] + 1) .. clock[2] end
redis.call('SET', KEYS[3], string.format('%.0f', fence) .. ' ' .. signed .. ' ' .. since .. ' '
  .. (place == '' and '-' or string.sub(place, 1, 33)) .. ' ' .. ARGV[7], 'PX', ARGV[6])
