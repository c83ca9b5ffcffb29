-- Gives back what was never settled in time, and forgets the quotas and the lines of the books whose time is over: at most SWEEP_MAX of
-- each. Several who sweep at once do it one after the other, and find what the first left.

local function before(key, until_ms)
  return redis.call('ZRANGEBYSCORE', base .. key, '-inf', '(' .. whole(until_ms), 'LIMIT', 0, SWEEP_MAX)
end

return answer(function()
  local count = 0
  for _, id in ipairs(before('due', now)) do
    local reservation = read_reservation(id)
    if reservation and reservation.state == 'ACTIVE' then
      give_back(reservation, 'EXPIRED')
      count = count + 1
    else
      redis.call('ZREM', base .. 'due', id)
    end
  end
  local ended = before('ending', now - KEPT_MS)
  fetch(ended)
  for _, name in ipairs(ended) do
    local balance = book[name]
    if not balance or balance.reserved == 0 then
      book[name] = false
      changed[name] = true
    end
  end
  call('ZREM', base .. 'entries', before('entries', now - ENTRIES_KEPT_MS))
  return whole(count)
end)
