-- Begins a driver term, or goes on after the data was lost.
--
-- KEYS   control counters seen games
-- ARGV   boot epoch capacity max_bytes actors limit ('' keeps it), then actor incarnation for each fence
-- reply  1 done and the data was there, 2 done and the keys were made anew, 0 a newer epoch has begun

redis.call('HDEL', KEYS[1], '')
local epoch = redis.call('HGET', KEYS[1], 'epoch')
if epoch and tonumber(epoch) > tonumber(ARGV[2]) then return 0 end
local status = 1
if redis.call('HEXISTS', KEYS[1], 'boot') == 0 then
  status = 2
  redis.call('DEL', KEYS[1], KEYS[2], KEYS[3], KEYS[4])  -- parts that were left when the rest was lost
  redis.call('HSET', KEYS[1], 'boot', ARGV[1])
  redis.call('HSET', KEYS[2], 'number', 0, 'games', 0, 'inserted', 0, 'deleted', 0, 'bytes', 0)
end
redis.call('HSET', KEYS[1], 'epoch', ARGV[2], 'capacity', ARGV[3], 'max_bytes', ARGV[4], 'actors', ARGV[5], 'stop', 0)
redis.call('HDEL', KEYS[1], 'wish', 'asked')
if ARGV[6] ~= '' then redis.call('HSET', KEYS[1], 'limit', ARGV[6]) end
for k = 7, #ARGV, 2 do
  local before = redis.call('HGET', KEYS[3], ARGV[k])
  local e, i = string.match(before or '', '^(%d+):(%d+):')
  if not (e == ARGV[2] and tonumber(i) >= tonumber(ARGV[k + 1])) then
    redis.call('HSET', KEYS[3], ARGV[k], ARGV[2] .. ':' .. ARGV[k + 1] .. ':-1')
  end
end
return status
