-- Whether all of it has room; writes nothing.

return answer(function()
  room()
  return 'null'
end)
