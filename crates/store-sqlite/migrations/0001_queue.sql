-- The whole queue. Instants are microseconds since the Unix epoch, in UTC. For people there is the view
-- `jobs`; the tables are narrow where they are hot. To change this schema, add the next numbered file:
-- a file that was released is never edited.

-- What a claim, a heartbeat and a finish touch.
CREATE TABLE job (
    seq              INTEGER PRIMARY KEY,
    id               BLOB    NOT NULL UNIQUE,
    lane             INTEGER NOT NULL,
    priority         INTEGER NOT NULL,
    -- 0 ready, 1 delayed, 2 waits for prerequisites, 3 leased, 4 running,
    -- 5 completed, 6 failed, 7 cancelled, 8 quarantined
    stage            INTEGER NOT NULL,
    -- delayed: when its time comes; leased and running: when the lease lapses; then: when it finished
    due              INTEGER,
    prerequisites    INTEGER NOT NULL DEFAULT 0,
    deadline         INTEGER,
    attempt          INTEGER NOT NULL DEFAULT 0,
    earlier_attempts INTEGER NOT NULL DEFAULT 0,
    crashes          INTEGER NOT NULL DEFAULT 0,
    created_at       INTEGER NOT NULL,
    queued_at        INTEGER NOT NULL,
    started_at       INTEGER,
    -- before the first claim as many bytes as a claim adds to the row, so that it grows no page beyond its size
    worker           BLOB,
    token            INTEGER,
    start_by         INTEGER,
    cancel_requested INTEGER NOT NULL DEFAULT 0,
    has_dependents   INTEGER NOT NULL DEFAULT 0,
    has_outcome      INTEGER NOT NULL DEFAULT 0,
    units            TEXT
) STRICT;

CREATE INDEX job_due ON job (stage, due) WHERE due IS NOT NULL;
CREATE INDEX job_deadline ON job (deadline) WHERE deadline IS NOT NULL;

-- The places of ready jobs. A claim leaves a place where it is, so that it need not write a page for every
-- lane it takes from; whoever looks for the lane's next jobs clears the places of jobs that are not ready.
CREATE TABLE ready (
    lane     INTEGER NOT NULL,
    priority INTEGER NOT NULL,
    seq      INTEGER NOT NULL,
    PRIMARY KEY (lane, priority DESC, seq)
) STRICT, WITHOUT ROWID;

-- What was asked for, read once per attempt: what is the job's own in columns, all else in `spec`, where it tends
-- to be the same text in many jobs. Params come last: they may be large, and are nothing when empty.
CREATE TABLE body (
    seq    INTEGER PRIMARY KEY,
    spec   TEXT NOT NULL,
    target TEXT,
    params TEXT
) STRICT;

-- What came of it, if there is anything to say.
CREATE TABLE outcome (
    seq        INTEGER PRIMARY KEY,
    last_error TEXT,
    failures   TEXT,
    result     TEXT,
    result_key TEXT,
    progress   TEXT
) STRICT;

CREATE TABLE idempotency (
    key TEXT PRIMARY KEY,
    seq INTEGER NOT NULL UNIQUE
) STRICT, WITHOUT ROWID;

CREATE TABLE tie (
    prerequisite INTEGER NOT NULL,
    dependent    INTEGER NOT NULL,
    PRIMARY KEY (prerequisite, dependent)
) STRICT, WITHOUT ROWID;
CREATE INDEX tie_dependent ON tie (dependent);

-- `stamp` is the revision of the last change that other processes must know of.
CREATE TABLE lane (
    lane  INTEGER PRIMARY KEY,
    key   TEXT    NOT NULL UNIQUE,
    queue TEXT    NOT NULL,
    grp   TEXT    NOT NULL,
    task  TEXT    NOT NULL,
    stamp INTEGER NOT NULL
) STRICT;
CREATE INDEX lane_stamp ON lane (stamp);

