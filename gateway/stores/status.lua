-- Sets a tenant's status and raises its generation. Erased is final.
--
-- KEYS  1 meta
-- ARGV  1 status  [2 the generation that it must still have]
-- Reply 1, or 0 where the tenant is unknown or erased, or was changed meanwhile.
-- A generation that is no number was written by somebody else, and begins again.

local status = redis.call('HGET', KEYS[1], 'status')
if not status or (status == 'erased' and ARGV[1] ~= 'erased') then return 0 end
if ARGV[2] and redis.call('HGET', KEYS[1], 'generation') ~= ARGV[2] then return 0 end
redis.call('HSET', KEYS[1], 'status', ARGV[1])
if not tonumber(redis.call('HGET', KEYS[1], 'generation') or 0) then redis.call('HSET', KEYS[1], 'generation', 0) end
redis.call('HINCRBY', KEYS[1], 'generation', 1)
return 1
