-- What all operations of the ledger share: the time, the book of balances, refusals, and answers that are given again.
--
-- Before it stand, as numbers of the ledger's own rules: KEPT_MS, BOOKED_KEPT_MS, SETTLED_KEPT_MS, SWEEP_MAX,
-- EXTENSIONS_MAX, AMOUNT_MAX, ENTRIES_KEPT_MS and UNITS.
-- KEYS[1] is how all keys begin, ARGV[1] what is asked, as JSON, ARGV[2] the time in milliseconds, or nothing for that of this server.
--
-- Amounts are at most 2^53 - 1, so a double keeps them exactly. What writes a number as text by itself keeps 14 digits of it: every
-- number goes through `whole`. What is JSON and not looked into, a subject, an action, caps, is a string here and copied as it is.

local base = KEYS[1]
local asked = cjson.decode(ARGV[1])
local now = tonumber(ARGV[2])
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end

local function whole(number)
  return string.format('%.0f', number)
end

-- Ends the operation with a no. Nothing was written before one.
local function refuse(code, message, scope, unit)
  error({ refusal = cjson.encode({ code = code, message = message, scope = scope, unit = unit }) })
end

local REASONS = {
  BUDGET_FROZEN = 'is frozen',
  BUDGET_CLOSED = 'is closed',
  OVERDRAFT_LIMIT_EXCEEDED = 'was used beyond its limit',
  DEBT_OUTSTANDING = 'is in debt',
  UNIT_MISMATCH = 'counts other units',
}

local COUNTED = { USD_MICROCENTS = 'money', TOKENS = 'tokens', CREDITS = 'calls', RISK_POINTS = 'risk points' }

local function refuse_at(scope, unit, code)
  local why = REASONS[code] or 'does not have so much left'
  refuse(code, 'The budget of ' .. scope .. ' in ' .. COUNTED[unit] .. ' ' .. why .. '.', scope, unit)
end

-- The command with all of `words`, so many at a time as the stack of a script holds. Their number is even where they are pairs.
local function call(command, key, words)
  for first = 1, #words, 1000 do
    redis.call(command, key, unpack(words, first, math.min(first + 999, #words)))
  end
end

-- The balances that were read, by field; false where there is none. What an operation puts there is written at its end.
local book = {}
local changed = {}

local function field(unit, scope)
  return unit .. ' ' .. scope
end

-- Reads those of `fields` that are not known, all at once.
local function fetch(fields)
  local unknown = {}
  for _, name in ipairs(fields) do
    if book[name] == nil then
      book[name] = false
      unknown[#unknown + 1] = name
    end
  end
  if #unknown == 0 then
    return
  end
  for place, text in ipairs(redis.call('HMGET', base .. 'balances', unpack(unknown))) do
    if text then
      local balance = cjson.decode(text)
      balance.indexed_ms = balance.until_ms
      book[unknown[place]] = balance
    end
  end
end

-- nil where there is none.
local function balance_of(unit, scope)
  local name = field(unit, scope)
  fetch({ name })
  return book[name] or nil
end

local function put_balance(unit, scope, balance)
  local name = field(unit, scope)
  book[name] = balance
  changed[name] = true
end

local function new_balance(allocated)
  return {
    allocated = allocated, spent = 0, reserved = 0, debt = 0, overdraft_limit = 0, is_over_limit = false, status = 'ACTIVE',
  }
end

local function copied(balance)
  local copy = {}
  for name, value in pairs(balance) do
    copy[name] = value
  end
  return copy
end

-- `more` are further members, as JSON.
local function written(balance, more)
  local ending = balance.until_ms and ',"until_ms":' .. whole(balance.until_ms) or ''
  return string.format(
    '{"allocated":%.0f,"spent":%.0f,"reserved":%.0f,"debt":%.0f,"overdraft_limit":%.0f,"is_over_limit":%s,"status":"%s"%s%s}',
    balance.allocated, balance.spent, balance.reserved, balance.debt, balance.overdraft_limit, tostring(balance.is_over_limit),
    balance.status, ending, more or '')
end

-- Writes all that was put.
local function keep()
  local kept, endings, removed = {}, {}, {}
  for name in pairs(changed) do
    local balance = book[name]
    if not balance then
      removed[#removed + 1] = name
    else
      kept[#kept + 1] = name
      kept[#kept + 1] = written(balance)
      if balance.until_ms and balance.until_ms ~= balance.indexed_ms then
        endings[#endings + 1] = whole(balance.until_ms)
        endings[#endings + 1] = name
      end
    end
  end
  call('HSET', base .. 'balances', kept)
  call('ZADD', base .. 'ending', endings)
  call('HDEL', base .. 'balances', removed)
  call('HDEL', base .. 'caps', removed)
  call('ZREM', base .. 'ending', removed)
end

-- Does `act`, which returns JSON, and gives its answer or its no.
local function answer(act)
  local is_done, outcome = pcall(act)
  if is_done then
    keep()
    return { 'yes', outcome }
  end
  if type(outcome) == 'table' and outcome.refusal then
    return { 'no', outcome.refusal }
  end
  error(outcome)
end

-- Does `act` unless it was done under this key: then the same answer is given again, for `kept_ms`, or for KEPT_MS.
local function once(act, kept_ms)
  return answer(function()
    local key = base .. 'answer:' .. asked.place
    local known = redis.call('GET', key)
    if known then
      local hash, until_ms, json = known:match('^(%x+) (%d+) (.*)$')
      if now <= tonumber(until_ms) then
        if hash ~= asked.hash then
          refuse('IDEMPOTENCY_MISMATCH', 'The same key was used for something else.')
        end
        return json
      end
    end
    local json = act()
    kept_ms = kept_ms or KEPT_MS
    redis.call('SET', key, asked.hash .. ' ' .. whole(now + kept_ms) .. ' ' .. json, 'PX', whole(kept_ms))
    return json
  end)
end

-- A list of amounts, as JSON.
local function amounts(list)
  local texts = {}
  for place, amount in ipairs(list) do
    texts[place] = string.format('{"unit":"%s","amount":%.0f}', amount.unit, amount.amount)
  end
  return '[' .. table.concat(texts, ',') .. ']'
end
