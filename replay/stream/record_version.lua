-- Records that weights up to this publication number exist; the number never goes back.
--
-- KEYS   control
-- ARGV   version
-- reply  1 done, 0 the data was lost

redis.call('HDEL', KEYS[1], '')
if redis.call('HEXISTS', KEYS[1], 'boot') == 0 then return 0 end
if tonumber(redis.call('HGET', KEYS[1], 'version') or '-1') < tonumber(ARGV[1]) then
  redis.call('HSET', KEYS[1], 'version', ARGV[1])
end
return 1
