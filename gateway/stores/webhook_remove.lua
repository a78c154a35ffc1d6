-- Removes a webhook with all that waits for it.
--
-- KEYS  1 webhooks  2 webhook  3 due  4 seen  5 dead
-- ARGV  1 name
-- Reply 1, or 0 where there was none.

local removed = redis.call('HDEL', KEYS[1], ARGV[1])
for _, lane in ipairs(redis.call('ZRANGE', KEYS[3], 0, -1)) do redis.call('DEL', KEYS[2] .. ':q:' .. lane) end
redis.call('DEL', KEYS[2], KEYS[3], KEYS[4], KEYS[5])
return removed
