-- Stands before the scripts that have news, behind carry_out.lua. Wakes the other daemons: those who wait for jobs before
-- those who only keep up, because the server writes to the channel that was published to last first. A channel on which
-- nobody but the author listens, if it says how often it does, is left out.

local function tell(news, behind, first)
    for _, channel in ipairs({{'news:behind', behind}, {'news', first}}) do
        local name = prefix .. channel[1]
        local listeners = redis.pcall('PUBSUB', 'NUMSUB', name)
        if listeners.err or listeners[2] > tonumber(channel[2] or '0') then
            -- Whoever may not publish is still heard of by those who poll.
            redis.pcall('PUBLISH', name, news)
        end
    end
end
