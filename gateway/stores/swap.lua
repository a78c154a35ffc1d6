-- Replaces a value by another, or removes it, if it is still the one that the caller holds.
--
-- KEYS  1 the value
-- ARGV  1 the value held  2 lifetime of the new value in seconds (0: remove)  3 the new value
-- Reply 1, or 0 where another value (but the new one: the same call came twice) stands there.

local stored, life = redis.call('GET', KEYS[1]), tonumber(ARGV[2])
if life == 0 and not stored then return 1 end
if stored ~= ARGV[1] and not (life > 0 and stored == ARGV[3]) then return 0 end
if life > 0 then redis.call('SET', KEYS[1], ARGV[3], 'EX', life) else redis.call('DEL', KEYS[1]) end
return 1
