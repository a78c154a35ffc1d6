-- Put before begin.lua and finish.lua: the order of the log.
--
-- A tenant's keys share the hash tag {t:<tenant>}. The scripts also reach keys that they compute (a child's root, an ended
-- writer); those carry the same tag, so they lie in the slot of the declared keys. Everything that can fail is read before
-- the first write: a script is not rolled back.

local WRITER_LIFE_S = 604800
local SEARCHED_ROWS = 8192

-- The last wseq of a writer and its sequence number; nil for a writer that was ended.
local function writer_state(key)
  local state = redis.call('GET', key)
  if not state then return 0, 0 end
  local wseq, seq = string.match(state, '^(%d+) (%d+)$')
  return tonumber(wseq), tonumber(seq)
end

-- The sequence number of a row with these bytes, or nil. It is looked for from the newest place where it can be.
local function find_row(log, top, body)
  local searched = 0
  while top > 0 and searched < SEARCHED_ROWS do
    local rows = redis.call('XREVRANGE', log, '0-' .. top, '-', 'COUNT', 64)
    if #rows == 0 then return nil end
    for _, row in ipairs(rows) do
      top = tonumber(string.sub(row[1], 3))
      if row[2][2] == body then return top end
    end
    top = top - 1
    searched = searched + #rows
  end
  return nil
end

-- Where an entry stands: 'next', or 'done' with its sequence number, or 'refused'.
local function position(log, writer, wseq, body)
  local last, at = writer_state(writer)
  if not last or wseq > last + 1 then return 'refused' end
  if wseq == last + 1 then return 'next' end
  local seq = find_row(log, at - (last - wseq), body)
  if seq then return 'done', seq end
  return 'refused'
end

-- Appends so many of the writer's entries from wseq on, of which each is a body and its MAC, in turn, from rows[first] on;
-- the sequence number of the last one. Where the log does not end at `seq`, nil and what the script replies: somebody else's hand
-- was in it, and it is halted. That shows at the first entry, before anything is written.
local function append(meta, log, writer, seq, wseq, rows, first, entries)
  for i = first, first + 2 * entries - 1, 2 do
    seq = seq and seq + 1
    local made = seq and redis.pcall('XADD', log, '0-' .. seq, 'e', rows[i], 'm', rows[i + 1])
    if not seq or (type(made) == 'table' and made.err and string.find(made.err, 'equal or smaller', 1, true)) then
      redis.call('HSET', meta, 'halted', 'the log does not end where the next event belongs')
      return nil, redis.error_reply('LOST the log does not end where it did')
    end
    if type(made) == 'table' and made.err then return nil, made end
  end
  redis.call('HSET', meta, 'seq', seq)
  redis.call('SET', writer, (wseq + entries - 1) .. ' ' .. seq, 'EX', WRITER_LIFE_S)
  return seq
end
