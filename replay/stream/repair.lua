-- Begins the stream anew if another program has used up its entry ids.
--
-- KEYS   games counters
-- reply  1 done, 0 not needed

if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
local info = redis.call('XINFO', 'STREAM', KEYS[1])
for f = 1, #info, 2 do
  if info[f] == 'last-generated-id' and tonumber(string.match(info[f + 1], '^(%d+)-')) >= 2^52 then
    redis.call('DEL', KEYS[1])
    redis.call('HSET', KEYS[2], 'deleted', redis.call('HGET', KEYS[2], 'inserted') or 0, 'bytes', 0)
    return 1
  end
end
return 0
