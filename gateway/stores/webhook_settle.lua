-- Writes what became of a lane's first message, if it is still its sender's.
--
-- KEYS  1 webhook  2 due  3 dead  4 the lane's queue
-- ARGV  1 lane  2 owner  3 delivered, failed or dead  4 error  5 ms until the lane is due again  6 ms for which the receiver is
--       left alone  7 whether it is stopped (0|1)  8 message's ID  9 its dead letter  10 how many of those may be there
-- Reply 1, or 0 where the message is somebody else's.

local lane = ARGV[1]
if redis.call('HGET', KEYS[1], 'owner:' .. lane) ~= ARGV[2] then return 0 end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('HDEL', KEYS[1], 'owner:' .. lane)
if ARGV[3] == 'failed' then
  redis.call('HINCRBY', KEYS[1], 'attempts:' .. lane, 1)
  redis.call('ZADD', KEYS[2], string.format('%.0f', now + ARGV[5]), lane)
else
  redis.call('LPOP', KEYS[4])
  redis.call('HINCRBY', KEYS[1], 'waiting', -1)
  redis.call('HDEL', KEYS[1], 'attempts:' .. lane)
  if redis.call('EXISTS', KEYS[4]) == 1 then
    redis.call('ZADD', KEYS[2], string.format('%.0f', now), lane)
  else
    redis.call('ZREM', KEYS[2], lane)
  end
end
if ARGV[3] == 'dead' and redis.call('HLEN', KEYS[3]) < tonumber(ARGV[10]) then
  redis.call('HSET', KEYS[3], ARGV[8], ARGV[9])
end
if ARGV[3] == 'delivered' then
  redis.call('HDEL', KEYS[1], 'failures', 'error', 'retry')
else
  redis.call('HINCRBY', KEYS[1], 'failures', 1)
  redis.call('HSET', KEYS[1], 'error', ARGV[4], 'retry', string.format('%.0f', now + ARGV[6]))
  if ARGV[7] == '1' then redis.call('HSET', KEYS[1], 'stopped', 1) end
end
return 1
