-- What is submitted again and again, by the clock. `body` holds the definition and how it goes; `next_at` is
-- there to be found by.
CREATE TABLE schedule (
    name    TEXT PRIMARY KEY,
    next_at INTEGER,
    body    TEXT NOT NULL
) STRICT;
CREATE INDEX schedule_next ON schedule (next_at) WHERE next_at IS NOT NULL;

CREATE VIEW schedules AS
SELECT
    name,
    body ->> '$.spec.cron' AS cron,
    body ->> '$.spec.zone' AS zone,
    body ->> '$.spec.job.task' AS task,
    body ->> '$.spec.paused' AS paused,
    datetime(next_at / 1000000, 'unixepoch') AS next_at,
    datetime((body ->> '$.last_at') / 1000000, 'unixepoch') AS last_at,
    body ->> '$.last_job' AS last_job,
    body ->> '$.fired' AS fired,
    body ->> '$.last_error' AS last_error
FROM schedule;
