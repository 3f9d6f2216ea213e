-- Stands before a transaction, in the same message, and says whether it may take place. If not it touches what the connection
-- watches, which stays as it is, so that the server refuses the transaction.
-- KEYS: meta. ARGV: schema, the revision it follows, the turn's word or nothing, ids of new jobs.
-- Answers {'newer', schema}, {'behind'}, {'known', id, …} or {'ok'}.

local call = redis.call
local prefix = string.sub(KEYS[1], 1, -5)
local function refuse(answer)
    -- A server without memory does this, too.
    if call('PEXPIRE', KEYS[1], 600000) == 1 then
        call('PERSIST', KEYS[1])
    else
        -- Everything was deleted.
        call('SET', prefix .. 'turn', '-', 'PX', 1)
    end
    return answer
end
local meta = call('HMGET', KEYS[1], 'schema', 'revision', 'pending')
if meta[1] and tonumber(meta[1]) > tonumber(ARGV[1]) then
    return refuse({'newer', meta[1]})
end
if meta[3] or (meta[2] or '1') ~= ARGV[2] then
    return refuse({'behind'})
end
-- Nobody else may be in their turn. One of our own that has run out does no harm as long as nobody has written
-- since, which the revision tells.
local holder = call('GET', prefix .. 'turn')
if holder and holder ~= ARGV[3] then
    return refuse({'behind'})
end
if #ARGV > 3 then
    local known, there = {'known'}, call('HMGET', prefix .. 'id', unpack(ARGV, 4))
    for n = 1, #there do
        if there[n] then
            known[#known + 1] = ARGV[n + 3]
        end
    end
    if #known > 1 then
        return refuse(known)
    end
end
return {'ok'}
