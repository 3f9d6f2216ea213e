-- Ends a turn without writing, if it is still held. KEYS: meta. ARGV: the turn's word.

local prefix = string.sub(KEYS[1], 1, -5)
if redis.call('GET', prefix .. 'turn') == ARGV[1] then
    redis.call('DEL', prefix .. 'turn')
    pass_on(prefix)
end
return 1
