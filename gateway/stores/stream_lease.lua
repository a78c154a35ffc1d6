-- Takes or keeps a stream for one sender. Time is the server's: senders' clocks may differ.
--
-- KEYS  1 meta  2 streams  3 stream
-- ARGV  1 name  2 owner  3 lease in ms  4 last event of the batch that is about to be sent (0: none)
-- Reply seq, ms until the next attempt, then the stream's fields; or 0 where it is not to be had.

local meta = redis.call('HMGET', KEYS[1], 'status', 'seq')
if not meta[1] or meta[1] == 'erased' or redis.call('HEXISTS', KEYS[2], ARGV[1]) == 0 then return 0 end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local held = redis.call('HMGET', KEYS[3], 'owner', 'leased', 'retry', 'stopped')
if held[4] then return 0 end
if held[1] and held[1] ~= ARGV[2] and tonumber(held[2]) > now then return 0 end
if tonumber(held[3] or 0) > now then return 0 end
redis.call('HSET', KEYS[3], 'owner', ARGV[2], 'leased', string.format('%.0f', now + ARGV[3]))
if ARGV[4] ~= '0' then redis.call('HSET', KEYS[3], 'upto', ARGV[4]) end
local fields = redis.call('HMGET', KEYS[3], 'cursor', 'digest', 'upto', 'failures', 'error', 'stopped')
return {meta[2] or 0, 0, fields[1], fields[2], fields[3], fields[4], fields[5], fields[6]}
