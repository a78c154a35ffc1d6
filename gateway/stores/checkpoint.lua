-- Takes a tenant's next checkpoint if nobody else was first and the log still holds what was signed.
--
-- KEYS  1 meta  2 log  3 checkpoint
-- ARGV  1 epoch  2 size of the checkpoint before  3 size of this one  4 note  5 frontier  6 public keys  7 body of its last event  8 that event's leaf
-- Reply 1, or 0 where another checkpoint is there, the log is halted, or its event is another one.

local meta = redis.call('HMGET', KEYS[1], 'status', 'halted')
if not meta[1] or meta[2] then return 0 end
local held = redis.call('HMGET', KEYS[3], 'epoch', 'size', 'note')
if (held[1] or '0') ~= ARGV[1] then return 0 end
if held[2] == ARGV[3] and held[3] == ARGV[4] then return 1 end
if (held[2] or '0') ~= ARGV[2] then return 0 end
local rows = redis.call('XRANGE', KEYS[2], '0-' .. ARGV[3], '0-' .. ARGV[3])
if #rows == 0 or rows[1][2][2] ~= ARGV[7] then return 0 end
redis.call('HSET', KEYS[3], 'epoch', ARGV[1], 'size', ARGV[3], 'note', ARGV[4], 'frontier', ARGV[5], 'keys', ARGV[6],
  'leaf', ARGV[8])
return 1
