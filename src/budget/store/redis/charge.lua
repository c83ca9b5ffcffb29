-- What is charged of a cost, and the books.

local function available(balance)
  return math.max(0, balance.allocated - balance.spent - balance.reserved - balance.debt)
end

local function refuse_overage(unit, scopes, beyond)
  local short = scopes[1]
  for _, at in ipairs(scopes) do
    if available(at.balance) < beyond then
      short = at
      break
    end
  end
  refuse('BUDGET_EXCEEDED', 'More was used than was reserved.', short and short.scope, unit)
end

-- Charges the `actual` of `charge_of` to `scopes`, in each of which its `estimate` was reserved (0 for none). What was reserved is given
-- back first. Returns what is charged and the balances after it.
local function charge(unit, scopes, charge_of)
  local estimate, actual, policy = charge_of.estimate, charge_of.actual, charge_of.policy
  local beyond = math.max(0, actual - estimate)
  if beyond > 0 and policy == 'REJECT' then
    refuse_overage(unit, scopes, beyond)
  end
  local function owes(balance)
    return policy == 'ALLOW_WITH_OVERDRAFT' and balance.overdraft_limit > 0
  end
  -- Scopes that may make debt do not cap what is charged.
  local added = beyond
  for _, at in ipairs(scopes) do
    if not owes(at.balance) then
      added = math.min(added, available(at.balance))
    end
  end
  local balances = {}
  for place, at in ipairs(scopes) do
    local before, after = at.balance, copied(at.balance)
    after.reserved = math.max(0, before.reserved - estimate)
    if beyond == 0 then
      after.spent = before.spent + actual
    elseif owes(before) then
      local unfunded = math.max(0, added - available(before))
      after.debt = before.debt + unfunded
      if unfunded > 0 and after.debt > before.overdraft_limit then
        refuse_at(at.scope, unit, 'OVERDRAFT_LIMIT_EXCEEDED')
      end
      after.spent = before.spent + estimate + added - unfunded
    else
      after.spent = before.spent + estimate + added
      after.is_over_limit = before.is_over_limit or available(before) < beyond
    end
    balances[place] = after
  end
  return (beyond == 0 and actual or estimate + added), balances
end

-- The charges of several units, written only once all of them are allowed.
local writes = {}

local function charge_later(unit, scopes, charge_of)
  local charged, balances = charge(unit, scopes, charge_of)
  for place, at in ipairs(scopes) do
    writes[#writes + 1] = { unit = unit, scope = at.scope, balance = balances[place] }
  end
  return charged
end

-- Writes the charges, and a line of them into the books.
local function enter(subject, action, cost, charged)
  for _, write in ipairs(writes) do
    put_balance(write.unit, write.scope, write.balance)
  end
  local entry = string.format('{"at_ms":%.0f,"subject":%s,"action":%s,"cost":%s,"charged":%s}',
    now, subject, action, amounts(cost), amounts(charged))
  -- A number before each keeps equal lines apart, and those of one millisecond in order.
  local number = redis.call('INCR', base .. 'entries:last')
  redis.call('ZADD', base .. 'entries', whole(now), string.format('%016.0f ', number) .. entry)
end
