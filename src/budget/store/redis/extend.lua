-- Lets a reservation stand longer.

return once(function()
  local reservation = active(asked.id)
  if now > reservation.expires_ms then
    refuse_expired(asked.id)
  elseif reservation.extensions >= EXTENSIONS_MAX then
    refuse('MAX_EXTENSIONS_EXCEEDED', 'It was extended ' .. whole(EXTENSIONS_MAX) .. ' times.')
  end
  local expires_ms = reservation.expires_ms + asked.by_ms
  redis.call('HSET', reservation_key(asked.id), 'extensions', whole(reservation.extensions + 1), 'expires_ms', whole(expires_ms))
  redis.call('ZADD', base .. 'due', whole(expires_ms + reservation.grace_ms), asked.id)
  return '{"expires_at_ms":' .. whole(expires_ms) .. '}'
end)
