-- Many jobs that are submitted together to one lane are found by the run, instead of each by a row of its own with two entries
-- of indexes. Nothing is moved: jobs that are in the queue keep the rows they have.

-- Nobody is in the middle of a turn.
SELECT runcue.take_turn();

-- Ready jobs to which nothing has happened since they were submitted. That is so of every job that is neither in `live` nor in
-- `done` nor in a run of leases; here it is found by its lane. Runs of a lane and priority do not overlap: what is submitted
-- later has later places.
CREATE TABLE runcue.ready_run (
    -- The last of its jobs, which is in no other run.
    last  bigint   PRIMARY KEY,
    -- No job of it stands before this one.
    first bigint   NOT NULL,
    lane  bigint   NOT NULL,
    rank  bigint   NOT NULL,
    -- So many jobs are gone from its beginning. What goes from elsewhere is left out of a run that is written anew.
    taken integer  NOT NULL,
    seqs  bigint[] NOT NULL CHECK (cardinality(seqs) <= 64)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.1, autovacuum_vacuum_threshold = 500);
CREATE INDEX ready_run_place ON runcue.ready_run (lane, rank, last);

-- The jobs that are found in runs.
CREATE VIEW runcue.waiting AS
SELECT unnest(seqs[taken + 1 :]) AS seq, lane, rank, 0::smallint AS stage FROM runcue.ready_run;

CREATE OR REPLACE VIEW runcue.jobs AS
SELECT
    job.id,
    CASE coalesce(live.stage, done.stage, held.stage) WHEN 3 THEN 'leased' WHEN 4 THEN 'running' WHEN 5 THEN 'completed'
        WHEN 6 THEN 'failed' WHEN 7 THEN 'cancelled' WHEN 8 THEN 'quarantined' ELSE 'queued' END AS state,
    CASE coalesce(live.stage, done.stage, held.stage, 0) WHEN 0 THEN 'its turn' WHEN 1 THEN 'until ' || runcue.instant(live.due)
        WHEN 2 THEN live.prerequisites || ' prerequisites' END AS waits_for,
    lane.task,
    nullif(lane.grp, '') AS "group",
    lane.queue,
    -job.rank AS priority,
    coalesce(live.attempt, done.attempt, held.attempt, 0) AS attempt,
    job.spec::json ->> 'target' AS target,
    job.spec::json -> 'params' AS params,
    runcue.instant(job.created_at) AS created_at,
    runcue.instant(coalesce(live.started_at, done.started_at, held.started_at)) AS started_at,
    runcue.instant(done.ended_at) AS finished_at,
    CASE WHEN live.stage > 2 THEN runcue.instant(live.due) ELSE runcue.instant(held.due) END AS lease_expires_at,
    CASE WHEN live.stage > 2 THEN live.worker ELSE held.worker END AS leased_by,
    coalesce(live.outcome, done.outcome)::json ->> 'last_error' AS last_error,
    coalesce(live.outcome, done.outcome)::json -> 'result' AS result,
    job.seq
FROM runcue.job
JOIN runcue.lane USING (lane)
LEFT JOIN runcue.live ON live.seq = job.seq
LEFT JOIN runcue.done ON done.seq = job.seq
LEFT JOIN LATERAL (
    SELECT * FROM runcue.lease_run AS run
    WHERE live.seq IS NULL AND done.seq IS NULL AND run.span @> job.seq AND job.seq = ANY (run.seqs)
    ORDER BY run.token DESC LIMIT 1) AS held ON true;

