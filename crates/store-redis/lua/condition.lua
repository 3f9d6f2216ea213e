-- Stands before a transaction, in the same message, and says whether it may take place. If not it touches what the connection
-- watches, which stays as it is, so that the server refuses the transaction. It travels with each of them, and is short.
-- KEYS: meta, turn, id. ARGV: schema, the revision it follows, the turn's word or nothing, ids of new jobs.
-- Answers {'newer', schema}, {'behind'}, {'known', id, …} or {'ok'}.

local call, said = redis.call, {'ok'}
local meta = call('HMGET', KEYS[1], 'schema', 'revision', 'pending')
-- Nobody else may be in their turn. One of our own that has run out does no harm as long as nobody has written
-- since, which the revision tells.
local turn = call('GET', KEYS[2])
if meta[1] and tonumber(meta[1]) > tonumber(ARGV[1]) then
    said = {'newer', meta[1]}
elseif meta[3] or (meta[2] or '1') ~= ARGV[2] or turn and turn ~= ARGV[3] then
    said = {'behind'}
elseif ARGV[4] then
    local there = call('HMGET', KEYS[3], unpack(ARGV, 4))
    for n = 1, #there do
        if there[n] then
            said[1], said[#said + 1] = 'known', ARGV[n + 3]
        end
    end
end
-- A server without memory does this, too. If nothing is there everything was deleted.
if said[1] ~= 'ok' and call('PEXPIRE', KEYS[1], 600000) + call('PERSIST', KEYS[1]) == 0 then
    call('SET', KEYS[2], '-', 'PX', 1)
end
return said
