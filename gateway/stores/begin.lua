-- Appends an event, and reads what the request named.
--
-- KEYS  1 meta  2 log  3 writer  4 open  [5 credential]  then the records
-- ARGV  1 tag  2 wseq  3 body  4 its MAC  5 open until (0: nothing stays open)  6 has a credential (0|1)
--       7 key of a writer that ends here ('': none)  8 its last confirmed wseq  then a stretch of a list, if one is asked for
-- Reply seq, generation, active, live, then record and root of each look-up, then the rows of the list.
-- A look-up reads two keys whatever it finds: a record without a root pointer reads a root that never exists.

-- Whether a writer whose newest event is `at` may be short of events: a loss was accepted after it, and writers that knew more
-- may still be followed by others. In an hour none of them is left.
local ACCEPTED_FOR_S = 3600

local function accepted(meta, at)
  local resealed = redis.call('HMGET', meta, 'resealed', 'resealed_at')
  return resealed[1] and at <= tonumber(resealed[1])
    and tonumber(redis.call('TIME')[1]) - tonumber(resealed[2]) < ACCEPTED_FOR_S
end

local tag, wseq, body = ARGV[1], tonumber(ARGV[2]), ARGV[3]

local meta = redis.call('HMGET', KEYS[1], 'status', 'generation', 'seq', 'halted')
local generation = tonumber(meta[2] or 0) or 0
if not meta[1] or meta[1] == 'erased' then return {0, generation, 0, 0} end
if meta[4] then return redis.error_reply('LOST the log is halted') end

local place, seq = position(KEYS[2], KEYS[3], wseq, body)
if place == 'refused' then return redis.error_reply('WRITER not the next entry') end
if place == 'next' and ARGV[7] ~= '' then
  local last, at = writer_state(ARGV[7])
  if last and last < tonumber(ARGV[8]) and not accepted(KEYS[1], at) then
    redis.call('HSET', KEYS[1], 'halted', 'a writer confirmed ' .. ARGV[8] .. ' events and the log holds ' .. last)
    redis.call('SET', ARGV[7], 'ended', 'EX', WRITER_LIFE_S)
    return redis.error_reply('LOST the log is shorter than it was')
  end
end

-- A generation that is no number was written by somebody else: nothing is done for the tenant until its status is set anew.
local active = meta[1] == 'active' and tonumber(meta[2] or 0)
local live, first = true, 5
if ARGV[6] == '1' then
  first = 6
  local key = redis.call('HMGET', KEYS[5], 'expires', 'revoked')
  local expires = tonumber(key[1] or '')
  live = key[2] == '0' and (not expires or expires > tonumber(redis.call('TIME')[1]))
end

local reply = {0, generation, active and 1 or 0, live and 1 or 0}
if active and live then
  for i = first, #KEYS do
    local record = redis.call('GET', KEYS[i])
    local kind = record and KIND_OF_CODE[string.byte(record, 3)]
    local root = kind and #record >= 19 and kind .. hex(string.sub(record, 4, 19)) or NO_RECORD .. hex(NO_H)
    reply[#reply + 1] = record
    reply[#reply + 1] = redis.call('GET', tag .. ':' .. root)
  end
  if ARGV[9] then reply[#reply + 1] = read_rows(9) end
end

if place == 'next' then
  local failed
  seq, failed = append(KEYS[1], KEYS[2], KEYS[3], tonumber(meta[3] or 0), wseq, ARGV, 3, 1)
  if failed then return failed end
  if ARGV[7] ~= '' then redis.call('SET', ARGV[7], 'ended', 'EX', WRITER_LIFE_S) end
  if active and live and ARGV[5] ~= '0' then redis.call('ZADD', KEYS[4], ARGV[5], seq) end
end
reply[1] = seq
return reply
