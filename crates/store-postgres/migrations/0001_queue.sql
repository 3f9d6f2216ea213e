-- The whole queue. Instants are microseconds since the Unix epoch, in UTC. For people there are the views
-- `jobs`, `events`, `groups`, `queues`, `services`, `schedules` and `uses`; the tables are narrow where they are hot.
-- The name of the schema stands for whatever schema was chosen. To change this, add the next numbered file:
-- a file that was released is never edited.
--
-- Nothing here is looked up through rows that were updated again and again. As long as some other session
-- holds a transaction open, the dead versions of a row cannot be removed; so what changes with every turn is
-- written as a new row under a new revision, and its predecessor is deleted by its exact key.

-- One row per turn. The newest is what holds; it is found from the right end of the index.
CREATE TABLE runcue.turn (
    revision          bigint PRIMARY KEY,
    -- Names the commit, so that whoever lost the reply can ask whether it went through.
    commit_id         uuid   NOT NULL,
    seq               bigint NOT NULL,
    served            bigint NOT NULL,
    event             bigint NOT NULL,
    delayed           bigint NOT NULL,
    blocked           bigint NOT NULL,
    last_served_group text,
    lane              bigint NOT NULL,
    log               bigint NOT NULL,
    -- Nothing in these lists is earlier: delayed jobs, leases, deadlines.
    first_delayed     bigint,
    first_lapsing     bigint,
    first_deadline    bigint,
    -- Lanes whose ready jobs have changed, and the best place at which one has become ready.
    touched           bigint[] NOT NULL,
    touched_rank      bigint[] NOT NULL,
    touched_seq       bigint[] NOT NULL,
    -- Jobs that came, changed or went: places from and to, both included, one pair after the other.
    changed           bigint[] NOT NULL
);
INSERT INTO runcue.turn VALUES
    (1, '00000000-0000-0000-0000-000000000000', 0, 0, 0, 0, 0, NULL, 0, 0, NULL, NULL, NULL, '{}', '{}', '{}', '{}');

-- What the board is made of, one row per thing and revision: 1 groups (the jobs without one under the empty
-- name), 2 queues, 3 services, 4 jobs held in a lane that uses services, 5 schedules (of those that are gone an
-- empty body), 6 when lanes or groups last went.
CREATE TABLE runcue.board (
    kind     smallint NOT NULL,
    name     text     NOT NULL,
    revision bigint   NOT NULL,
    body     text     NOT NULL,
    PRIMARY KEY (kind, name, revision)
);
CREATE INDEX board_revision ON runcue.board (revision);

CREATE TABLE runcue.lane (
    lane bigint PRIMARY KEY,
    key  text NOT NULL,
    queue text NOT NULL,
    grp  text NOT NULL,
    task text NOT NULL
);
-- A text of any length; that there is one lane of a kind is seen to by the turns.
CREATE INDEX lane_key ON runcue.lane USING hash (key);

-- What was asked for. Written once.
CREATE TABLE runcue.job (
    seq        bigint PRIMARY KEY,
    id         uuid   NOT NULL,
    lane       bigint NOT NULL,
    -- Minus the priority, so that smaller is sooner.
    rank       bigint NOT NULL,
    created_at bigint NOT NULL,
    spec       text   NOT NULL
);
CREATE UNIQUE INDEX job_id ON runcue.job (id);

-- Jobs that have not ended: what a claim, a heartbeat and a finish touch.
CREATE TABLE runcue.live (
    seq              bigint   PRIMARY KEY,
    lane             bigint   NOT NULL,
    rank             bigint   NOT NULL,
    -- 0 ready, 1 delayed, 2 waits for prerequisites, 3 leased, 4 running
    stage            smallint NOT NULL,
    -- delayed: when its time comes; leased and running: when the lease lapses
    due              bigint,
    deadline         bigint,
    prerequisites    integer  NOT NULL,
    attempt          integer  NOT NULL,
    earlier_attempts integer  NOT NULL,
    crashes          integer  NOT NULL,
    queued_at        bigint   NOT NULL,
    started_at       bigint,
    worker           uuid,
    token            bigint,
    start_by         bigint,
    -- 1 asked to stop, 2 others depend on it
    flags            smallint NOT NULL,
    -- what came of it so far: errors, progress
    outcome          text
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000,
        autovacuum_analyze_scale_factor = 0.2, autovacuum_analyze_threshold = 50000);
