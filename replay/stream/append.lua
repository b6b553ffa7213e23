-- Appends finished games of one actor, each once, and replies with what the actor has to know.
--
-- KEYS   games counters seen actors heard open open:ACTOR; control is named like games (see scripts.py)
-- ARGV   epoch actor incarnation metrics, then sequence rows data open_id for each game
-- reply  status throttle stop version epoch actors appended duplicates
-- status 0 done, 1 the data was lost, 2 another epoch, 3 fenced
-- error  MALFORMED, and nothing is kept: a call that no actor of ours would make, which would spoil the counters
--
-- An entry is d (data), r (rows), n (rows of the run with it), a (epoch:actor:incarnation of the sender).

if redis.replicate_commands then redis.replicate_commands() end  -- Redis 6: a script that asks for the time may write
local games, counters, seen, actors, heard, open = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local control = string.gsub(games, 'games$', 'control')
local sent = (#ARGV - 4) / 4
local function text(number) return string.format('%d', number) end
local function is_count(argument, most)
  return argument and #argument <= 16 and string.match(argument, '^%d+$') and tonumber(argument) <= most
end
local function refuse(what)
  redis.pcall('HINCRBY', counters, 'malformed', math.max(1, math.ceil(sent)))
  return redis.error_reply('MALFORMED ' .. what)
end
if not (is_count(ARGV[1], 2^53 - 1) and is_count(ARGV[2], 65535) and is_count(ARGV[3], 2^53 - 1)
    and ARGV[4] and #ARGV[4] <= 4096 and sent <= 64) then
  return refuse('epoch, actor, incarnation, metrics or number of games')
end
local epoch, actor, incarnation, metrics = tonumber(ARGV[1]), ARGV[2], tonumber(ARGV[3]), ARGV[4]
local sender = ARGV[1] .. ':' .. ARGV[2] .. ':' .. ARGV[3]

local c = redis.call('HMGET', control, 'boot', 'epoch', 'stop', 'version', 'actors', 'limit', 'capacity', 'max_bytes')
local function reply(status, throttle, appended, duplicates)
  return {status, throttle, c[3] or '0', c[4] or '0', c[2] or '0', c[5] or '0', appended, duplicates}
end
if not c[1] then return reply(1, 0, 0, 0) end
if tonumber(c[2]) ~= epoch then
  if sent > 0 then redis.pcall('HINCRBY', counters, 'other_epoch', sent) end
  return reply(2, 0, 0, 0)
end
local newest = -1
local before = redis.call('HGET', seen, actor)
if before then
  local e, i, s = string.match(before, '^(%d+):(%d+):(-?%d+)$')
  e, i, s = tonumber(e), tonumber(i), tonumber(s)
  if e > epoch or (e == epoch and i > incarnation) then
    if sent > 0 then redis.pcall('HINCRBY', counters, 'fenced', sent) end
    return reply(3, 0, 0, 0)
  end
  if e == epoch and i == incarnation then newest = s end
end

local n = redis.call('HMGET', counters, 'number', 'games', 'inserted', 'deleted', 'bytes', 'evicted', 'squeezed')
for k = 1, 7 do n[k] = tonumber(n[k] or '0') end
local number, total, inserted, deleted, bytes, evicted, squeezed = n[1], n[2], n[3], n[4], n[5], n[6], n[7]

-- Deletes the oldest games until both needs are met or the stream is empty; returns how many.
local function evict(need_rows, need_bytes)
  local dropped = 0
  while need_rows > 0 or need_bytes > 0 do
    local last, entries = nil, 0
    for _, entry in ipairs(redis.call('XRANGE', games, '-', '+', 'COUNT', math.max(1, math.min(sent, 16)))) do
      if need_rows <= 0 and need_bytes <= 0 then break end
      local fields = entry[2]
      if fields[1] == 'd' and fields[3] == 'r' and fields[5] == 'n' then  -- others were never counted
        local rows, size = tonumber(fields[4]) or 0, #fields[2]
        deleted, bytes = deleted + rows, bytes - size
        need_rows, need_bytes = need_rows - rows, need_bytes - size
      end
      last, entries = entry[1], entries + 1
    end
    if not last then
      deleted, bytes = inserted, 0
      break
    end
    redis.call('XTRIM', games, 'MINID', last)  -- those before it
    redis.call('XDEL', games, last)
    dropped = dropped + entries
  end
  evicted = evicted + dropped
  return dropped
end

-- Appends one game; returns a table with `err` if the server refused it.
local done = {}
local function add(data, rows, with_it)
  local answer = redis.pcall('XADD', games, text(number + 1) .. '-0', 'd', data, 'r', rows, 'n', with_it, 'a', sender)
  return type(answer) == 'table' and answer or done
end

for k = 5, #ARGV, 4 do
  local data = ARGV[k + 2]
  -- No record has so many bytes (common.codec), or less than 27 a row: rows that are not there would evict honest games.
  if not (data and ARGV[k + 3] and #data <= 2^23 and is_count(ARGV[k], 2^53 - 1)
      and is_count(ARGV[k + 1], math.min(65536, #data / 4))) then
    return refuse('game ' .. string.sub(ARGV[k], 1, 20) .. ' of actor ' .. actor)
  end
end

local appended, duplicates, failure, is_full = 0, 0, nil, false
if sent > 0 then
  local rows, size, fresh = 0, 0, #ARGV + 1  -- games from there on are new: their numbers ascend
  for k = 5, #ARGV, 4 do
    if tonumber(ARGV[k]) > newest then
      fresh = k
      break
    end
  end
  duplicates = (fresh - 5) / 4
  local counts = {}
  for k = fresh, #ARGV, 4 do
    counts[k] = tonumber(ARGV[k + 1])
    rows, size = rows + counts[k], size + #ARGV[k + 2]
  end
  -- Delete before anything is added: a full server allows deleting, and after that adding.
  local over_rows, over_bytes = inserted - deleted + rows - tonumber(c[7]), bytes + size - tonumber(c[8])
  local open_bytes = tonumber(redis.pcall('HGET', open, 'bytes') or '0') or 0
  if open_bytes > 0 then over_bytes = over_bytes + math.min(open_bytes, math.floor(tonumber(c[8]) / 8)) end
  if size > 0 and (over_rows > 0 or over_bytes > 0) then evict(over_rows, over_bytes) end
  for k = fresh, #ARGV, 4 do
    local data, with_it = ARGV[k + 2], text(inserted + counts[k])
    -- The server checks its memory only at the first write of a script.
    if is_full then squeezed = squeezed + evict(0, #data) end
    local answer = add(data, ARGV[k + 1], with_it)
    if answer.err and string.find(answer.err, 'OOM', 1, true) then
      -- Other data fills the server, or it is smaller than configured: each game makes room for itself.
      is_full = true
      local room = evict(0, #data)
      if room > 0 then
        squeezed = squeezed + room
        answer = add(data, ARGV[k + 1], with_it)
      end
    end
    if answer.err and string.find(answer.err, 'equal or smaller', 1, true) then
      -- Another program wrote into the stream: continue behind its entry, or wait until repair.lua removed it.
      local info = redis.call('XINFO', 'STREAM', games)
      for f = 1, #info, 2 do
        if info[f] == 'last-generated-id' then
          local last = tonumber(string.match(info[f + 1], '^(%d+)-'))
          if last < 2^52 then
            number = last
            answer = add(data, ARGV[k + 1], with_it)
          end
        end
      end
    end
    if answer.err then
      failure = answer.err
      break
    end
    number, total, inserted, bytes = number + 1, total + 1, inserted + counts[k], bytes + #data
    newest, appended = ARGV[k], appended + 1
    -- In the same step: a game is open or appended, never both.
    local was_open = redis.pcall('HSTRLEN', KEYS[7], ARGV[k + 3])
    if type(was_open) == 'number' and was_open > 0 then
      redis.call('HDEL', KEYS[7], ARGV[k + 3])
      redis.pcall('HINCRBY', open, actor, -was_open)
      redis.pcall('HINCRBY', open, 'bytes', -was_open)
    end
  end
  if appended > 0 or evicted > n[6] then
    redis.call('HSET', counters, 'number', text(number), 'games', text(total), 'inserted', text(inserted),
      'deleted', text(deleted), 'bytes', text(bytes), 'evicted', text(evicted), 'squeezed', text(squeezed))
  end
  if appended > 0 then
    redis.call('HSET', seen, actor, ARGV[1] .. ':' .. ARGV[3] .. ':' .. newest)
  end
  if duplicates > 0 then redis.pcall('HINCRBY', counters, 'duplicates', duplicates) end
  if failure then return redis.error_reply(failure) end
end
redis.call('HDEL', heard, '')
local time = redis.call('TIME')
redis.call('HSET', heard, actor, text(time[1] * 1000 + math.floor(time[2] / 1000)) .. ':' .. ARGV[3])
if #metrics > 0 then redis.call('HSET', actors, actor, metrics) end
local limit = tonumber(c[6] or '-1')
return reply(0, (limit >= 0 and inserted >= limit) and 1 or 0, appended, duplicates)
