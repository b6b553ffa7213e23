-- Sets fields of the control hash, unless the data was lost.
--
-- KEYS   control
-- ARGV   field value ...
-- reply  1 done, 0 the data was lost

redis.call('HDEL', KEYS[1], '')
if redis.call('HEXISTS', KEYS[1], 'boot') == 0 then return 0 end
redis.call('HSET', KEYS[1], unpack(ARGV))
return 1
