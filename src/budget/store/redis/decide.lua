-- Whether all of it has room, and what it would have to keep to; writes nothing.

return answer(function()
  room()
  return caps() or 'null'
end)
