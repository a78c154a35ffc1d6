-- Sets a tenant's status and raises its generation. Erased is final.
--
-- KEYS  1 meta
-- ARGV  1 status
-- Reply 1, or 0 where the tenant is unknown or erased.

local status = redis.call('HGET', KEYS[1], 'status')
if not status or (status == 'erased' and ARGV[1] ~= 'erased') then return 0 end
redis.call('HSET', KEYS[1], 'status', ARGV[1])
redis.call('HINCRBY', KEYS[1], 'generation', 1)
return 1
