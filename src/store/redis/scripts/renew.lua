-- Renews places in a count. One that is gone is put back: whoever renews it holds it, and
-- the count may have lost it by a restart.
-- KEYS: the count. ARGV: clock in ms or '', lease in ms, members.
-- Returns how many were renewed or put back.
local now = tonumber(ARGV[1])
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end
local lease = tonumber(ARGV[2])
local till = string.format('%.0f', now + lease)
for at = 3, #ARGV do
  redis.call('ZADD', KEYS[1], till, ARGV[at])
end
if redis.call('PTTL', KEYS[1]) < lease then
  redis.call('PEXPIRE', KEYS[1], string.format('%.0f', lease))
end
return #ARGV - 2
