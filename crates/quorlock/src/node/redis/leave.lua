-- Gives up the place in line, if there is one. Needs `own_place`, and the line.
if own_place then
  line = string.sub(line, 1, own_place - 1) .. string.sub(line, own_place + 83)
  --#write_line
end
