-- Stops a tenant's log: nothing is appended until it is resealed. The first reason stays.
--
-- KEYS  1 meta
-- ARGV  1 why
-- Reply 1, or 0 where the tenant is unknown.

if redis.call('HEXISTS', KEYS[1], 'status') == 0 then return 0 end
redis.call('HSETNX', KEYS[1], 'halted', ARGV[1])
return 1
