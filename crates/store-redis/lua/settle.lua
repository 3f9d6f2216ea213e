-- Whether a commit whose reply was lost went through. If not, it never will: what it builds on is made out of
-- date. The turn it was made in is over.
-- KEYS: meta. ARGV: the revision it follows, the turn's word or nothing, the daemon, the commit's id.
-- Answers 1 if it did, 0 if not.

local call = redis.call
local prefix = string.sub(KEYS[1], 1, -5)
if ARGV[2] ~= '' and call('GET', prefix .. 'turn') == ARGV[2] then
    call('DEL', prefix .. 'turn')
    pass_on(prefix)
end
if call('GET', prefix .. 'commit:' .. ARGV[3]) == ARGV[4] then
    return 1
end
if (call('HGET', KEYS[1], 'revision') or '1') == ARGV[1] then
    local revision = string.format('%.0f', tonumber(ARGV[1]) + 1)
    call('HSET', KEYS[1], 'revision', revision)
    call('XADD', prefix .. 'changes', 'MAXLEN', '~', 500, revision .. '-0', 'c', '{}')
end
return 0
