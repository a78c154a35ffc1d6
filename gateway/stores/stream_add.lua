-- Enters a stream of a tenant's log.
--
-- KEYS  1 meta  2 streams  3 stream
-- ARGV  1 name  2 record  3 how many a tenant may have  4 cursor (empty: the newest event)
-- Reply 1, or 0 where the tenant is unknown or erased, or has so many.

local meta = redis.call('HMGET', KEYS[1], 'status', 'seq')
if not meta[1] or meta[1] == 'erased' then return 0 end
local held = redis.call('HGET', KEYS[2], ARGV[1])
if held then return held == ARGV[2] and 1 or 0 end
if redis.call('HLEN', KEYS[2]) >= tonumber(ARGV[3]) then return 0 end
redis.call('HSET', KEYS[3], 'cursor', ARGV[4] ~= '' and ARGV[4] or meta[2] or 0)
redis.call('HSET', KEYS[2], ARGV[1], ARGV[2])
return 1
