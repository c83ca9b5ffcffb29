-- Charges what it cost, and gives back what was put aside beyond that.

local function actual_of(unit)
  for _, actual in ipairs(asked.actuals) do
    if actual.unit == unit then
      return actual.amount
    end
  end
end

local function refuse_other_units(holds)
  local is_held = {}
  for _, hold in ipairs(holds) do
    is_held[hold.unit] = true
  end
  for _, actual in ipairs(asked.actuals) do
    if not is_held[actual.unit] then
      refuse('UNIT_MISMATCH', 'What was used is counted in another unit than what was reserved.')
    end
  end
end

return once(function()
  local reservation = standing(asked.id)
  refuse_other_units(reservation.holds)
  local cost, charged, released = {}, {}, {}
  for place, hold in ipairs(reservation.holds) do
    -- A unit that is not told costs what was estimated.
    local actual = actual_of(hold.unit) or hold.amount
    local all = charge_later(hold.unit, held(hold), { estimate = hold.amount, actual = actual, policy = reservation.overage })
    cost[place] = { unit = hold.unit, amount = actual }
    charged[place] = { unit = hold.unit, amount = all }
    if actual < hold.amount then
      released[#released + 1] = { unit = hold.unit, amount = hold.amount - actual }
    end
  end
  enter(reservation.subject, reservation.action, cost, charged)
  settle(asked.id, 'COMMITTED')
  return '{"charged":' .. amounts(charged) .. ',"released":' .. amounts(released) .. '}'
end, BOOKED_KEPT_MS)
