-- Makes all that waits due at once.
--
-- KEYS  1 webhook  2 due

redis.call('HDEL', KEYS[1], 'failures', 'error', 'retry', 'stopped')
for _, lane in ipairs(redis.call('ZRANGE', KEYS[2], 0, -1)) do
  if redis.call('HEXISTS', KEYS[1], 'owner:' .. lane) == 0 then redis.call('ZADD', KEYS[2], 0, lane) end
end
return 1
