-- Copies the stream into a new one if another program has written an id far beyond ours: ids only ascend, and such an
-- one leaves none for the games to come.  The games keep their ids; the entries far beyond them are dropped.
--
-- KEYS   games counters copy (empty between two calls)
-- reply  1 done, 0 not needed

if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
local reach = math.max(2^52 - 1, tonumber(redis.call('HGET', KEYS[2], 'number') or '0'))  -- append.lua follows so far
local info, newest = redis.call('XINFO', 'STREAM', KEYS[1]), 0
for f = 1, #info, 2 do
  if info[f] == 'last-generated-id' then newest = tonumber(string.match(info[f + 1], '^(%d+)-')) end
end
if newest <= reach then return 0 end
redis.call('DEL', KEYS[3])
while true do
  local entries = redis.call('XRANGE', KEYS[1], '-', string.format('%d', reach), 'COUNT', 64)
  if #entries == 0 then break end
  for _, entry in ipairs(entries) do redis.call('XADD', KEYS[3], entry[1], unpack(entry[2])) end
  local last = entries[#entries][1]
  redis.call('XTRIM', KEYS[1], 'MINID', last)  -- those before it, so that no memory is needed for a second copy
  redis.call('XDEL', KEYS[1], last)
end
redis.call('HINCRBY', KEYS[2], 'malformed', redis.call('XLEN', KEYS[1]))
redis.call('DEL', KEYS[1])
if redis.call('EXISTS', KEYS[3]) == 1 then redis.call('RENAME', KEYS[3], KEYS[1]) end
return 1
