-- Writes all that came of a turn, or nothing.
-- KEYS: meta. ARGV: schema, the revision it follows, the turn's word or nothing, the daemon, the commit's id,
-- numbers, what others must know, what wakes them or nothing, '1' if more is staged, ids of new jobs,
-- changes to carry out, how long the turn lasts from here on in ms or nothing if it ends, how many of those who hear of
-- news behind the others and first are the author. Ids and changes are packed.
-- Answers {'newer', schema}, {'behind'}, {'known', id, …} or {'done', '0' if the turn is over} or {'done', '1',
-- '1' if somebody with little to do waits for it, how many with much to do wait}.

local meta = call('HMGET', KEYS[1], 'schema', 'revision', 'pending')
if meta[1] and tonumber(meta[1]) > tonumber(ARGV[1]) then
    return {'newer', meta[1]}
end
if meta[3] or (meta[2] or '1') ~= ARGV[2] then
    return {'behind'}
end
-- Nobody else may be in their turn. One of our own that has run out does no harm as long as nobody has written
-- since, which the revision tells.
local holder = call('GET', prefix .. 'turn')
if holder and holder ~= ARGV[3] then
    return {'behind'}
end
local ids = cmsgpack.unpack(ARGV[10])
local known = {'known'}
for i = 1, #ids, 1000 do
    local part = call('HMGET', prefix .. 'id', unpack(ids, i, math.min(i + 999, #ids)))
    for n = 1, #part do
        if part[n] then
            known[#known + 1] = ids[i + n - 1]
        end
    end
end
if #known > 1 then
    return known
end

-- The first write is one that a server without memory refuses: either nothing is written, or everything.
local revision = string.format('%.0f', tonumber(ARGV[2]) + 1)
call('HSET', KEYS[1], 'revision', revision, 'numbers', ARGV[6])
call('SET', prefix .. 'commit:' .. ARGV[4], ARGV[5], 'EX', 604800)
call('XADD', prefix .. 'changes', 'MAXLEN', '~', 500, revision .. '-0', 'c', ARGV[7])
if ARGV[9] == '1' then
    call('HSET', KEYS[1], 'pending', ARGV[5])
    call('PERSIST', prefix .. 'staged:' .. ARGV[5])
end
carry_out(cmsgpack.unpack(ARGV[11]))
local kept = '0'
if holder and ARGV[12] ~= '' then
    call('PEXPIRE', prefix .. 'turn', ARGV[12])
    kept = '1'
elseif holder then
    call('DEL', prefix .. 'turn')
    pass_on(prefix)
end
if ARGV[8] ~= '' then
    tell(ARGV[8], ARGV[13], ARGV[14])
end
if kept == '0' then
    return {'done', kept}
end
return {'done', kept, tostring(call('EXISTS', prefix .. 'first')), tostring(call('LLEN', prefix .. 'line'))}
