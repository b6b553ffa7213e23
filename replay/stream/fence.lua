-- Refuses games of earlier incarnations of an actor from now on.
--
-- KEYS   control seen
-- ARGV   actor incarnation
-- reply  1 done, 0 the data was lost

redis.call('HDEL', KEYS[2], '')
local epoch = redis.call('HGET', KEYS[1], 'epoch')
if redis.call('HEXISTS', KEYS[1], 'boot') == 0 then return 0 end
local before = redis.call('HGET', KEYS[2], ARGV[1])
if before then
  local e, i = string.match(before, '^(%d+):(%d+):')
  e, i = tonumber(e), tonumber(i)
  if e > tonumber(epoch) or (e == tonumber(epoch) and i >= tonumber(ARGV[2])) then return 1 end
end
redis.call('HSET', KEYS[2], ARGV[1], epoch .. ':' .. ARGV[2] .. ':-1')
return 1
