-- Puts parts of a large commit down, where nobody sees them before it is decided. They are gone by themselves
-- if it never is. A turn that is held goes on.
-- KEYS: meta. ARGV: the turn's word or nothing, how long it lasts in ms, the commit's id, parts.

local prefix = string.sub(KEYS[1], 1, -5)
local staged = prefix .. 'staged:' .. ARGV[3]
redis.call('RPUSH', staged, unpack(ARGV, 4))
redis.call('EXPIRE', staged, 600)
if ARGV[1] ~= '' and redis.call('GET', prefix .. 'turn') == ARGV[1] then
    redis.call('PEXPIRE', prefix .. 'turn', ARGV[2])
end
return 1
