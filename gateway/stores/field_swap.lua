-- Replaces a field of a hash, if it is still the one that the caller holds.
--
-- KEYS  1 the hash
-- ARGV  1 the field  2 the value held  3 the new one
-- Reply 1, or 0 where another one is there, or none.

local stored = redis.call('HGET', KEYS[1], ARGV[1])
if stored == ARGV[3] then return 1 end
if stored ~= ARGV[2] then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
return 1
