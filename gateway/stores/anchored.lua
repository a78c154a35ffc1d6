-- Says that the checkpoint of a size is in every anchor. It never goes back within an epoch, nor ahead of the checkpoint: one
-- that is larger is of a log that has gone back since.
--
-- KEYS  1 checkpoint
-- ARGV  1 epoch  2 size
-- Reply 1, or 0 where the epoch is another one or the checkpoint smaller.

local held = redis.call('HMGET', KEYS[1], 'epoch', 'anchored', 'size')
if (held[1] or '0') ~= ARGV[1] or tonumber(held[3] or 0) < tonumber(ARGV[2]) then return 0 end
if tonumber(held[2] or 0) < tonumber(ARGV[2]) then redis.call('HSET', KEYS[1], 'anchored', ARGV[2]) end
return 1
