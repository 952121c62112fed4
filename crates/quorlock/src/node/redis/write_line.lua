-- Stores the line as it is now, until the last place in it ends. Needs `line` and `line_key`.
if #line > 27 then
  redis.call('SET', line_key, line, 'PXAT', tonumber(string.sub(line, 15, 27)))
else
  redis.call('DEL', line_key)
end