-- The jobs without a group are counted under the empty name.
CREATE TABLE grp (
    name        TEXT    PRIMARY KEY,
    paused      INTEGER NOT NULL,
    turn        INTEGER NOT NULL,
    queued      INTEGER NOT NULL,
    leased      INTEGER NOT NULL,
    running     INTEGER NOT NULL,
    completed   INTEGER NOT NULL,
    failed      INTEGER NOT NULL,
    cancelled   INTEGER NOT NULL,
    quarantined INTEGER NOT NULL,
    stamp       INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE queue (
    name       TEXT PRIMARY KEY,
    max_queued INTEGER,
    on_full    TEXT    NOT NULL,
    paused     INTEGER NOT NULL,
    queued     INTEGER NOT NULL,
    stamp      INTEGER NOT NULL
) STRICT;

CREATE TABLE service (
    name       TEXT PRIMARY KEY,
    spec       TEXT    NOT NULL,
    breaker    TEXT    NOT NULL,
    held_until INTEGER NOT NULL,
    stamp      INTEGER NOT NULL
) STRICT;

-- Uses of services, one row per instant of a transaction: [[service, key, units], …]. The view `usage` has
-- one row each.
CREATE TABLE usage_run (
    -- made from the revision, so never used again: others can tell what they have not seen from what they have
    id   INTEGER PRIMARY KEY,
    at   INTEGER NOT NULL,
    body TEXT    NOT NULL
) STRICT;

-- what fronts keep with the queue, such as tokens; the key is the kind, a line break, the name
CREATE TABLE record (
    key  TEXT PRIMARY KEY,
    body TEXT NOT NULL
) STRICT;

CREATE TABLE task (
    name TEXT PRIMARY KEY,
    spec TEXT NOT NULL
) STRICT;

CREATE TABLE worker (
    id         BLOB PRIMARY KEY,
    spec       TEXT    NOT NULL,
    host       TEXT    NOT NULL,
    started_at INTEGER NOT NULL,
    seen_at    INTEGER NOT NULL
) STRICT;

-- Events in runs of consecutive numbers, one row per transaction: `shared` has the fields that all of them have in
-- common, `body` a list with the others of each. What follows from the row (the number, the instant) is left out.
-- The view `events` has one row each.
CREATE TABLE event (
    last   INTEGER PRIMARY KEY,
    first  INTEGER NOT NULL,
    at     INTEGER NOT NULL,
    shared TEXT    NOT NULL,
    body   TEXT    NOT NULL
) STRICT;

CREATE TABLE log (
    n       INTEGER PRIMARY KEY,
    seq     INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    token   INTEGER NOT NULL,
    stream  TEXT    NOT NULL,
    at      INTEGER NOT NULL,
    text    TEXT    NOT NULL
) STRICT;
CREATE INDEX log_seq ON log (seq, n);

CREATE TABLE meta (
    one               INTEGER PRIMARY KEY CHECK (one = 1),
    revision          INTEGER NOT NULL,
    seq               INTEGER NOT NULL,
    served            INTEGER NOT NULL,
    event             INTEGER NOT NULL,
    delayed           INTEGER NOT NULL,
    blocked           INTEGER NOT NULL,
    last_served_group TEXT,
    -- the revision at which lanes or groups were last deleted: whoever knew them must look again
    lanes_pruned      INTEGER NOT NULL
) STRICT;
INSERT INTO meta VALUES (1, 1, 0, 0, 0, 0, 0, NULL, 0);

CREATE VIEW jobs AS
SELECT
    lower(hex(job.id)) AS id,
    CASE job.stage WHEN 3 THEN 'leased' WHEN 4 THEN 'running' WHEN 5 THEN 'completed' WHEN 6 THEN 'failed'
        WHEN 7 THEN 'cancelled' WHEN 8 THEN 'quarantined' ELSE 'queued' END AS state,
    CASE job.stage WHEN 0 THEN 'its turn' WHEN 1 THEN 'until ' || datetime(job.due / 1000000, 'unixepoch')
        WHEN 2 THEN job.prerequisites || ' prerequisites' END AS waits_for,
    lane.task,
    nullif(lane.grp, '') AS "group",
    lane.queue,
    job.priority,
    job.attempt,
    body.target,
    coalesce(body.params, '{}') AS params,
    datetime(job.created_at / 1000000, 'unixepoch') AS created_at,
    datetime(job.started_at / 1000000, 'unixepoch') AS started_at,
    CASE WHEN job.stage > 4 THEN datetime(job.due / 1000000, 'unixepoch') END AS finished_at,
    CASE WHEN job.stage IN (3, 4) THEN datetime(job.due / 1000000, 'unixepoch') END AS lease_expires_at,
    CASE length(job.worker) WHEN 16 THEN lower(hex(job.worker)) END AS leased_by,
    outcome.last_error,
    outcome.result,
    job.seq
FROM job
JOIN lane USING (lane)
JOIN body ON body.seq = job.seq
LEFT JOIN outcome ON outcome.seq = job.seq;

CREATE VIEW events AS
SELECT
    event.first + one.key AS seq,
    datetime(coalesce(one.value ->> 'at', event.at) / 1000000, 'unixepoch') AS at,
    coalesce(one.value ->> 'at', event.at) AS at_micros,
    coalesce(one.value ->> 'type', event.shared ->> 'type') AS type,
    one.value ->> 'job' AS job,
    coalesce(one.value ->> 'task', event.shared ->> 'task') AS task,
    one.value ->> 'error' AS error,
    json_patch(event.shared, one.value) AS body
FROM event, json_each(event.body) AS one;

CREATE VIEW usage AS
SELECT
    usage_run.id,
    one.value ->> 0 AS service,
    one.value ->> 1 AS key,
    usage_run.at,
    one.value ->> 2 AS units
FROM usage_run, json_each(usage_run.body) AS one;

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
