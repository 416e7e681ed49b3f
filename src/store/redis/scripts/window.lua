-- A step of a count window with its freeze; the same arithmetic as src/limit/window.rs.
-- Times are milliseconds since the epoch in ARGV.
-- KEYS: the window. ARGV: clock in ns as 's:ns' or '', step, epoch in s, number, period,
-- freeze or -1, extend (1 or 0); for a refund the end of the window that was charged.
-- Returns now as seconds and nanoseconds since 1970, and the state before the step: whether
-- there is one, whether frozen, count, end.
local s, n
if ARGV[1] == '' then
  local time = redis.call('TIME')
  s, n = tonumber(time[1]), tonumber(time[2]) * 1000
else
  s, n = string.match(ARGV[1], '^(%d+):(%d+)$')
  s, n = tonumber(s), tonumber(n)
end
local step, epoch, number, period = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local freeze, extend = tonumber(ARGV[6]), ARGV[7] == '1'
local now = (s - epoch) * 1000 + math.floor(n / 1000000)

local frozen, count, till = 0, 0, 0
local known = redis.call('GET', KEYS[1])
if known then
  frozen, count, till = string.match(known, '^(%d):(%d+):(%d+)$')
  frozen, count, till = tonumber(frozen), tonumber(count), tonumber(till)
end
local before = {s, n, known and 1 or 0, frozen, count, till}

local live = known and till > now
if step == 'refund' then
  if live and frozen == 0 and count > 0 and till == tonumber(ARGV[8]) then
    count = count - 1
  end
else
  if not live then
    frozen, count, till = 0, 0, now + period
  elseif frozen == 0 then
    till = math.min(till, now + period)
  end
  local function freeze_now()
    frozen, count, till = 1, number, now + freeze
  end
  -- Whether the state after the step is kept: not that of a look which lets pass.
  local kept = true
  if frozen == 1 then
    if step ~= 'charge' and extend and freeze >= 0 and now + freeze > till then freeze_now() end
  elseif step == 'charge' then
    if freeze >= 0 and count >= number then
      freeze_now()
    else
      count = math.min(count + 1, number + 1)
    end
  elseif step == 'check' then
    kept = count > number
  elseif count < number then
    count = count + 1
  elseif freeze >= 0 then
    freeze_now()
  end
  if not kept then
    return before
  end
end
if frozen ~= before[4] or count ~= before[5] or till ~= before[6] then
  local ttl = math.max(till - now, 0) + 1000
  local after = string.format('%d:%.0f:%.0f', frozen, count, till)
  redis.call('SET', KEYS[1], after, 'PX', string.format('%.0f', ttl))
end
return before