CREATE INDEX live_ready ON runcue.live (lane, rank, seq) WHERE stage = 0;
CREATE INDEX live_delayed ON runcue.live (due, seq) WHERE stage = 1;
CREATE INDEX live_held ON runcue.live (due, seq) WHERE stage > 2;
CREATE INDEX live_deadline ON runcue.live (deadline, seq) WHERE deadline IS NOT NULL;

-- Jobs that have ended: 5 completed, 6 failed, 7 cancelled, 8 quarantined.
CREATE TABLE runcue.done (
    seq              bigint   PRIMARY KEY,
    lane             bigint   NOT NULL,
    stage            smallint NOT NULL,
    ended_at         bigint   NOT NULL,
    attempt          integer  NOT NULL,
    earlier_attempts integer  NOT NULL,
    crashes          integer  NOT NULL,
    queued_at        bigint   NOT NULL,
    started_at       bigint,
    flags            smallint NOT NULL,
    outcome          text
);
CREATE INDEX done_ended ON runcue.done (stage, ended_at, seq);

CREATE TABLE runcue.idempotency (
    key bytea  PRIMARY KEY,
    seq bigint NOT NULL UNIQUE
);

CREATE TABLE runcue.tie (
    prerequisite bigint NOT NULL,
    dependent    bigint NOT NULL,
    PRIMARY KEY (prerequisite, dependent)
);
CREATE INDEX tie_dependent ON runcue.tie (dependent);

-- Uses of services, one row per instant of a turn: [[service, key, units], …].
CREATE TABLE runcue.usage_run (
    revision bigint  NOT NULL,
    at       bigint  NOT NULL,
    uses     integer NOT NULL,
    body     text    NOT NULL,
    PRIMARY KEY (revision, at)
);
CREATE INDEX usage_run_at ON runcue.usage_run (at);

-- Events in runs of consecutive numbers. What follows from the row (the number, the instant) is left out.
CREATE TABLE runcue.event (
    last  bigint PRIMARY KEY,
    first bigint NOT NULL,
    at    bigint NOT NULL,
    body  text   NOT NULL
);

CREATE TABLE runcue.log (
    n       bigint  PRIMARY KEY,
    seq     bigint  NOT NULL,
    attempt integer NOT NULL,
    token   bigint  NOT NULL,
    stream  text    NOT NULL,
    at      bigint  NOT NULL,
    text    text    NOT NULL
);
CREATE INDEX log_seq ON runcue.log (seq, n);

CREATE TABLE runcue.task (
    name text PRIMARY KEY,
    spec text NOT NULL
);

CREATE TABLE runcue.worker (
    id         uuid PRIMARY KEY,
    spec       text   NOT NULL,
    started_at bigint NOT NULL,
    seen_at    bigint NOT NULL
);

-- Jobs that applications have put down in their own transactions; daemons take them in.
CREATE TABLE runcue.inbox (
    n    bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    body text NOT NULL
);
-- Those that were refused, and why.
CREATE TABLE runcue.refused (
    n    bigint PRIMARY KEY,
    at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    body text NOT NULL,
    why  text NOT NULL
);

-- The server's clock.
CREATE FUNCTION runcue.now_micros() RETURNS bigint LANGUAGE sql VOLATILE AS
$$ SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint $$;

