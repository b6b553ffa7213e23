"""What runs inside the server, in one piece: nothing newer than Redis 6.2, all keys of a script in its KEYS.

Lua counts in doubles: all numbers stay below 2^53 and are written by `text`, never in scientific notation.

A full server refuses a script's first write unless it deletes something; `HDEL key ''` deletes nothing and opens the
way for the few bytes that follow.  Only games have to find room first.
"""

import hashlib
from collections.abc import Sequence
from typing import Any, Protocol

import redis

Argument = str | bytes | int


class Caller(Protocol):
    """A `redis.Redis` or a `replay.stream.client.Link`."""

    def execute_command(self, *arguments: Any) -> Any: ...


class Script:
    """A script that is sent once to each server and called by its name from then on."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.name = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()

    def __call__(self, client: Caller, keys: Sequence[str], arguments: Sequence[Argument]) -> Any:
        call = ("EVALSHA", self.name, len(keys), *keys, *arguments)
        try:
            return client.execute_command(*call)
        except redis.exceptions.NoScriptError:  # a new server, or one that was restarted; nothing was done
            client.execute_command("SCRIPT", "LOAD", self.text)
            return client.execute_command(*call)


# KEYS games control counters seen actors heard
# ARGV epoch actor incarnation metrics, then sequence rows data of each game
# reply: status throttle stop version epoch actors appended duplicates
# status: 0 done, 1 the data was lost, 2 another epoch, 3 fenced
APPEND = Script("""
if redis.replicate_commands then redis.replicate_commands() end
local games, control, counters, seen = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local epoch, actor, incarnation, metrics = tonumber(ARGV[1]), ARGV[2], tonumber(ARGV[3]), ARGV[4]
local sent = (#ARGV - 4) / 3
local format = string.format
local function text(number) return format('%d', number) end

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

-- Deletes the oldest games until the two needs are met or the stream is empty; how many.
local function evict(need_rows, need_bytes)
  local dropped = 0
  while need_rows > 0 or need_bytes > 0 do
    local last, entries = nil, 0
    for _, entry in ipairs(redis.call('XRANGE', games, '-', '+', 'COUNT', math.max(1, math.min(sent, 16)))) do
      if need_rows <= 0 and need_bytes <= 0 then break end
      local fields = entry[2]
      if fields[1] == 'd' and fields[3] == 'r' and fields[5] == 'n' then  -- else it is none of ours, never counted
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

-- One game; a table with `err` where it was refused.
local done = {}
local function add(data, rows, with_it)
  local answer = redis.pcall('XADD', games, text(number + 1) .. '-0', 'd', data, 'r', rows, 'n', with_it)
  return type(answer) == 'table' and answer or done
end

local appended, duplicates, failure, is_full = 0, 0, nil, false
if sent > 0 then
  local rows, size, fresh = 0, 0, #ARGV + 1  -- games are fresh from there on: their numbers ascend
  for k = 5, #ARGV, 3 do
    if tonumber(ARGV[k]) > newest then
      fresh = k
      break
    end
  end
  duplicates = (fresh - 5) / 3
  local counts = {}
  for k = fresh, #ARGV, 3 do
    counts[k] = tonumber(ARGV[k + 1])
    rows, size = rows + counts[k], size + #ARGV[k + 2]
  end
  -- Before anything is added: deleting is allowed on a full server, and adding is once something was deleted.
  local over_rows, over_bytes = inserted - deleted + rows - tonumber(c[7]), bytes + size - tonumber(c[8])
  if size > 0 and (over_rows > 0 or over_bytes > 0) then evict(over_rows, over_bytes) end
  for k = fresh, #ARGV, 3 do
    local data, with_it = ARGV[k + 2], text(inserted + counts[k])
    -- The server asks only for the first write of a script whether there is room.
    if is_full then squeezed = squeezed + evict(0, #data) end
    local answer = add(data, ARGV[k + 1], with_it)
    if answer.err and string.find(answer.err, 'OOM', 1, true) then
      -- Somebody else's memory, or a smaller server than was said: each game makes room for itself.
      is_full = true
      local room = evict(0, #data)
      if room > 0 then
        squeezed = squeezed + room
        answer = add(data, ARGV[k + 1], with_it)
      end
    end
    if answer.err and string.find(answer.err, 'equal or smaller', 1, true) then
      -- Somebody else wrote into the stream: go on behind it.
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
redis.call('HDEL', KEYS[6], '')
local time = redis.call('TIME')
redis.call('HSET', KEYS[6], actor, text(time[1] * 1000 + math.floor(time[2] / 1000)) .. ':' .. ARGV[3])
if #metrics > 0 then redis.call('HSET', KEYS[5], actor, metrics) end
local limit = tonumber(c[6] or '-1')
return reply(0, (limit >= 0 and inserted >= limit) and 1 or 0, appended, duplicates)
""")

# KEYS control seen; ARGV actor incarnation; reply: 1 done, 0 the data was lost
FENCE = Script("""
redis.call('HDEL', KEYS[2], '')
local epoch = redis.call('HGET', KEYS[1], 'epoch')
if redis.call('HEXISTS', KEYS[1], 'boot') == 0 then return 0 end
local before = redis.call('HGET', KEYS[2], ARGV[1])
if before then
  local e, i = string.match(before, '^(%d+):(%d+):')
  e, i = tonumber(e), tonumber(i)
  if e > tonumber(epoch) or (e == tonumber(epoch) and i >= tonumber(ARGV[2])) then return 1 end
end
redis.call('HSET', KEYS[2], ARGV[1], epoch .. ':' .. ARGV[2] .. ':-1')
return 1
""")

# KEYS control counters seen games; ARGV boot epoch capacity max_bytes actors limit ('' leaves it), then actor
# incarnation of each to fence; reply: 1 done and the data was there, 2 done and made anew, 0 a newer epoch has begun
BEGIN = Script("""
redis.call('HDEL', KEYS[1], '')
local epoch = redis.call('HGET', KEYS[1], 'epoch')
if epoch and tonumber(epoch) > tonumber(ARGV[2]) then return 0 end
local status = 1
if redis.call('HEXISTS', KEYS[1], 'boot') == 0 then
  status = 2
  redis.call('DEL', KEYS[1], KEYS[2], KEYS[3], KEYS[4])  -- parts that outlived the rest
  redis.call('HSET', KEYS[1], 'boot', ARGV[1])
  redis.call('HSET', KEYS[2], 'number', 0, 'games', 0, 'inserted', 0, 'deleted', 0, 'bytes', 0)
end
redis.call('HSET', KEYS[1], 'epoch', ARGV[2], 'capacity', ARGV[3], 'max_bytes', ARGV[4], 'actors', ARGV[5], 'stop', 0)
redis.call('HDEL', KEYS[1], 'wish')
if ARGV[6] ~= '' then redis.call('HSET', KEYS[1], 'limit', ARGV[6]) end
for k = 7, #ARGV, 2 do
  local before = redis.call('HGET', KEYS[3], ARGV[k])
  local e, i = string.match(before or '', '^(%d+):(%d+):')
  if not (e == ARGV[2] and tonumber(i) >= tonumber(ARGV[k + 1])) then
    redis.call('HSET', KEYS[3], ARGV[k], ARGV[2] .. ':' .. ARGV[k + 1] .. ':-1')
  end
end
return status
""")

# KEYS control; ARGV version; never goes back; reply: 1 done, 0 the data was lost
RECORD_VERSION = Script("""
redis.call('HDEL', KEYS[1], '')
if redis.call('HEXISTS', KEYS[1], 'boot') == 0 then return 0 end
if tonumber(redis.call('HGET', KEYS[1], 'version') or '-1') < tonumber(ARGV[1]) then
  redis.call('HSET', KEYS[1], 'version', ARGV[1])
end
return 1
""")

# KEYS control; ARGV field value ...; nothing is written where the data was lost; reply: 1 done, 0 lost
SET = Script("""
redis.call('HDEL', KEYS[1], '')
if redis.call('HEXISTS', KEYS[1], 'boot') == 0 then return 0 end
redis.call('HSET', KEYS[1], unpack(ARGV))
return 1
""")

# KEYS control counters; ARGV boot version limit, then counter value ... ('' and nothing else: write nothing)
# reply: boot number inserted version duplicates fenced other_epoch (`boot` nil: the data was lost)
# Nothing is written where `boot` is another one.
REPORT = Script("""
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
""")

# KEYS games counters quarantine quarantined; ARGV id (to delete, or ''), its rows and bytes as they were counted, key,
# reason, data; the newest 100 are kept; reply: 1 it was deleted, 0 it was not there
QUARANTINE = Script("""
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
""")

# KEYS games counters; a stream whose numbers somebody else has used up begins anew; reply: 1 done, 0 not needed
REPAIR = Script("""
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
""")
