-- Puts a message last into its lane.
--
-- KEYS  1 meta  2 webhooks  3 webhook  4 due  5 the lane's queue  6 seen
-- ARGV  1 name  2 message's ID  3 lane  4 message  5 how many may wait  6 ms for which an ID is known  7 whatever is known (0|1)
-- Reply 1 taken, 2 known, 3 full, 0 where there is no such webhook.

local status = redis.call('HGET', KEYS[1], 'status')
if not status or status == 'erased' or redis.call('HEXISTS', KEYS[2], ARGV[1]) == 0 then return 0 end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[6], '-inf', string.format('%.0f', now - ARGV[6]))
if ARGV[7] == '0' and redis.call('ZSCORE', KEYS[6], ARGV[2]) then return 2 end
if tonumber(redis.call('HGET', KEYS[3], 'waiting') or 0) >= tonumber(ARGV[5]) then return 3 end
now = string.format('%.0f', now)
redis.call('RPUSH', KEYS[5], ARGV[4])
redis.call('HINCRBY', KEYS[3], 'waiting', 1)
redis.call('ZADD', KEYS[4], 'NX', now, ARGV[3])
redis.call('ZADD', KEYS[6], now, ARGV[2])
-- As many as may wait, and as many again that were delivered: what is older comes at most once more.
redis.call('ZREMRANGEBYRANK', KEYS[6], 0, -2 * tonumber(ARGV[5]) - 1)
return 1
