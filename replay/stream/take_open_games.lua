-- Hands the open games of an actor to its newest incarnation and fences all earlier ones, in one step: none of them can
-- append the end of such a game any more.  The games stay until the record of each is appended.
--
-- KEYS   seen open open:ACTOR; control is named like seen (see scripts.py)
-- ARGV   epoch actor incarnation most_takes
-- reply  status (0 done, 1 the data was lost, 2 another epoch, 3 fenced), takes since the games were last saved, then
--        id data of each game; more than `most_takes` takes: the games are dropped, for they may be what ends the actor,
--        and each data is empty

local games = KEYS[3]
local epoch, actor, incarnation = tonumber(ARGV[1]), ARGV[2], tonumber(ARGV[3])

local c = redis.call('HMGET', (string.gsub(KEYS[1], 'seen$', 'control')), 'boot', 'epoch')
if not c[1] then return {1, 0} end
if tonumber(c[2]) ~= epoch then return {2, 0} end
local e, i = string.match(redis.call('HGET', KEYS[1], actor) or '', '^(%d+):(%d+):')
e, i = tonumber(e or -1), tonumber(i or -1)
if e > epoch or (e == epoch and i > incarnation) then return {3, 0} end

redis.call('HDEL', KEYS[1], '')
if e < epoch or i < incarnation then redis.call('HSET', KEYS[1], actor, ARGV[1] .. ':' .. ARGV[3] .. ':-1') end
local takes = redis.pcall('HINCRBY', games, 'takes', 1)
if type(takes) == 'table' then return {0, 0} end  -- a stranger has put something else there
local reply, bytes = {0, takes}, 0
for _, id in ipairs(redis.call('HKEYS', games)) do
  local is_game, data = string.find(id, '.', 1, true), ''
  if takes > tonumber(ARGV[4]) then
    redis.call('HDEL', games, id)
  elseif is_game then
    data = redis.call('HGET', games, id)
  end
  if is_game then
    reply[#reply + 1], reply[#reply + 2] = id, data
    bytes = bytes + #data
  end
end
-- Counted anew: the counts may have been lost when the games were not.
local total = 0
local answer = redis.pcall('HSET', KEYS[2], actor, bytes)
if type(answer) == 'table' then return reply end
for _, name in ipairs(redis.call('HKEYS', KEYS[2])) do
  if name ~= 'bytes' then total = total + (tonumber(redis.call('HGET', KEYS[2], name)) or 0) end
end
redis.call('HSET', KEYS[2], 'bytes', string.format('%d', math.max(0, math.min(total, 2^53))))
return reply
