-- Stands before the scripts that write. Carries out a list of changes, each {verb, key, argument, …}, where a
-- verb is a command of the server or one of those below. Decides nothing: the daemon has done that.

local call = redis.call
local prefix = string.sub(KEYS[1], 1, -5)

local verbs = {}

-- Adds to counts, each of which is gone when nothing is left: {count, key, field, n, …}.
function verbs.count(c)
    local fields, left, gone = {}, {}, {}
    for i = 3, #c, 2 do
        fields[#fields + 1] = c[i]
    end
    local counts = call('HMGET', c[2], unpack(fields))
    for i = 1, #fields do
        local n = tonumber(counts[i] or 0) + tonumber(c[2 * i + 2])
        if n > 0 then
            left[#left + 1], left[#left + 2] = fields[i], string.format('%d', n)
        else
            gone[#gone + 1] = fields[i]
        end
    end
    if #left > 0 then
        call('HSET', c[2], unpack(left))
    end
    if #gone > 0 then
        call('HDEL', c[2], unpack(gone))
    end
end

-- Jobs give their idempotency keys up, if they still have them: {unkey, key, seq, …}.
function verbs.unkey(c)
    for i = 3, #c do
        local key = call('HGET', prefix .. 'keyof', c[i])
        if key then
            call('HDEL', prefix .. 'keyof', c[i])
            if call('HGET', c[2], key) == c[i] then
                call('HDEL', c[2], key)
            end
        end
    end
end

-- Jobs are gone, and so are their ties: {untie, key, seq, …}.
function verbs.untie(c)
    for i = 3, #c do
        local seq = c[i]
        local before, behind = prefix .. 'before:' .. seq, prefix .. 'behind:' .. seq
        for _, other in ipairs(call('SMEMBERS', before)) do
            call('SREM', prefix .. 'behind:' .. other, seq)
        end
        for _, other in ipairs(call('SMEMBERS', behind)) do
            call('SREM', prefix .. 'before:' .. other, seq)
        end
        call('DEL', before, behind)
        call('SREM', c[2], seq)
    end
end

-- Workers were heard of; one that is not known stays unknown: {seen, key, worker, instant, …}.
function verbs.seen(c)
    for i = 3, #c, 2 do
        if call('HEXISTS', prefix .. 'worker', c[i]) == 1 then
            call('HSET', c[2], c[i], c[i + 1])
        end
    end
end

-- A service, which keeps the place it was first defined in: {service, key, name, row}.
function verbs.service(c)
    if call('HSET', c[2], c[3], c[4]) == 1 then
        call('RPUSH', prefix .. 'services', c[3])
    end
end

-- Output of a job, no more than a bound; the oldest goes, the latest stays:
-- {log, key, seq, n, bytes, bound, row}.
function verbs.log(c)
    local key, sizes, seq = c[2] .. c[3], prefix .. 'logsize', c[3]
    call('XADD', key, c[4], 'bytes', c[5], 'row', c[7])
    local size = call('HINCRBY', sizes, seq, c[5])
    while size > tonumber(c[6]) do
        local oldest = call('XRANGE', key, '-', '+', 'COUNT', 2)
        if #oldest < 2 then
            break
        end
        call('XDEL', key, oldest[1][1])
        size = call('HINCRBY', sizes, seq, -tonumber(oldest[1][2][2]))
    end
end

local function carry_out(changes)
    for i = 1, #changes do
        local c = changes[i]
        c[2] = prefix .. c[2]
        local verb = verbs[c[1]]
        if verb then
            verb(c)
        else
            call(unpack(c))
        end
    end
end