-- How transactions of a turn run. Whoever is silent in its turn loses it. Rows are found by their keys, however
-- few or many the planner believes there are.
CREATE FUNCTION runcue.settings() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('idle_in_transaction_session_timeout', '2000', true),
            set_config('lock_timeout', '8000', true), set_config('enable_seqscan', 'off', true),
            set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true);
END $$;

-- Takes the queue's turn until the end of the transaction. Those who wait get it in the order they came.
CREATE FUNCTION runcue.take_turn() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM runcue.settings();
    PERFORM pg_advisory_xact_lock(hashtextextended('runcue.', 0));
END $$;

-- The turn outlasts the transaction. The next one must begin in the same message: a session that is silent
-- outside of a transaction would keep the turn for ever.
CREATE FUNCTION runcue.keep_turn() RETURNS void LANGUAGE sql VOLATILE AS
$$ SELECT pg_advisory_lock(hashtextextended('runcue.', 0)) $$;

-- And ends with the transaction that is under way, or at once.
CREATE FUNCTION runcue.end_turn() RETURNS boolean LANGUAGE sql VOLATILE AS
$$ SELECT pg_advisory_unlock(hashtextextended('runcue.', 0)) $$;

-- The same, if a revision is the latest; else an error.
CREATE FUNCTION runcue.follow(p_follows bigint) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
    PERFORM runcue.take_turn();
    IF (SELECT max(revision) FROM runcue.turn) <> p_follows THEN
        RAISE EXCEPTION 'somebody else has written' USING ERRCODE = 'RC001';
    END IF;
    RETURN runcue.now_micros();
END $$;

-- Whether a commit that was to follow a revision went through: 1 yes, 0 no and it never will, 2 too long ago
-- to tell.
CREATE FUNCTION runcue.settle(p_commit uuid, p_follows bigint) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    there uuid;
    latest bigint;
BEGIN
    PERFORM runcue.take_turn();
    SELECT commit_id INTO there FROM runcue.turn WHERE revision = p_follows + 1;
    IF there = p_commit THEN
        RETURN 1;
    ELSIF there IS NOT NULL THEN
        RETURN 0;
    END IF;
    SELECT max(revision) INTO latest FROM runcue.turn;
    IF latest > p_follows THEN
        RETURN 2;
    END IF;
    INSERT INTO runcue.turn
    SELECT revision + 1, '00000000-0000-0000-0000-000000000000', seq, served, event, delayed, blocked,
           last_served_group, lane, log, first_delayed, first_lapsing, first_deadline, '{}', '{}', '{}', '{}'
    FROM runcue.turn WHERE revision = latest;
    RETURN 0;
END $$;

