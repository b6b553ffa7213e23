-- Keeps open games of one actor for its successor, beside those that it has kept; with the last call only those of `ids`.
--
-- KEYS   seen open open:ACTOR; control is named like seen (see scripts.py)
-- ARGV   epoch actor incarnation number sequence ids, then id data for each game; ids '': it is not the last call
-- reply  0 done, 1 the data was lost, 2 another epoch, 3 fenced, 4 no room, 5 late: a save of this incarnation with a
--        higher number came first, or a game that ended later than these were as they are: one from `sequence` on
-- error  MALFORMED, and nothing is kept

local games = KEYS[3]
local epoch, actor, incarnation = tonumber(ARGV[1]), ARGV[2], tonumber(ARGV[3])
local number, sequence, ids = tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[6]
local who = ARGV[1] .. ':' .. ARGV[3] .. ':'

local c = redis.call('HMGET', (string.gsub(KEYS[1], 'seen$', 'control')), 'boot', 'epoch', 'max_bytes')
if not c[1] then return 1 end
if tonumber(c[2]) ~= epoch then return 2 end
local e, i, s = string.match(redis.call('HGET', KEYS[1], actor) or '', '^(%d+):(%d+):(-?%d+)$')
if e then
  e, i, s = tonumber(e), tonumber(i), tonumber(s)
  if e > epoch or (e == epoch and i > incarnation) then return 3 end
  if e == epoch and i == incarnation and s >= sequence then return 5 end
end
local newest = redis.call('HGET', games, 'save')
if newest and string.sub(newest, 1, #who) == who and tonumber(string.sub(newest, #who + 1)) > number then return 5 end

local more = 0
for k = 7, #ARGV, 2 do
  local id, data = ARGV[k], ARGV[k + 1]
  if not (data and #id <= 67 and string.match(id, '^%d+%.%d+%.%d+%.%d+$') and #data <= 2^23 + 64) then
    return redis.error_reply('MALFORMED open game ' .. string.sub(id, 1, 20) .. ' of actor ' .. actor)
  end
  more = more + #data - redis.call('HSTRLEN', games, id)
end
-- All actors together: an eighth of what games may take, which the append script keeps free for them.
local total = tonumber(redis.call('HGET', KEYS[2], 'bytes') or '0') or 0
if more > 0 and total + more > math.floor(tonumber(c[3]) / 8) then return 4 end

for k = 7, #ARGV, 2 do
  -- The first write: a full server refuses it, so that open games never take the room of finished ones.
  local answer = redis.pcall('HSET', games, ARGV[k], ARGV[k + 1])
  if type(answer) == 'table' and answer.err then
    if string.find(answer.err, 'OOM', 1, true) then return 4 end
    return redis.error_reply(answer.err)
  end
end
redis.call('HDEL', games, ids ~= '' and 'takes' or '')
redis.call('HSET', games, 'save', who .. ARGV[4])
if ids ~= '' then
  local stays = {save = true}
  for id in string.gmatch(ids, '%S+') do stays[id] = true end
  for _, id in ipairs(redis.call('HKEYS', games)) do
    if not stays[id] then
      more = more - redis.call('HSTRLEN', games, id)
      redis.call('HDEL', games, id)
    end
  end
end
redis.call('HINCRBY', KEYS[2], actor, more)
redis.call('HINCRBY', KEYS[2], 'bytes', more)
return 0