-- What has changed since a revision, or everything: as before, with the lanes that have ready jobs in runs.
CREATE OR REPLACE FUNCTION runcue.opening(p_known bigint) RETURNS TABLE
    (kind smallint, name text, body text, numbers bigint[], held bigint[], held_jobs integer[])
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    summed_up bigint;
BEGIN
    RETURN QUERY SELECT 0::smallint, last_served_group, NULL::text,
        ARRAY[revision, runcue.now_micros(), seq, served, event, delayed, blocked, lane, log,
              first_delayed, first_lapsing, first_deadline,
              (p_known = 0 OR EXISTS (SELECT 1 FROM runcue.turn AS known WHERE known.revision = p_known))::int],
        NULL::bigint[], NULL::integer[]
    FROM runcue.turn ORDER BY revision DESC LIMIT 1;
    IF p_known = 0 THEN
        SELECT coalesce(max(board.revision), 0) INTO summed_up FROM runcue.board WHERE board.kind = 4;
        RETURN QUERY SELECT board.kind, board.name, board.body, NULL::bigint[], NULL::bigint[], NULL::integer[]
        FROM runcue.board ORDER BY board.kind, board.name;
        RETURN QUERY SELECT 10::smallint, NULL::text, lane.key, ARRAY[lane.lane, NULL, NULL], NULL::bigint[], NULL::integer[]
        FROM runcue.lane WHERE EXISTS (SELECT 1 FROM runcue.live WHERE live.stage = 0 AND live.lane = lane.lane)
            OR EXISTS (SELECT 1 FROM runcue.ready_run WHERE ready_run.lane = lane.lane);
        RETURN QUERY SELECT 12::smallint, NULL::text, NULL::text, '{}'::bigint[], turn.held, turn.held_jobs
        FROM runcue.turn WHERE turn.revision > summed_up AND turn.held <> '{}' ORDER BY turn.revision;
        RETURN;
    END IF;
    RETURN QUERY SELECT board.kind, board.name, board.body, NULL::bigint[], NULL::bigint[], NULL::integer[]
    FROM runcue.board WHERE board.revision > p_known ORDER BY board.kind, board.name;
    RETURN QUERY SELECT 10::smallint, NULL::text, lane.key, ARRAY[lane.lane, touched.best[1], touched.best[2]],
        NULL::bigint[], NULL::integer[]
    FROM (SELECT one.lane, min(ARRAY[one.rank, one.seq]) FILTER (WHERE one.rank IS NOT NULL) AS best
          FROM runcue.turn, unnest(turn.touched, turn.touched_rank, turn.touched_seq) AS one (lane, rank, seq)
          WHERE turn.revision > p_known GROUP BY one.lane) AS touched
    JOIN runcue.lane ON lane.lane = touched.lane;
    RETURN QUERY SELECT 11::smallint, NULL::text, usage_run.body, ARRAY[usage_run.at], NULL::bigint[], NULL::integer[]
    FROM runcue.usage_run WHERE usage_run.revision > p_known ORDER BY usage_run.at;
    RETURN QUERY SELECT 12::smallint, NULL::text, NULL::text, turn.changed, turn.held, turn.held_jobs
    FROM runcue.turn WHERE turn.revision > p_known ORDER BY turn.revision;
END $$;

