-- Takes a place in a count: drops those whose lease is over, counts, adds.
-- KEYS: the count. ARGV: clock in ms or '', member, lease in ms, limit or -1.
-- Returns whether the place is taken, and how many are.
local now = tonumber(ARGV[1])
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end
local member, lease, limit = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now))
local count = redis.call('ZCARD', KEYS[1])
-- One that is there already was asked for twice, since its answer was lost.
if not redis.call('ZSCORE', KEYS[1], member) then
  if limit >= 0 and count >= limit then
    -- No lease is longer than an hour: such as end later are of a clock that was set back
    -- since, and whoever holds one renews it.
    local wrong = string.format('(%.0f', now + 3600000)
    count = count - redis.call('ZREMRANGEBYSCORE', KEYS[1], wrong, '+inf')
    if count >= limit then
      return {0, count}
    end
  end
  count = count + 1
end
redis.call('ZADD', KEYS[1], string.format('%.0f', now + lease), member)
-- Another server may give longer leases.
if redis.call('PTTL', KEYS[1]) < lease then
  redis.call('PEXPIRE', KEYS[1], string.format('%.0f', lease))
end
return {1, count}
