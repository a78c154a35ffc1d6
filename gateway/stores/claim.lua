-- Claims a key unless it is claimed, and lengthens the claim's life (SET NX GET needs Redis 7). A hold is lengthened by its
-- holder alone: those who ask again and again for what a dead holder left would keep it from ever falling free.
--
-- KEYS  1 the claim
-- ARGV  1 value  2 lifetime in seconds (0: for ever)  3 "hold" for one of that kind
-- Reply the value that holds.

local held, life = redis.call('GET', KEYS[1]), tonumber(ARGV[2])
if not held then
  if life > 0 then redis.call('SET', KEYS[1], ARGV[1], 'EX', life) else redis.call('SET', KEYS[1], ARGV[1]) end
  return ARGV[1]
end
if ARGV[3] == 'hold' and held ~= ARGV[1] then return held end
local left = redis.call('TTL', KEYS[1])
if left >= 0 then
  if life == 0 then redis.call('PERSIST', KEYS[1]) elseif life > left then redis.call('EXPIRE', KEYS[1], life) end
end
return held
