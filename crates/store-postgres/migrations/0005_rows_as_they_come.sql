-- New jobs and ended ones are inserted as their columns are read. A call of several arrays in FROM puts each of them aside
-- first, and then their rows; in the list of what is selected they go side by side. The tables are as they were.

-- Jobs of a turn. May be called several times in one. A new job that is plain (ready, and nothing has happened to it) has
-- no columns of its own for its state. Of jobs that were held before (`gone_held`, and those with `l_held`) some have a
-- row of their own and some are found in runs; the numbers of their leases (`left_from` to `left_to`) leave the runs.
CREATE OR REPLACE FUNCTION runcue.write_jobs(
    gone_jobs bigint[], gone_live bigint[], gone_held bigint[], gone_done bigint[],
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
        SELECT count(*), coalesce(array_agg(held) FILTER (WHERE held IS NOT NULL), '{}') INTO rows, more FROM changed;
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
