-- Stands before a transaction, in the same message, and says whether it may take place. If not it touches what the connection
-- watches, which stays as it is, so that the server refuses the transaction. It travels with each of them, and is short.
-- KEYS: meta. ARGV: schema, the revision it follows, the turn's word or nothing, what nobody but the daemon watches, ids of
-- new jobs.
-- Answers {'newer', schema}, {'behind'}, {'known', id, …} or {'ok'}.

local call, said = redis.call, {'ok'}
local prefix = string.sub(KEYS[1], 1, -5)
local meta = call('HMGET', KEYS[1], 'schema', 'revision', 'pending')
-- Nobody else may be in their turn. One of our own that has run out does no harm as long as nobody has written
-- since, which the revision tells.
local turn = call('GET', prefix .. 'turn')
if meta[1] and tonumber(meta[1]) > tonumber(ARGV[1]) then
    said = {'newer', meta[1]}
elseif meta[3] or (meta[2] or '1') ~= ARGV[2] or turn and turn ~= ARGV[3] then
    said = {'behind'}
elseif ARGV[5] then
    local there = call('HMGET', prefix .. 'id', unpack(ARGV, 5))
    for n = 1, #there do
        if there[n] then
            said[1], said[#said + 1] = 'known', ARGV[n + 4]
        end
    end
end
-- A server without memory does this, too. Where the daemon has written nothing yet others may have to try again for it, and
-- if there is no queue everything was deleted.
if said[1] ~= 'ok' and call('EXPIRE', prefix .. ARGV[4], 604800) == 0
    and call('PEXPIRE', KEYS[1], 600000) + call('PERSIST', KEYS[1]) == 0 then
    call('SET', prefix .. 'turn', '-', 'PX', 1)
end
return said
