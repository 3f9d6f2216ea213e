-- Reads rows that are asked for together. Changes nothing.
-- KEYS: meta. ARGV: the turn's word if the answers matter only in that turn, or nothing; packed {ids, seqs, keys, ready, dependents, prerequisites, lanes, lane keys}, where ready
-- is a list of {key, lowest score, limit}.
-- Answers, packed, {seqs, rows, seqs of ids, seqs of keys, ready lists, dependents, prerequisites, lanes, lane keys},
-- where rows is a list of {specs, lives, whether others wait} of up to a thousand seqs each, and the last of
-- those is empty if nobody waits for anybody; or nothing if the turn is another.

local call = redis.call
local prefix = string.sub(KEYS[1], 1, -5)
if ARGV[1] ~= '' and call('GET', prefix .. 'turn') ~= ARGV[1] then
    return ''
end
local asked = cmsgpack.unpack(ARGV[2])

local function fields(key, names)
    if #names == 0 then
        return {}
    end
    return call('HMGET', prefix .. key, unpack(names))
end

local seqs, have = {}, {}
local function want(list)
    for i = 1, #list do
        local seq = list[i]
        if seq and not have[seq] then
            have[seq] = true
            seqs[#seqs + 1] = seq
        end
    end
end

local ids = fields('id', asked[1])
want(ids)
want(asked[2])
local keys = fields('key', asked[3])
want(keys)
local ready = {}
for i, question in ipairs(asked[4]) do
    ready[i] = call('ZRANGEBYSCORE', prefix .. question[1], question[2], '+inf', 'LIMIT', 0, question[3])
    want(ready[i])
end
local function others(key, list)
    local found = {}
    for i = 1, #list do
        found[i] = call('SMEMBERS', prefix .. key .. list[i])
        want(found[i])
    end
    return found
end
local dependents = others('behind:', asked[5])
local prerequisites = others('before:', asked[6])

local rows = {}
local any_tied = call('EXISTS', prefix .. 'tied') == 1
for i = 1, #seqs, 1000 do
    local last = math.min(i + 999, #seqs)
    rows[#rows + 1] = {
        call('HMGET', prefix .. 'spec', unpack(seqs, i, last)),
        call('HMGET', prefix .. 'life', unpack(seqs, i, last)),
        any_tied and call('SMISMEMBER', prefix .. 'tied', unpack(seqs, i, last)) or {},
    }
end
return cmsgpack.pack({
    seqs, rows, ids, keys, ready, dependents, prerequisites,
    fields('lanes', asked[7]), fields('lane', asked[8]),
})
