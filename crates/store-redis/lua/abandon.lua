-- Ends a turn without writing, if it is still held. KEYS: meta. ARGV: the turn's word.

local turn = string.sub(KEYS[1], 1, -5) .. 'turn'
if redis.call('GET', turn) == ARGV[1] then
    redis.call('DEL', turn)
end
return 1
