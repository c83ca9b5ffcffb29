-- Reservations: read, written, given back.

local function reservation_key(id)
  return base .. 'reservation:' .. id
end

-- nil where there is none. Of one that is settled only its state is known.
local function read_reservation(id)
  local names = { 'state', 'subject', 'action', 'holds', 'overage', 'expires_ms', 'grace_ms', 'extensions' }
  local values = redis.call('HMGET', reservation_key(id), unpack(names))
  if not values[1] then
    return nil
  elseif values[1] ~= 'ACTIVE' then
    return { id = id, state = values[1] }
  end
  local reservation = { id = id }
  for place, name in ipairs(names) do
    reservation[name] = values[place]
  end
  reservation.holds = cjson.decode(reservation.holds)
  for _, name in ipairs({ 'expires_ms', 'grace_ms', 'extensions' }) do
    reservation[name] = tonumber(reservation[name])
  end
  return reservation
end

local function refuse_expired(id)
  refuse('RESERVATION_EXPIRED', 'The time of the reservation ' .. id .. ' is over.')
end

-- The reservation, if it was not settled.
local function active(id)
  local reservation = read_reservation(id)
  if not reservation then
    refuse('NOT_FOUND', 'There is no reservation ' .. id .. '.')
  elseif reservation.state == 'EXPIRED' then
    refuse_expired(id)
  elseif reservation.state ~= 'ACTIVE' then
    refuse('RESERVATION_FINALIZED', 'The reservation ' .. id .. ' is settled.')
  end
  return reservation
end

-- The reservation, if it may be settled now.
local function standing(id)
  local reservation = active(id)
  if now > reservation.expires_ms + reservation.grace_ms then
    refuse_expired(id)
  end
  return reservation
end

-- The balances that a hold is put aside in.
local function held(hold)
  local fields, scopes = {}, {}
  for place, scope in ipairs(hold.scopes) do
    fields[place] = field(hold.unit, scope)
  end
  fetch(fields)
  for place, scope in ipairs(hold.scopes) do
    scopes[place] = { scope = scope, balance = balance_of(hold.unit, scope) or new_balance(0) }
  end
  return scopes
end

-- It is over. That is kept for a while, and no more of it: there are many.
local function settle(id, state)
  redis.call('DEL', reservation_key(id))
  redis.call('HSET', reservation_key(id), 'state', state)
  redis.call('PEXPIRE', reservation_key(id), whole(SETTLED_KEPT_MS))
  redis.call('ZREM', base .. 'due', id)
end

local function give_back(reservation, state)
  for _, hold in ipairs(reservation.holds) do
    for _, at in ipairs(held(hold)) do
      local after = copied(at.balance)
      after.reserved = math.max(0, after.reserved - hold.amount)
      put_balance(hold.unit, at.scope, after)
    end
  end
  settle(reservation.id, state)
end
