-- Moves a record out of the stream into the quarantine, which keeps the newest 100.
--
-- KEYS   games counters quarantine quarantined
-- ARGV   id (or '': it is in no stream), its rows and bytes as they were counted, key, reason, data
-- reply  1 the entry was deleted, 0 it was not there

local deleted = 0
if ARGV[1] ~= '' then
  deleted = redis.call('XDEL', KEYS[1], ARGV[1])
  if deleted == 1 then
    redis.call('HINCRBY', KEYS[2], 'deleted', ARGV[2])
    redis.call('HINCRBY', KEYS[2], 'bytes', -ARGV[3])
  end
end
redis.pcall('HINCRBY', KEYS[2], 'invalid', 1)
redis.pcall('HINCRBY', KEYS[4], ARGV[4], 1)
redis.pcall('XADD', KEYS[3], 'MAXLEN', 100, '*', 'reason', ARGV[5], 'd', ARGV[6])
return deleted
