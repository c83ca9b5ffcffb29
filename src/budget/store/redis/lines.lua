-- What an operation is taken from: for each amount that is asked for the budgets of its unit.

local function remaining(balance)
  return balance.allocated - balance.spent - balance.reserved - balance.debt
end

-- Why nothing may be written to it, if so.
local function is_shut(balance)
  if balance.status == 'FROZEN' then
    return 'BUDGET_FROZEN'
  elseif balance.status == 'CLOSED' then
    return 'BUDGET_CLOSED'
  end
end

-- Why `estimate` cannot be reserved, if so.
local function refuses(balance, estimate)
  local code = is_shut(balance)
  if code then
    return code
  elseif balance.is_over_limit then
    return 'OVERDRAFT_LIMIT_EXCEEDED'
  elseif balance.debt > 0 and balance.overdraft_limit == 0 then
    return 'DEBT_OUTSTANDING'
  elseif remaining(balance) < estimate then
    return 'BUDGET_EXCEEDED'
  end
end

local function refuse_without_budget(unit)
  for _, scope in ipairs(asked.scopes) do
    for _, other in ipairs(UNITS) do
      if other ~= unit and balance_of(other, scope) then
        refuse_at(scope, unit, 'UNIT_MISMATCH')
      end
    end
  end
  refuse('NOT_FOUND', 'There is no budget for this.')
end

-- The budgets in `unit`, as they are or as they are made: those of the scopes from the top, then the quotas.
local function line(unit)
  local found = {}
  for _, scope in ipairs(asked.scopes) do
    local balance = balance_of(unit, scope) or asked.opens and new_balance(AMOUNT_MAX)
    if balance then
      found[#found + 1] = { scope = scope, balance = balance }
    end
  end
  for _, quota in ipairs(asked.quotas) do
    if quota.unit == unit then
      local balance = copied(balance_of(unit, quota.scope) or new_balance(0))
      -- One that was raised is over its limit no more.
      balance.is_over_limit = balance.is_over_limit and quota.allocated <= balance.allocated
      balance.allocated = quota.allocated
      balance.until_ms = math.max(balance.until_ms or 0, quota.until_ms)
      found[#found + 1] = { scope = quota.scope, balance = balance }
    end
  end
  if #found == 0 then
    refuse_without_budget(unit)
  end
  return found
end

-- One line for each amount.
local function lines()
  local fields = {}
  for _, amount in ipairs(asked.amounts) do
    for _, scope in ipairs(asked.scopes) do
      fields[#fields + 1] = field(amount.unit, scope)
    end
  end
  for _, quota in ipairs(asked.quotas) do
    fields[#fields + 1] = field(quota.unit, quota.scope)
  end
  fetch(fields)
  local all = {}
  for place, amount in ipairs(asked.amounts) do
    all[place] = { unit = amount.unit, amount = amount.amount, scopes = line(amount.unit) }
  end
  return all
end

-- The lines, if all of them have room for the estimates.
local function room()
  local all = lines()
  for _, one in ipairs(all) do
    for _, at in ipairs(one.scopes) do
      local code = refuses(at.balance, one.amount)
      if code then
        refuse_at(at.scope, one.unit, code)
      end
    end
  end
  return all
end

-- What the deepest scope that says so asks to be kept to, as JSON.
local function caps()
  local fields = {}
  for place = #asked.scopes, 1, -1 do
    for _, amount in ipairs(asked.amounts) do
      fields[#fields + 1] = field(amount.unit, asked.scopes[place])
    end
  end
  for _, text in ipairs(#fields > 0 and redis.call('HMGET', base .. 'caps', unpack(fields)) or {}) do
    if text then
      return text
    end
  end
end
