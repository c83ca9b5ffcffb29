-- Gives back all of it.

return once(function()
  local reservation = standing(asked.id)
  give_back(reservation, 'RELEASED')
  return '{"released":' .. amounts(reservation.holds) .. '}'
end)
