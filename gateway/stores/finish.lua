-- Appends events, writes mappings, closes an intent.
--
-- KEYS  1 meta  2 log  3 writer  4 open  then the records
-- ARGV  1 generation  2 seq of the intent that closes (0: none)  3 wseq of the first entry  4 number of entries
--       then the entries' bodies, each with its MAC, then for each record: mode, lifetime in seconds (0: for ever), data, key of the list that
--       shows it ('': none)
-- Reply seq of the last entry, whether writes were taken, then for each record what a CREATE met (or nil).
-- The events are appended even where the writes are refused. One conflict, and nothing is written.
-- A record that is new is entered in its list, and some entries whose records have expired leave it: it stays about as long
-- as what it shows, though nobody may ever read it.

local PLACE_LIFE_S, LOOKED_AT = 86400, 3

local function enter(list, key, life)
  redis.call('ZADD', list, redis.call('HINCRBY', KEYS[1], 'listed', 1), string.sub(key, -32))
  if life == 0 then return end
  for _, h in ipairs(redis.call('ZRANDMEMBER', list, LOOKED_AT)) do
    if redis.call('EXISTS', string.sub(key, 1, -33) .. h) == 0 then redis.call('ZREM', list, h) end
  end
end

-- Its position is remembered, so that who deletes what they page through still knows where they are.
local function leave(list, key)
  local h = string.sub(key, -32)
  local position = redis.call('ZSCORE', list, h)
  if position then
    redis.call('ZREM', list, h)
    redis.call('SET', list .. ':' .. h, position, 'EX', PLACE_LIFE_S)
  end
end

local first_wseq, entries = tonumber(ARGV[3]), tonumber(ARGV[4])

local meta = redis.call('HMGET', KEYS[1], 'status', 'generation', 'seq', 'halted')
if not meta[1] or meta[1] == 'erased' then return {0, 0} end
if meta[4] then return redis.error_reply('LOST the log is halted') end

local place, seq = position(KEYS[2], KEYS[3], first_wseq, ARGV[5])
if place == 'refused' then return redis.error_reply('WRITER not the next entry') end
if place == 'next' then
  local failed
  seq, failed = append(KEYS[1], KEYS[2], KEYS[3], tonumber(meta[3] or 0), first_wseq, ARGV, 5, entries)
  if failed then return failed end
else
  seq = seq + entries - 1
end
if ARGV[2] ~= '0' then redis.call('ZREM', KEYS[4], ARGV[2]) end

if meta[1] ~= 'active' or (#KEYS > 4 and meta[2] ~= ARGV[1]) then return {seq, 0} end

local reply, stored, conflict = {seq, 1}, {}, false
for i = 5, #KEYS do
  local at = 5 + 2 * entries + (i - 5) * 4
  stored[i] = redis.call('GET', KEYS[i])
  local met = ARGV[at] == 'create' and stored[i] and stored[i] ~= ARGV[at + 2] and stored[i]
  reply[i - 2] = met or false
  conflict = conflict or met
end
if conflict then return reply end

for i = 5, #KEYS do
  local at = 5 + 2 * entries + (i - 5) * 4
  local mode, life, data, list = ARGV[at], tonumber(ARGV[at + 1]), ARGV[at + 2], ARGV[at + 3]
  local left = stored[i] and redis.call('TTL', KEYS[i]) or 0
  if mode == 'tombstone' then
    if left < 0 then life = 0 elseif life > 0 then life = math.max(life, left) end
    if list ~= '' then leave(list, KEYS[i]) end
  end
  if mode == 'gone' then
    if stored[i] then redis.call('SET', KEYS[i] .. ':gone', '', 'EX', life) end
  elseif mode == 'tombstone' or not stored[i] then
    if life > 0 then redis.call('SET', KEYS[i], data, 'EX', life) else redis.call('SET', KEYS[i], data) end
    if list ~= '' and mode ~= 'tombstone' then enter(list, KEYS[i], life) end
  elseif left >= 0 then
    if life == 0 then redis.call('PERSIST', KEYS[i]) elseif life > left then redis.call('EXPIRE', KEYS[i], life) end
  end
end
return reply