-- Jobs of a turn. May be called several times in one.
CREATE FUNCTION runcue.write_jobs(
    gone_jobs bigint[], gone_live bigint[], gone_done bigint[],
    n_seq bigint[], n_id uuid[], n_lane bigint[], n_rank bigint[], n_created_at bigint[], n_spec text[],
    l_new boolean[], l_seq bigint[], l_lane bigint[], l_rank bigint[], l_stage smallint[], l_due bigint[],
    l_deadline bigint[], l_prerequisites integer[], l_attempt integer[], l_earlier integer[], l_crashes integer[],
    l_queued_at bigint[], l_started_at bigint[], l_worker uuid[], l_token bigint[], l_start_by bigint[],
    l_flags smallint[], l_outcome text[],
    d_seq bigint[], d_lane bigint[], d_stage smallint[], d_ended_at bigint[], d_attempt integer[],
    d_earlier integer[], d_crashes integer[], d_queued_at bigint[], d_started_at bigint[], d_flags smallint[],
    d_outcome text[]
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF cardinality(gone_jobs) > 0 THEN
        DELETE FROM runcue.job USING unnest(gone_jobs) AS gone (seq) WHERE job.seq = gone.seq;
        DELETE FROM runcue.log USING unnest(gone_jobs) AS gone (seq) WHERE log.seq = gone.seq;
        DELETE FROM runcue.tie USING unnest(gone_jobs) AS gone (seq) WHERE tie.prerequisite = gone.seq;
        DELETE FROM runcue.tie USING unnest(gone_jobs) AS gone (seq) WHERE tie.dependent = gone.seq;
        DELETE FROM runcue.idempotency USING unnest(gone_jobs) AS gone (seq) WHERE idempotency.seq = gone.seq;
    END IF;
    IF cardinality(gone_live) > 0 THEN
        DELETE FROM runcue.live USING unnest(gone_live) AS gone (seq) WHERE live.seq = gone.seq;
    END IF;
    IF cardinality(gone_done) > 0 THEN
        DELETE FROM runcue.done USING unnest(gone_done) AS gone (seq) WHERE done.seq = gone.seq;
    END IF;
    IF cardinality(n_seq) > 0 THEN
        INSERT INTO runcue.job (seq, id, lane, rank, created_at, spec)
        SELECT * FROM unnest(n_seq, n_id, n_lane, n_rank, n_created_at, n_spec);
    END IF;
    IF true = ANY (l_new) THEN
        INSERT INTO runcue.live (seq, lane, rank, stage, due, deadline, prerequisites, attempt, earlier_attempts,
            crashes, queued_at, started_at, worker, token, start_by, flags, outcome)
        SELECT seq, lane, rank, stage, due, deadline, prerequisites, attempt, earlier, crashes, queued_at,
               started_at, worker, token, start_by, flags, outcome
        FROM unnest(l_new, l_seq, l_lane, l_rank, l_stage, l_due, l_deadline, l_prerequisites, l_attempt, l_earlier,
                    l_crashes, l_queued_at, l_started_at, l_worker, l_token, l_start_by, l_flags, l_outcome)
            AS given (is_new, seq, lane, rank, stage, due, deadline, prerequisites, attempt, earlier, crashes,
                    queued_at, started_at, worker, token, start_by, flags, outcome)
        WHERE is_new;
    END IF;
    IF false = ANY (l_new) THEN
        UPDATE runcue.live SET stage = given.stage, due = given.due, deadline = given.deadline,
            prerequisites = given.prerequisites, attempt = given.attempt, earlier_attempts = given.earlier,
            crashes = given.crashes, queued_at = given.queued_at, started_at = given.started_at, worker = given.worker,
            token = given.token, start_by = given.start_by, flags = given.flags, outcome = given.outcome
        FROM unnest(l_new, l_seq, l_stage, l_due, l_deadline, l_prerequisites, l_attempt, l_earlier,
                    l_crashes, l_queued_at, l_started_at, l_worker, l_token, l_start_by, l_flags, l_outcome)
            AS given (is_new, seq, stage, due, deadline, prerequisites, attempt, earlier, crashes,
                    queued_at, started_at, worker, token, start_by, flags, outcome)
        WHERE NOT given.is_new AND live.seq = given.seq;
    END IF;
    IF cardinality(d_seq) > 0 THEN
        INSERT INTO runcue.done (seq, lane, stage, ended_at, attempt, earlier_attempts, crashes, queued_at,
            started_at, flags, outcome)
        SELECT * FROM unnest(d_seq, d_lane, d_stage, d_ended_at, d_attempt, d_earlier, d_crashes, d_queued_at,
                             d_started_at, d_flags, d_outcome);
    END IF;
END $$;

-- Everything else of a turn, and the turn itself. Answers the server's clock.
CREATE FUNCTION runcue.write_turn(
    p_follows bigint, p_commit uuid, p_numbers bigint[], p_last_served_group text,
    t_lane bigint[], t_rank bigint[], t_seq bigint[], p_changed bigint[],
    b_kind smallint[], b_name text[], b_body text[],
    dropped_keys bigint[], dropped_lanes bigint[], dropped_groups text[], k_key bytea[], k_seq bigint[],
    tie_prerequisite bigint[], tie_dependent bigint[],
    lane_lane bigint[], lane_key text[], lane_queue text[], lane_grp text[], lane_task text[],
    u_at bigint[], u_uses integer[], u_body text[], prune_usage bigint,
    e_last bigint[], e_first bigint[], e_at bigint[], e_body text[], prune_before bigint, prune_through bigint,
    g_n bigint[], g_seq bigint[], g_attempt integer[], g_token bigint[], g_stream text[], g_at bigint[], g_text text[],
    task_name text[], task_spec text[],
    w_id uuid[], w_spec text[], w_at bigint[], w_gone uuid[], w_seen uuid[], w_seen_at bigint[],
    admitted bigint[], refused_n bigint[], refused_why text[],
    p_news boolean
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    mine bigint := p_follows + 1;
BEGIN
    IF cardinality(dropped_lanes) > 0 THEN
        DELETE FROM runcue.lane WHERE lane = ANY (dropped_lanes);
        DELETE FROM runcue.board WHERE kind = 4 AND name = ANY (dropped_lanes::text[]);
    END IF;
    IF cardinality(dropped_groups) > 0 THEN
        DELETE FROM runcue.board WHERE kind = 1 AND name = ANY (dropped_groups);
    END IF;
    IF cardinality(b_kind) > 0 THEN
        DELETE FROM runcue.board USING (
            SELECT given.kind, given.name, (SELECT max(old.revision) FROM runcue.board AS old
                                        WHERE old.kind = given.kind AND old.name = given.name) AS revision
            FROM unnest(b_kind, b_name) AS given (kind, name)) AS old
        WHERE board.kind = old.kind AND board.name = old.name AND board.revision = old.revision;
        INSERT INTO runcue.board (kind, name, revision, body)
        SELECT given.kind, given.name, mine, given.body FROM unnest(b_kind, b_name, b_body) AS given (kind, name, body);
    END IF;
    IF cardinality(dropped_keys) > 0 THEN
        DELETE FROM runcue.idempotency USING unnest(dropped_keys) AS gone (seq) WHERE idempotency.seq = gone.seq;
    END IF;
    IF cardinality(k_key) > 0 THEN
        INSERT INTO runcue.idempotency (key, seq) SELECT * FROM unnest(k_key, k_seq);
    END IF;
    IF cardinality(tie_prerequisite) > 0 THEN
        INSERT INTO runcue.tie SELECT * FROM unnest(tie_prerequisite, tie_dependent) ON CONFLICT DO NOTHING;
    END IF;
    IF cardinality(lane_lane) > 0 THEN
        INSERT INTO runcue.lane (lane, key, queue, grp, task)
        SELECT * FROM unnest(lane_lane, lane_key, lane_queue, lane_grp, lane_task);
    END IF;
    IF prune_usage IS NOT NULL THEN
        DELETE FROM runcue.usage_run WHERE at < prune_usage;
    END IF;
    IF cardinality(u_at) > 0 THEN
        INSERT INTO runcue.usage_run (revision, at, uses, body)
        SELECT mine, given.at, given.uses, given.body FROM unnest(u_at, u_uses, u_body) AS given (at, uses, body);
    END IF;
    IF prune_through IS NOT NULL THEN
        DELETE FROM runcue.event WHERE at < prune_before OR last <= prune_through;
        -- Kept as long as events are: there is no other word of them.
        DELETE FROM runcue.refused WHERE at < runcue.instant(prune_before);
    END IF;
    IF cardinality(e_last) > 0 THEN
        INSERT INTO runcue.event (last, first, at, body) SELECT * FROM unnest(e_last, e_first, e_at, e_body);
    END IF;
    IF cardinality(g_n) > 0 THEN
        INSERT INTO runcue.log (n, seq, attempt, token, stream, at, text)
        SELECT * FROM unnest(g_n, g_seq, g_attempt, g_token, g_stream, g_at, g_text);
        -- No more than so much is kept of a job; the oldest goes first, the latest chunk always stays.
        DELETE FROM runcue.log USING (
            SELECT n, sum(octet_length(text)) OVER latest_first AS kept, row_number() OVER latest_first AS place
            FROM runcue.log WHERE seq = ANY (g_seq)
            WINDOW latest_first AS (PARTITION BY seq ORDER BY n DESC)) AS old
        WHERE log.n = old.n AND old.kept > 262144 AND old.place > 1;
    END IF;
    IF cardinality(task_name) > 0 THEN
        INSERT INTO runcue.task (name, spec) SELECT * FROM unnest(task_name, task_spec)
        ON CONFLICT (name) DO UPDATE SET spec = excluded.spec;
    END IF;
    IF cardinality(w_gone) > 0 THEN
        DELETE FROM runcue.worker WHERE id = ANY (w_gone);
    END IF;
    IF cardinality(w_id) > 0 THEN
        INSERT INTO runcue.worker (id, spec, started_at, seen_at)
        SELECT given.id, given.spec, given.at, given.at FROM unnest(w_id, w_spec, w_at) AS given (id, spec, at)
        ON CONFLICT (id) DO UPDATE SET spec = excluded.spec, seen_at = excluded.seen_at;
    END IF;
    IF cardinality(w_seen) > 0 THEN
        UPDATE runcue.worker SET seen_at = given.at FROM unnest(w_seen, w_seen_at) AS given (id, at)
        WHERE worker.id = given.id;
    END IF;
    IF cardinality(refused_n) > 0 THEN
        INSERT INTO runcue.refused (n, at, body, why)
        SELECT inbox.n, inbox.at, inbox.body, given.why FROM runcue.inbox
        JOIN unnest(refused_n, refused_why) AS given (n, why) ON given.n = inbox.n;
        DELETE FROM runcue.inbox WHERE n = ANY (refused_n);
    END IF;
    IF cardinality(admitted) > 0 THEN
        DELETE FROM runcue.inbox WHERE n = ANY (admitted);
    END IF;
    INSERT INTO runcue.turn VALUES (mine, p_commit, p_numbers[1], p_numbers[2], p_numbers[3], p_numbers[4],
        p_numbers[5], p_last_served_group, p_numbers[6], p_numbers[7], p_numbers[8], p_numbers[9], p_numbers[10],
        t_lane, t_rank, t_seq, p_changed);
    -- Those who lag further behind than this read everything anew.
    DELETE FROM runcue.turn WHERE revision = mine - 20000;
    IF p_news THEN
        PERFORM pg_notify('runcue.', mine::text);
    END IF;
    RETURN runcue.now_micros();
END $$;

-- Puts a job down in the caller's own transaction, and answers its id. It takes part in the queue once that
-- has committed. `options` may hold any other field of a job, for example
-- '{"services": [{"service": "api", "units": 1}], "timeout": 60}'.
CREATE FUNCTION runcue.enqueue(
    task            text,
    params          jsonb       DEFAULT '{}',
    queue           text        DEFAULT NULL,
    "group"         text        DEFAULT NULL,
    priority        integer     DEFAULT NULL,
    run_at          timestamptz DEFAULT NULL,
    idempotency_key text        DEFAULT NULL,
    options         jsonb       DEFAULT '{}',
    id              uuid        DEFAULT NULL
) RETURNS uuid LANGUAGE plpgsql AS $$
DECLARE
    millis bigint := (extract(epoch FROM clock_timestamp()) * 1000)::bigint;
    random text := replace(gen_random_uuid()::text, '-', '');
    job uuid := coalesce(id, (lpad(to_hex(millis), 12, '0') || '7' || substr(random, 14))::uuid);
BEGIN
    INSERT INTO runcue.inbox (body) VALUES ((options || jsonb_strip_nulls(jsonb_build_object(
        'id', replace(job::text, '-', ''), 'task', task, 'queue', queue, 'group', "group", 'priority', priority,
        'run_at', (extract(epoch FROM run_at) * 1000000)::bigint, 'idempotency_key', idempotency_key))
        || jsonb_build_object('params', params))::text);
    PERFORM pg_notify('runcue.', 'inbox');
    RETURN job;
END $$;

CREATE FUNCTION runcue.instant(micros bigint) RETURNS timestamptz LANGUAGE sql IMMUTABLE AS
$$ SELECT to_timestamp(micros / 1000000.0) $$;

CREATE VIEW runcue.jobs AS
SELECT
    job.id,
    CASE coalesce(live.stage, done.stage) WHEN 3 THEN 'leased' WHEN 4 THEN 'running' WHEN 5 THEN 'completed'
        WHEN 6 THEN 'failed' WHEN 7 THEN 'cancelled' WHEN 8 THEN 'quarantined' ELSE 'queued' END AS state,
    CASE live.stage WHEN 0 THEN 'its turn' WHEN 1 THEN 'until ' || runcue.instant(live.due)
        WHEN 2 THEN live.prerequisites || ' prerequisites' END AS waits_for,
    lane.task,
    nullif(lane.grp, '') AS "group",
    lane.queue,
    -job.rank AS priority,
    coalesce(live.attempt, done.attempt) AS attempt,
    job.spec::json ->> 'target' AS target,
    job.spec::json -> 'params' AS params,
    runcue.instant(job.created_at) AS created_at,
    runcue.instant(coalesce(live.started_at, done.started_at)) AS started_at,
    runcue.instant(done.ended_at) AS finished_at,
    CASE WHEN live.stage > 2 THEN runcue.instant(live.due) END AS lease_expires_at,
    CASE WHEN live.stage > 2 THEN live.worker END AS leased_by,
    coalesce(live.outcome, done.outcome)::json ->> 'last_error' AS last_error,
    coalesce(live.outcome, done.outcome)::json -> 'result' AS result,
    job.seq
FROM runcue.job
JOIN runcue.lane USING (lane)
LEFT JOIN runcue.live ON live.seq = job.seq
LEFT JOIN runcue.done ON done.seq = job.seq;

CREATE VIEW runcue.events AS
SELECT
    event.first + one.place - 1 AS seq,
    runcue.instant(coalesce((one.value ->> 'at')::bigint, event.at)) AS at,
    one.value ->> 'type' AS type,
    one.value ->> 'job' AS job,
    one.value ->> 'task' AS task,
    one.value ->> 'error' AS error,
    one.value AS body
FROM runcue.event, json_array_elements(event.body::json) WITH ORDINALITY AS one (value, place);

CREATE VIEW runcue.groups AS
SELECT nullif(name, '') AS "group", body::json ->> 'paused' AS paused, body::json -> 'counts' AS counts
FROM runcue.board WHERE kind = 1;

CREATE VIEW runcue.queues AS
SELECT name AS queue, body::json ->> 'paused' AS paused, (body::json ->> 'queued')::bigint AS queued,
       (body::json ->> 'max_queued')::bigint AS max_queued
FROM runcue.board WHERE kind = 2;

CREATE VIEW runcue.services AS
SELECT name AS service, body::json -> 'spec' AS spec, body::json -> 'breaker' AS breaker
FROM runcue.board WHERE kind = 3;

CREATE VIEW runcue.schedules AS
SELECT name AS schedule, body::json -> 'spec' ->> 'cron' AS cron, body::json -> 'spec' ->> 'zone' AS zone,
       runcue.instant((body::json ->> 'next_at')::bigint) AS next_at, body::json -> 'spec' AS spec
FROM runcue.board WHERE kind = 5 AND body <> '';

CREATE VIEW runcue.uses AS
SELECT one.value ->> 0 AS service, one.value ->> 1 AS key, runcue.instant(usage_run.at) AS at,
       (one.value ->> 2)::bigint AS units
FROM runcue.usage_run, json_array_elements(usage_run.body::json) AS one;
