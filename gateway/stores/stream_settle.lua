-- Writes what became of a batch, if the stream is still its sender's.
--
-- KEYS  1 streams  2 stream
-- ARGV  1 name  2 owner  3 ms until the next attempt (0: at once)  4 whether it is stopped (0|1)  then fields and values
-- Reply 1, or 0 where the stream is gone or somebody else's.

if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 or redis.call('HGET', KEYS[2], 'owner') ~= ARGV[2] then return 0 end
local time = redis.call('TIME')
local retry = ARGV[3] ~= '0' and time[1] * 1000 + math.floor(time[2] / 1000) + ARGV[3] or 0
redis.call('HSET', KEYS[2], 'retry', string.format('%.0f', retry))
if ARGV[4] == '1' then redis.call('HSET', KEYS[2], 'stopped', 1) end
for i = 5, #ARGV, 2 do redis.call('HSET', KEYS[2], ARGV[i], ARGV[i + 1]) end
return 1
