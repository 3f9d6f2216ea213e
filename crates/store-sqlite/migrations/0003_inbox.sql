-- Jobs that applications put down in their own transactions on this file; workers take them in once those have
-- committed. The smallest one, which answers the id of the job:
--
--     INSERT INTO inbox (body) VALUES ('{"task": "mail"}') RETURNING id;
--
-- `body` may hold any field of a job, for example
-- '{"task": "mail", "params": {"to": "me"}, "queue": "slow", "group": "g", "priority": 5}'. An "id" in it counts;
-- without one the job has the id of the row.
CREATE TABLE inbox (
    -- never used again, so that what was refused keeps its number
    n    INTEGER PRIMARY KEY AUTOINCREMENT,
    at   INTEGER NOT NULL DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER)),
    -- a UUID of version 7 in 32 hexadecimal digits: milliseconds, then chance
    id   TEXT    NOT NULL DEFAULT (
        printf('%012x', CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER))
        || '7' || substr(lower(hex(randomblob(2))), 2) || '8' || substr(lower(hex(randomblob(8))), 2)),
    body TEXT    NOT NULL CHECK (json_valid(body))
) STRICT;

-- Those that were refused, and why.
CREATE TABLE refused (
    n    INTEGER PRIMARY KEY,
    at   INTEGER NOT NULL,
    id   TEXT    NOT NULL,
    body TEXT    NOT NULL,
    why  TEXT    NOT NULL
) STRICT;
