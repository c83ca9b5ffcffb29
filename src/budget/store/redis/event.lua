-- Charges a cost that nothing was put aside for.

return once(function()
  local all = lines()
  for _, one in ipairs(all) do
    for _, at in ipairs(one.scopes) do
      local code = is_shut(at.balance)
      if code then
        refuse_at(at.scope, one.unit, code)
      end
    end
  end
  local charged = {}
  for place, one in ipairs(all) do
    local all_of_it = charge_later(one.unit, one.scopes, { estimate = 0, actual = one.amount, policy = asked.overage })
    charged[place] = { unit = one.unit, amount = all_of_it }
  end
  enter(asked.subject, asked.action, asked.amounts, charged)
  return '{"charged":' .. amounts(charged) .. '}'
end, BOOKED_KEPT_MS)
