-- Takes the first message of the lane that is due longest, for one sender. Time is the server's: senders' clocks may differ.
--
-- KEYS  1 meta  2 webhooks  3 webhook  4 due
-- ARGV  1 name  2 owner (another one each time)  3 lease in ms
-- Reply lane, message, attempts, failures; or 0 where nothing is to be had.

if redis.call('HGET', KEYS[1], 'status') ~= 'active' or redis.call('HEXISTS', KEYS[2], ARGV[1]) == 0 then return 0 end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local held = redis.call('HMGET', KEYS[3], 'retry', 'stopped', 'failures')
if held[2] or tonumber(held[1] or 0) > now then return 0 end
local lane = redis.call('ZRANGEBYSCORE', KEYS[4], '-inf', string.format('%.0f', now), 'LIMIT', 0, 1)[1]
if not lane then return 0 end
local message = redis.call('LINDEX', KEYS[3] .. ':q:' .. lane, 0)
if not message then
  redis.call('ZREM', KEYS[4], lane)
  return 0
end
redis.call('ZADD', KEYS[4], string.format('%.0f', now + ARGV[3]), lane)
redis.call('HSET', KEYS[3], 'owner:' .. lane, ARGV[2])
return {lane, message, redis.call('HGET', KEYS[3], 'attempts:' .. lane) or 0, held[3] or 0}
