-- A step of a token bucket (GCRA); the same arithmetic as src/limit/gcra.rs.
-- Nanoseconds since 1970 do not fit Lua's numbers, so a time is a pair: seconds, nanoseconds.
-- KEYS: the bucket. ARGV: clock in ns as 's:ns' or '', step, then the interval, the depth, the
-- longest backlog; for a refund what the charge had made it, when, and what is 'at once'.
-- Returns now and the theoretical arrival time before the step, as pairs.
local BILLION = 1000000000
local function pair(text)
  local s, n = string.match(text, '^(%d+):(%d+)$')
  return {tonumber(s), tonumber(n)}
end
local function less(a, b)
  return a[1] < b[1] or (a[1] == b[1] and a[2] < b[2])
end
local function sum(a, b)
  local s, n = a[1] + b[1], a[2] + b[2]
  if n >= BILLION then return {s + 1, n - BILLION} end
  return {s, n}
end
-- Never below nothing.
local function difference(a, b)
  if less(a, b) then return {0, 0} end
  local s, n = a[1] - b[1], a[2] - b[2]
  if n < 0 then return {s - 1, n + BILLION} end
  return {s, n}
end
local function least(a, b)
  if less(a, b) then return a end
  return b
end

local now
if ARGV[1] == '' then
  local time = redis.call('TIME')
  now = {tonumber(time[1]), tonumber(time[2]) * 1000}
else
  now = pair(ARGV[1])
end
local step = ARGV[2]
local interval, depth, longest = pair(ARGV[3]), pair(ARGV[4]), pair(ARGV[5])
local known = redis.call('GET', KEYS[1])
local before = known and pair(known) or {0, 0}
local missing = least(difference(before, now), depth)
local after
if step == 'charge' then
  after = sum(now, least(sum(missing, interval), depth))
elseif step == 'refund' then
  local taken, at, at_once = pair(ARGV[6]), pair(ARGV[7]), pair(ARGV[8])
  local out = difference(now, at)
  local left = interval
  if less(at_once, out) then left = difference(interval, out) end
  local owed = least(least(difference(taken, now), left), missing)
  if less({0, 0}, owed) then after = sum(now, difference(missing, owed)) end
else
  local backlog = sum(missing, interval)
  if less(longest, backlog) then
    -- What was emptier than empty is remembered as empty.
    local empty = sum(now, depth)
    if less(empty, before) then after = empty end
  elseif step == 'decide' then
    after = sum(now, backlog)
  end
end
if after then
  local lasts = difference(after, now)
  local ttl = lasts[1] * 1000 + math.ceil(lasts[2] / 1000000) + 1000
  redis.call('SET', KEYS[1], string.format('%.0f:%.0f', after[1], after[2]), 'PX', string.format('%.0f', ttl))
end
return {now[1], now[2], before[1], before[2]}
