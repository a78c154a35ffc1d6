-- Reads a stretch of a list (rows.lua).
--
-- KEYS  1 the first of the sets
-- ARGV  as rows.lua has them

return read_rows(1)
