-- Takes the turn if it is free, and says what has happened since a revision.
-- KEYS: meta. ARGV: schema, the turn's own word, how long it lasts at the most in ms, the known revision, how
-- many revisions behind is too far, how much there is to do ('little', 'much', or 'again' of whoever has lent the turn).
-- Answers {'newer', schema}, {'pending', commit}, {'busy'} or {'ok', revision, seconds, µs, numbers, changes},
-- where changes is nothing if there are none, 'whole' if they cannot be told, or a list of them.

local call = redis.call
local prefix = string.sub(KEYS[1], 1, -5)
local meta = call('HMGET', KEYS[1], 'schema', 'revision', 'numbers', 'pending')
if meta[1] and tonumber(meta[1]) > tonumber(ARGV[1]) then
    return {'newer', meta[1]}
end
if meta[4] then
    return {'pending', meta[4]}
end
-- Whoever waits is next: a daemon that has just had a turn does not take another one before them.
local holder, waits = call('GET', prefix .. 'turn'), call('GET', prefix .. 'next')
local waiting = prefix .. (ARGV[6] == 'little' and 'first' or 'line')
if (holder and holder ~= ARGV[2]) or (waits and waits ~= ARGV[2]) then
    if not call('LPOS', waiting, ARGV[2]) then
        call(ARGV[6] == 'again' and 'LPUSH' or 'RPUSH', waiting, ARGV[2])
    end
    call('PEXPIRE', waiting, 30000)
    return {'busy'}
end
if waits then
    call('DEL', prefix .. 'next')
end
if not meta[2] then
    -- Nothing was written here yet, or everything was deleted. Revisions begin where none of a former queue has come to, or a
    -- daemon that was there could take this queue for that one.
    local time = call('TIME')
    meta[2] = string.format('%.0f', time[1] * 1000000 + time[2])
    call('HSET', KEYS[1], 'schema', ARGV[1], 'revision', meta[2])
end
call('LREM', prefix .. 'first', 0, ARGV[2])
call('LREM', prefix .. 'line', 0, ARGV[2])
call('SET', prefix .. 'turn', ARGV[2], 'PX', ARGV[3])

local revision, known = tonumber(meta[2]), tonumber(ARGV[4])
local changes = false
if known == 0 or known > revision or revision - known > tonumber(ARGV[5]) then
    changes = 'whole'
elseif known < revision then
    local entries = call('XRANGE', prefix .. 'changes', '(' .. ARGV[4], '+')
    changes = {}
    for i = 1, #entries do
        changes[i] = entries[i][2][2]
    end
    -- Some of them may be too old to be kept.
    if #changes ~= revision - known then
        changes = 'whole'
    end
end
local time = call('TIME')
return {'ok', meta[2], time[1], time[2], meta[3], changes}
