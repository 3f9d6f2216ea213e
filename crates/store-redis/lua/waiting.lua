-- Says in which of some lanes jobs are ready, and strikes the others out of the list of those.
-- KEYS: meta. ARGV: lanes. Answers the lanes with ready jobs.

local call = redis.call
local prefix = string.sub(KEYS[1], 1, -5)
local found, gone = {}, {}
for i = 1, #ARGV do
    if call('EXISTS', prefix .. 'ready:' .. ARGV[i]) == 1 then
        found[#found + 1] = ARGV[i]
    else
        gone[#gone + 1] = ARGV[i]
    end
end
if #gone > 0 then
    call('HDEL', prefix .. 'waiting', unpack(gone))
end
return found
