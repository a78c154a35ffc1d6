-- Ends a halt: appends the event that says so, and opens the log's next epoch with the checkpoint that covers it.
--
-- KEYS  1 meta  2 log  3 checkpoint  4 writer
-- ARGV  1 epoch  2 seq of the event  3 body  4 note  5 frontier  6 public keys  7 epoch of before  8 the event's leaf
--       9 the body's MAC
-- Reply 1, or 0 where the log is not halted, or grew, or was resealed by somebody else.
-- The newest row says where the log ends: the number beside it may be what somebody wrote there, and is mended by this.
-- A writer of before may be short of entries that were accepted as lost; begin.lua asks for `resealed` and its time.

local meta = redis.call('HMGET', KEYS[1], 'status', 'halted')
local held = redis.call('HMGET', KEYS[3], 'epoch', 'trimmed')
local epoch = held[1] or '0'
if #epoch > 16 or not string.match(epoch, '^%d+$') then epoch = '-1' end
if tonumber(epoch) ~= tonumber(ARGV[7]) then return 0 end
if not meta[1] or meta[1] == 'erased' or not meta[2] then return 0 end
local newest = redis.call('XREVRANGE', KEYS[2], '+', '-', 'COUNT', 1)
local top = newest[1] and newest[1][1] or '0-' .. (held[2] or '0')
if top ~= '0-' .. string.format('%.0f', ARGV[2] - 1) then return 0 end
-- Numbers of rows that were taken away come again.
if newest[1] then redis.call('XSETID', KEYS[2], top) end
redis.call('XADD', KEYS[2], '0-' .. ARGV[2], 'e', ARGV[3], 'm', ARGV[9])
redis.call('SET', KEYS[4], 'ended', 'EX', 604800)
redis.call('HSET', KEYS[1], 'seq', ARGV[2], 'resealed', ARGV[2], 'resealed_at', redis.call('TIME')[1])
redis.call('HDEL', KEYS[1], 'halted')
redis.call('HSET', KEYS[3],
  'epoch', ARGV[1], 'size', ARGV[2], 'note', ARGV[4], 'frontier', ARGV[5], 'keys', ARGV[6], 'leaf', ARGV[8],
  'anchored', 0)
return 1
