-- Puts the estimates aside in every budget they are taken from, or in none.

-- The holds as JSON, and the scopes, each once.
local function hold(all)
  local holds, affected, is_affected = {}, {}, {}
  for place, one in ipairs(all) do
    local scopes = {}
    for nth, at in ipairs(one.scopes) do
      local after = copied(at.balance)
      after.reserved = after.reserved + one.amount
      put_balance(one.unit, at.scope, after)
      scopes[nth] = at.scope
      if not is_affected[at.scope] then
        is_affected[at.scope] = true
        affected[#affected + 1] = at.scope
      end
    end
    holds[place] = string.format('{"unit":"%s","amount":%.0f,"scopes":%s}', one.unit, one.amount, cjson.encode(scopes))
  end
  return '[' .. table.concat(holds, ',') .. ']', affected
end

return once(function()
  local all = room()
  local holds, affected = hold(all)
  local expires_ms = now + asked.ttl_ms
  redis.call('HSET', reservation_key(asked.id), 'state', 'ACTIVE', 'subject', asked.subject, 'action', asked.action, 'holds', holds,
    'overage', asked.overage, 'expires_ms', whole(expires_ms), 'grace_ms', whole(asked.grace_ms), 'extensions', '0')
  -- Where one of this id was settled long ago.
  redis.call('PERSIST', reservation_key(asked.id))
  redis.call('ZADD', base .. 'due', whole(expires_ms + asked.grace_ms), asked.id)
  local limits = caps()
  return string.format('{"reservation_id":"%s","reserved":%s,"affected_scopes":%s,"expires_at_ms":%.0f%s}', asked.id,
    amounts(asked.amounts), #affected > 0 and cjson.encode(affected) or '[]', expires_ms, limits and ',"caps":' .. limits or '')
end)
