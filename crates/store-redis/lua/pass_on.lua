-- Stands before the scripts that end turns. The turn is over: whoever waits longest is next, those with little to do
-- before the others, and is told. It has a moment to come; if it does not, it is gone.

local function pass_on(prefix)
    local first = redis.call('LPOP', prefix .. 'first') or redis.call('LPOP', prefix .. 'line')
    if first then
        redis.call('SET', prefix .. 'next', first, 'PX', 50)
        redis.call('RPUSH', prefix .. 'gate:' .. first, 1)
        redis.call('PEXPIRE', prefix .. 'gate:' .. first, 1000)
    end
end
