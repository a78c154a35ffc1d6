-- Takes archived events from the log's beginning, below an anchored checkpoint alone.
--
-- KEYS  1 log  2 checkpoint  3 rules
-- ARGV  1 last sequence number to go  2 frontier of that size
-- Reply 1, or 0 where a legal hold is on, the events are not anchored, or the log was trimmed further already.

local held = redis.call('HMGET', KEYS[2], 'anchored', 'trimmed')
local last = tonumber(ARGV[1])
if redis.call('HGET', KEYS[3], 'hold') == '1' then return 0 end
if last > tonumber(held[1] or 0) or last <= tonumber(held[2] or 0) then return 0 end
redis.call('XTRIM', KEYS[1], 'MINID', '0-' .. (last + 1))
redis.call('HSET', KEYS[2], 'trimmed', last, 'base', ARGV[2])
return 1
