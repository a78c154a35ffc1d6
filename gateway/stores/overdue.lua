-- Hands out intents whose deadline has passed; each comes up again after the lease unless it was closed.
--
-- KEYS  1 meta  2 log  3 open
-- ARGV  1 now (UTC seconds)  2 lease in seconds  3 how many at most
-- Reply seq and body, in turn.

local status = redis.call('HGET', KEYS[1], 'status')
if not status or status == 'erased' then return {} end
local reply = {}
for _, seq in ipairs(redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', ARGV[1], 'LIMIT', 0, ARGV[3])) do
  local rows = redis.call('XRANGE', KEYS[2], '0-' .. seq, '0-' .. seq)
  if #rows == 0 then
    redis.call('ZREM', KEYS[3], seq)
  else
    redis.call('ZADD', KEYS[3], ARGV[1] + ARGV[2], seq)
    reply[#reply + 1] = seq
    reply[#reply + 1] = rows[1][2][2]
  end
end
return reply
