-- Put before begin.lua and list.lua: reads a stretch of a list.
--
-- A list is one sorted set for each scope: a record's h in hexadecimal -> its position, which rises with each entry of the
-- tenant. Beside it `<set>:<h>` keeps the position of a deleted entry for a while, and `<record>:gone` says that the service
-- does not know the object at present. Entries whose record has expired are taken out as they are met.

local SCANNED_ENTRIES, AT_ONCE = 1000, 128

-- The entries of a set behind `at` (nil: from its beginning): h and position, in turn.
local function entries(set, at, newest_first)
  local from = at and '(' .. at
  if newest_first then
    return redis.call('ZREVRANGEBYSCORE', set, from or '+inf', '-inf', 'WITHSCORES', 'LIMIT', 0, AT_ONCE)
  end
  return redis.call('ZRANGEBYSCORE', set, from or '-inf', '+inf', 'WITHSCORES', 'LIMIT', 0, AT_ONCE)
end

-- ARGV from `first` on: beginning of the records' keys, h to begin behind ('': none), position to begin behind (0: none),
-- newest first (0|1), how many, then the sets.
-- Reply whether the h is known, position that the next stretch begins behind (0: nothing is left), then for each row its h,
-- its record and its position.
local function read_rows(first)
  local records, after, at = ARGV[first], ARGV[first + 1], tonumber(ARGV[first + 2])
  local newest_first, wanted = ARGV[first + 3] == '1', tonumber(ARGV[first + 4])
  if after ~= '' then
    at = nil
    for s = first + 5, #ARGV do
      at = at or redis.call('ZSCORE', ARGV[s], after) or redis.call('GET', ARGV[s] .. ':' .. after)
    end
    if not at then return {0, 0} end
  elseif at == 0 then
    at = nil
  end

  local reply, scanned, found = {1, 0}, 0, 0
  while true do
    local merged = {}
    for s = first + 5, #ARGV do
      local read = entries(ARGV[s], at, newest_first)
      for i = 1, #read, 2 do merged[#merged + 1] = {tonumber(read[i + 1]), read[i], ARGV[s]} end
    end
    if #merged == 0 then return reply end
    table.sort(merged, function(a, b)
      if newest_first then return a[1] > b[1] end
      return a[1] < b[1]
    end)
    -- Each set gave its first ones, so only as many of all are surely the next.
    for i = 1, math.min(#merged, AT_ONCE) do
      local h, set = merged[i][2], merged[i][3]
      local record = redis.call('GET', records .. h)
      at = merged[i][1]
      if not record then
        redis.call('ZREM', set, h)
      elseif redis.call('EXISTS', records .. h .. ':gone') == 0 then
        reply[#reply + 1], reply[#reply + 2], reply[#reply + 3] = h, record, at
        found = found + 1
      end
      scanned = scanned + 1
      if found == wanted or scanned == SCANNED_ENTRIES then
        reply[2] = at
        return reply
      end
    end
  end
end
