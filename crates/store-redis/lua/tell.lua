-- Stands before the scripts that have news, behind carry_out.lua. Wakes the other daemons: those who wait for jobs before
-- those who only keep up, because the server writes to the channel that was published to last first.

local function tell(news)
    -- Whoever may not publish is still heard of by those who poll.
    redis.pcall('PUBLISH', prefix .. 'news:behind', news)
    redis.pcall('PUBLISH', prefix .. 'news', news)
end
