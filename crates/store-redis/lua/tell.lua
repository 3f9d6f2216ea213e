-- Stands before the scripts that have news, behind carry_out.lua. Wakes the other daemons: those who wait for jobs before
-- those who only keep up, because the server writes to the channel that was published to last first. A channel on which
-- nobody but the author listens, if it says how often it does, is left out.

local function tell(news, behind, first)
    local channels, own = {prefix .. 'news:behind', prefix .. 'news'}, {behind or '0', first or '0'}
    local listeners = redis.pcall('PUBSUB', 'NUMSUB', channels[1], channels[2])
    for i = 1, 2 do
        if listeners.err or listeners[2 * i] > tonumber(own[i]) then
            -- Whoever may not publish is still heard of by those who poll.
            redis.pcall('PUBLISH', channels[i], news)
        end
    end
end