-- Takes jobs that were ready out of their runs: those of each lane and priority, in order, from `at` on in `q_seqs`. Answers how
-- many were found there.
CREATE FUNCTION runcue.take_ready(
    q_lane bigint[], q_rank bigint[], q_at integer[], q_jobs integer[], q_seqs bigint[]
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    took   bigint := 0;
    low    bigint;
    high   bigint;
    till   bigint;
    begins bigint;
    wanted bigint[];
    there  bigint[];
    more   bigint;
BEGIN
    FOR n IN 1 .. cardinality(q_lane) LOOP
        wanted := q_seqs[q_at[n] : q_at[n] + q_jobs[n] - 1];
        low := wanted[1];
        high := wanted[q_jobs[n]];
        -- The run that the last of them is in, if it is in one.
        SELECT last INTO till FROM runcue.ready_run
        WHERE lane = q_lane[n] AND rank = q_rank[n] AND last >= high ORDER BY last LIMIT 1;
        till := coalesce(till, high);
        SELECT array_agg(one.seq ORDER BY one.seq) FILTER (WHERE one.seq BETWEEN low AND high), min(one.seq)
        INTO there, begins
        FROM (SELECT unnest(seqs[taken + 1 :]) AS seq FROM runcue.ready_run
              WHERE lane = q_lane[n] AND rank = q_rank[n] AND last >= low AND last <= till) AS one;
        CONTINUE WHEN there IS NULL;
        IF there = wanted AND begins = low THEN
            -- As most are taken: all from the beginning of a run on.
            DELETE FROM runcue.ready_run WHERE lane = q_lane[n] AND rank = q_rank[n] AND last >= low AND last <= high;
            IF till > high THEN
                UPDATE runcue.ready_run SET taken = array_position(seqs, high) WHERE last = till;
            END IF;
            took := took + q_jobs[n];
        ELSE
            WITH gone AS (
                DELETE FROM runcue.ready_run
                WHERE lane = q_lane[n] AND rank = q_rank[n] AND last >= low AND last <= till
                RETURNING last AS run, seqs[taken + 1 :] AS seqs),
            one AS (SELECT run, unnest(seqs) AS seq FROM gone),
            rest AS (
                SELECT max(run) AS run, seq FROM (SELECT run, seq FROM one UNION ALL SELECT NULL, unnest(wanted)) AS either
                GROUP BY seq HAVING count(*) = 1 AND max(run) IS NOT NULL),
            put AS (
                INSERT INTO runcue.ready_run (last, first, lane, rank, taken, seqs)
                SELECT max(seq), min(seq), q_lane[n], q_rank[n], 0, array_agg(seq ORDER BY seq) FROM rest GROUP BY run)
            SELECT (SELECT count(*) FROM one) - (SELECT count(*) FROM rest) INTO more;
            took := took + more;
        END IF;
    END LOOP;
    RETURN took;
END $$;

DROP FUNCTION runcue.write_jobs(
    bigint[], bigint[], bigint[], bigint[], bigint[], bigint[], bigint[], integer[], integer[], bigint[], bigint[],
    smallint[], bigint[], integer[], bigint[], uuid[], bigint[], bigint[], bigint[], uuid[], bigint[], bigint[],
    bigint[], text[], boolean[], boolean[], bigint[], bigint[], bigint[], bigint[], smallint[], bigint[], bigint[],
    integer[], integer[], integer[], integer[], bigint[], bigint[], uuid[], bigint[], bigint[], smallint[], text[],
    bigint[], bigint[], smallint[], bigint[], integer[], integer[], integer[], bigint[], bigint[], smallint[],
    text[]);

-- Jobs of a turn. May be called several times in one. A new job that is plain (ready, and nothing has happened to it) has
-- no columns of its own for its state, and if there are many of a lane they are in a run (`w_`). Of jobs that were ready before
-- (`q_`, by lane and priority: those that go, `gone_ready`, and those that have `l_held` zero) some have a row of their own and
-- some are found in runs. So it is with jobs that were held before (`gone_held`, and those with another `l_held`); the numbers
-- of their leases (`left_from` to `left_to`) leave the runs of leases.
CREATE FUNCTION runcue.write_jobs(
    gone_jobs bigint[], gone_live bigint[], gone_ready bigint[], gone_held bigint[], gone_done bigint[],
    q_lane bigint[], q_rank bigint[], q_at integer[], q_jobs integer[], q_seqs bigint[],
    w_lane bigint[], w_rank bigint[], w_at integer[], w_jobs integer[], w_seqs bigint[],
    left_from bigint[], left_to bigint[],
    r_token bigint[], r_at integer[], r_jobs integer[], r_low bigint[], r_high bigint[], r_stage smallint[],
    r_due bigint[], r_attempt integer[], r_started_at bigint[], r_worker uuid[], r_start_by bigint[], r_seqs bigint[],
    n_seq bigint[], n_id uuid[], n_lane bigint[], n_rank bigint[], n_created_at bigint[], n_spec text[],
    n_plain boolean[],
    l_new boolean[], l_held bigint[], l_seq bigint[], l_lane bigint[], l_rank bigint[], l_stage smallint[], l_due bigint[],
    l_deadline bigint[], l_prerequisites integer[], l_attempt integer[], l_earlier integer[], l_crashes integer[],
    l_queued_at bigint[], l_started_at bigint[], l_worker uuid[], l_token bigint[], l_start_by bigint[],
    l_flags smallint[], l_outcome text[],
    d_seq bigint[], d_lane bigint[], d_stage smallint[], d_ended_at bigint[], d_attempt integer[],
    d_earlier integer[], d_crashes integer[], d_queued_at bigint[], d_started_at bigint[], d_flags smallint[],
    d_outcome text[]
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    -- Leases that had rows of their own.
    own  bigint[] := '{}';
    more bigint[];
    rows bigint;
    -- How many of the jobs that were ready have been found so far. Many of a lane are probably in runs, single ones in rows
    -- of their own.
    seen bigint := 0;
    many boolean := cardinality(q_seqs) >= 8 * cardinality(q_lane);
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
    IF cardinality(q_seqs) > 0 THEN
        IF many THEN
            seen := runcue.take_ready(q_lane, q_rank, q_at, q_jobs, q_seqs);
        END IF;
        IF seen < cardinality(q_seqs) AND cardinality(gone_ready) > 0 THEN
            DELETE FROM runcue.live USING unnest(gone_ready) AS gone (seq) WHERE live.seq = gone.seq;
            GET DIAGNOSTICS rows = ROW_COUNT;
            seen := seen + rows;
        END IF;
    END IF;
    IF cardinality(gone_held) > 0 THEN
        WITH gone AS (DELETE FROM runcue.live USING unnest(gone_held) AS gone (seq) WHERE live.seq = gone.seq
                      RETURNING live.token)
        SELECT coalesce(array_agg(token), '{}') INTO own FROM gone;
    END IF;
    IF cardinality(gone_done) > 0 THEN
        DELETE FROM runcue.done USING unnest(gone_done) AS gone (seq) WHERE done.seq = gone.seq;
    END IF;
    IF cardinality(n_seq) > 0 THEN
        INSERT INTO runcue.job (seq, id, lane, rank, created_at, spec)
        SELECT unnest(n_seq), unnest(n_id), unnest(n_lane), unnest(n_rank), unnest(n_created_at), unnest(n_spec);
    END IF;
    IF cardinality(n_plain) > 0 AND true = ALL (n_plain) THEN
        INSERT INTO runcue.live (seq, lane, rank, stage, prerequisites, attempt, earlier_attempts, crashes, queued_at, flags)
        SELECT unnest(n_seq), unnest(n_lane), unnest(n_rank), 0, 0, 0, 0, 0, unnest(n_created_at), 0;
    ELSIF true = ANY (n_plain) THEN
        INSERT INTO runcue.live (seq, lane, rank, stage, prerequisites, attempt, earlier_attempts, crashes, queued_at, flags)
        SELECT seq, lane, rank, 0, 0, 0, 0, 0, created_at, 0
        FROM unnest(n_seq, n_lane, n_rank, n_created_at, n_plain) AS given (seq, lane, rank, created_at, plain)
        WHERE plain;
    END IF;
    IF cardinality(w_lane) > 0 THEN
        INSERT INTO runcue.ready_run (last, first, lane, rank, taken, seqs)
        SELECT w_seqs[at + jobs - 1], w_seqs[at], lane, rank, 0, w_seqs[at : at + jobs - 1]
        FROM unnest(w_lane, w_rank, w_at, w_jobs) AS given (lane, rank, at, jobs);
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
        WITH changed AS (
            UPDATE runcue.live SET stage = given.stage, due = given.due, deadline = given.deadline,
                prerequisites = given.prerequisites, attempt = given.attempt, earlier_attempts = given.earlier,
                crashes = given.crashes, queued_at = given.queued_at, started_at = given.started_at,
                worker = given.worker, token = given.token, start_by = given.start_by, flags = given.flags,
                outcome = given.outcome
            FROM unnest(l_new, l_held, l_seq, l_stage, l_due, l_deadline, l_prerequisites, l_attempt, l_earlier,
                        l_crashes, l_queued_at, l_started_at, l_worker, l_token, l_start_by, l_flags, l_outcome)
                AS given (is_new, held, seq, stage, due, deadline, prerequisites, attempt, earlier, crashes,
                        queued_at, started_at, worker, token, start_by, flags, outcome)
            WHERE NOT given.is_new AND live.seq = given.seq RETURNING given.held)
        SELECT count(*), coalesce(array_agg(held) FILTER (WHERE held > 0), '{}'),
               seen + count(*) FILTER (WHERE held = 0) INTO rows, more, seen FROM changed;
        own := own || more;
        -- The others were found in runs.
        IF rows < (SELECT count(*) FROM unnest(l_new) AS given (is_new) WHERE NOT is_new) THEN
            INSERT INTO runcue.live (seq, lane, rank, stage, due, deadline, prerequisites, attempt, earlier_attempts,
                crashes, queued_at, started_at, worker, token, start_by, flags, outcome)
            SELECT seq, lane, rank, stage, due, deadline, prerequisites, attempt, earlier, crashes, queued_at,
                   started_at, worker, token, start_by, flags, outcome
            FROM unnest(l_new, l_held, l_seq, l_lane, l_rank, l_stage, l_due, l_deadline, l_prerequisites, l_attempt,
                        l_earlier, l_crashes, l_queued_at, l_started_at, l_worker, l_token, l_start_by, l_flags, l_outcome)
                AS given (is_new, held, seq, lane, rank, stage, due, deadline, prerequisites, attempt, earlier, crashes,
                        queued_at, started_at, worker, token, start_by, flags, outcome)
            WHERE NOT is_new AND held IS NOT NULL
            ON CONFLICT (seq) DO NOTHING;
        END IF;
    END IF;
    IF NOT many AND seen < cardinality(q_seqs) THEN
        PERFORM runcue.take_ready(q_lane, q_rank, q_at, q_jobs, q_seqs);
    END IF;
    IF cardinality(left_from) > 0 THEN
        WITH gone AS (
            SELECT token, sum(jobs) AS jobs FROM (
                SELECT run.token, least(given.till, run.token + run.jobs - 1) - greatest(given.since, run.token) + 1 AS jobs
                FROM unnest(left_from, left_to) AS given (since, till)
                JOIN runcue.lease_run AS run ON run.token > given.since - 1000 AND run.token <= given.till
                WHERE run.token + run.jobs > given.since
                UNION ALL
                SELECT run.token, -1 FROM unnest(own) AS given (token)
                JOIN runcue.lease_run AS run ON run.token > given.token - 1000 AND run.token <= given.token
                WHERE run.token + run.jobs > given.token) AS part
            GROUP BY token),
        empty AS (
            DELETE FROM runcue.lease_run USING gone WHERE lease_run.token = gone.token AND lease_run.remain = gone.jobs)
        UPDATE runcue.lease_run SET remain = remain - gone.jobs
        FROM gone WHERE lease_run.token = gone.token AND lease_run.remain > gone.jobs AND gone.jobs > 0;
    END IF;
    IF cardinality(r_token) > 0 THEN
        INSERT INTO runcue.lease_run (token, jobs, remain, seqs, span, stage, due, attempt, started_at, worker, start_by)
        SELECT token, jobs, jobs, r_seqs[at : at + jobs - 1], int8range(low, high, '[]'), stage, due, attempt,
               started_at, worker, start_by
        FROM unnest(r_token, r_at, r_jobs, r_low, r_high, r_stage, r_due, r_attempt, r_started_at, r_worker, r_start_by)
            AS given (token, at, jobs, low, high, stage, due, attempt, started_at, worker, start_by);
    END IF;
    IF cardinality(d_seq) > 0 THEN
        INSERT INTO runcue.done (seq, lane, stage, ended_at, attempt, earlier_attempts, crashes, queued_at,
            started_at, flags, outcome)
        SELECT unnest(d_seq), unnest(d_lane), unnest(d_stage), unnest(d_ended_at), unnest(d_attempt), unnest(d_earlier),
               unnest(d_crashes), unnest(d_queued_at), unnest(d_started_at), unnest(d_flags), unnest(d_outcome);
    END IF;
END $$;
