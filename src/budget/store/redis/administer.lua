-- What an operator does to a budget: allocate, fund, change its status.

local unit, scope = asked.unit, asked.scope
local name = field(unit, scope)

local function refuse_too_large()
  refuse('INVALID_REQUEST', 'The budget would be too large.')
end

local function allocate()
  local balance = balance_of(unit, scope) or new_balance(0)
  if math.max(asked.allocated or 0, asked.overdraft_limit or 0) > AMOUNT_MAX then
    refuse_too_large()
  end
  balance.overdraft_limit = asked.overdraft_limit or balance.overdraft_limit
  if asked.allocated then
    balance.allocated = asked.allocated
    balance.is_over_limit = false
  end
  if asked.caps == '' then
    redis.call('HDEL', base .. 'caps', name)
  elseif asked.caps then
    redis.call('HSET', base .. 'caps', name, asked.caps)
  end
  return balance
end

local function fund()
  local balance = balance_of(unit, scope) or new_balance(0)
  balance.allocated = balance.allocated + asked.amount
  if balance.allocated > AMOUNT_MAX then
    refuse_too_large()
  end
  -- What it owes is paid first.
  local paid = math.min(balance.debt, asked.amount)
  balance.debt = balance.debt - paid
  balance.spent = balance.spent + paid
  balance.is_over_limit = false
  return balance
end

local function set_status()
  local balance = balance_of(unit, scope)
  if not balance then
    refuse('NOT_FOUND', 'There is no budget of ' .. scope .. ' in ' .. unit .. '.')
  elseif balance.status == 'CLOSED' and asked.status ~= 'CLOSED' then
    refuse_at(scope, unit, 'BUDGET_CLOSED')
  end
  balance.status = asked.status
  return balance
end

-- What has a key is done once.
local give = asked.place and once or answer

return give(function()
  local balance = ({ allocate = allocate, fund = fund, set_status = set_status })[asked.operation]()
  put_balance(unit, scope, balance)
  local caps = redis.call('HGET', base .. 'caps', name)
  return written(balance, caps and ',"caps":' .. caps)
end)
