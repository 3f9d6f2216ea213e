-- Carries out the next part of a large commit that is decided but not yet carried out. Anybody may do it, as
-- often as they like: a part is taken and carried out in one step.
-- KEYS: meta. Answers how many parts are left.

local pending = call('HGET', KEYS[1], 'pending')
if not pending then
    return 0
end
local staged = prefix .. 'staged:' .. pending
local part = call('LPOP', staged)
if part then
    carry_out(cmsgpack.unpack(part))
end
local left = call('LLEN', staged)
if left == 0 then
    call('HDEL', KEYS[1], 'pending')
    tell(call('HGET', KEYS[1], 'revision'))
end
return left
