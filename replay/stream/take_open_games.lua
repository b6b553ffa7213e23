-- Hands the open games of an actor to its newest incarnation and fences all earlier ones, in one step: none of them can
-- append the end of such a game any more.  The games stay until the record of each is appended.
--
-- KEYS   control seen open open:ACTOR
-- ARGV   epoch actor incarnation most_takes
-- reply  status (0 done, 1 the data was lost, 2 another epoch, 3 fenced), takes since the games were last saved, then
--        id data of each game; more than `most_takes` takes: the games are dropped, for they may be what ends the actor

local games = KEYS[4]
local epoch, actor, incarnation = tonumber(ARGV[1]), ARGV[2], tonumber(ARGV[3])

local c = redis.call('HMGET', KEYS[1], 'boot', 'epoch')
if not c[1] then return {1, 0} end
if tonumber(c[2]) ~= epoch then return {2, 0} end
local e, i = string.match(redis.call('HGET', KEYS[2], actor) or '', '^(%d+):(%d+):')
e, i = tonumber(e or -1), tonumber(i or -1)
if e > epoch or (e == epoch and i > incarnation) then return {3, 0} end

redis.call('HDEL', KEYS[2], '')
if e < epoch or i < incarnation then redis.call('HSET', KEYS[2], actor, ARGV[1] .. ':' .. ARGV[3] .. ':-1') end
local takes = redis.call('HINCRBY', games, 'takes', 1)
local reply, bytes = {0, takes}, 0
for _, id in ipairs(redis.call('HKEYS', games)) do
  if takes > tonumber(ARGV[4]) then
    redis.call('HDEL', games, id)
  elseif string.find(id, '.', 1, true) then
    local data = redis.call('HGET', games, id)
    reply[#reply + 1], reply[#reply + 2] = id, data
    bytes = bytes + #data
  end
end
-- Counted anew: the counts may have been lost when the games were not.
local total = 0
redis.call('HSET', KEYS[3], actor, bytes)
for _, name in ipairs(redis.call('HKEYS', KEYS[3])) do
  if name ~= 'bytes' then total = total + tonumber(redis.call('HGET', KEYS[3], name) or '0') end
end
redis.call('HSET', KEYS[3], 'bytes', total)
return reply
