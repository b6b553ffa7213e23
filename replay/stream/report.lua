-- The learner's report and what it has to know; nothing is written if `boot` differs.
--
-- KEYS   control counters
-- ARGV   boot version limit, then counter value ...; with limit '' nothing is written
-- reply  boot number inserted version duplicates fenced other_epoch; boot is nil if the data was lost

redis.call('HDEL', KEYS[1], '')
local c = redis.call('HMGET', KEYS[1], 'boot', 'version')
if c[1] and c[1] == ARGV[1] and ARGV[3] ~= '' then
  if tonumber(c[2] or '-1') < tonumber(ARGV[2]) then
    redis.call('HSET', KEYS[1], 'version', ARGV[2])
    c[2] = ARGV[2]
  end
  redis.call('HSET', KEYS[1], 'limit', ARGV[3])
  redis.call('HSET', KEYS[2], unpack(ARGV, 4))
end
local n = redis.call('HMGET', KEYS[2], 'number', 'inserted', 'duplicates', 'fenced', 'other_epoch')
return {c[1], n[1] or '0', n[2] or '0', c[2] or '0', n[3] or '0', n[4] or '0', n[5] or '0'}
