-- Rows are found by their keys, however many of them the server believes there are. When VACUUM finds a table nearly empty, the
-- server counts on one row in it and on one page of its index until it is analysed. For a join by `key = given.key` it then has
-- a second plan, to read the index from one end to the other, because what is in order might be merged; and that looks as
-- cheap as to search it for each key. But the queue may be long again by then, and where a transaction is held open there are all
-- the dead entries: each commit took as long as the queue was long. No setting forbids this plan and leaves the other one:
-- merging is off, and it makes do with nested loops. So a key is compared with a list, `= ANY (...)`, if need be with a list of
-- one. By that nothing can be merged, and all that the index is good for is to be searched. Nothing else has changed.

-- Jobs of a turn. May be called several times in one. A new job that is plain (ready, and nothing has happened to it) has
-- no columns of its own for its state, and if there are many of a lane they are in a run (`w_`). Of jobs that were ready before
-- (`q_`, by lane and priority: those that go, `gone_ready`, and those that have `l_held` zero) some have a row of their own and
-- some are found in runs. So it is with jobs that were held before (`gone_held`, and those with another `l_held`); the numbers
-- of their leases (`left_from` to `left_to`) leave the runs of leases. Columns without rows may be NULL.
CREATE OR REPLACE FUNCTION runcue.write_jobs(
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
    many boolean;
BEGIN
    -- Of all that may be there most is not, and each look takes as long as a part of a row: what is rare is looked for together.
    IF num_nonnulls(gone_jobs, gone_live, gone_done) > 0 THEN
        IF cardinality(gone_jobs) > 0 THEN
            DELETE FROM runcue.job WHERE seq = ANY (gone_jobs);
            DELETE FROM runcue.log WHERE seq = ANY (gone_jobs);
            DELETE FROM runcue.tie WHERE prerequisite = ANY (gone_jobs);
            DELETE FROM runcue.tie WHERE dependent = ANY (gone_jobs);
            DELETE FROM runcue.idempotency WHERE seq = ANY (gone_jobs);
        END IF;
        IF cardinality(gone_live) > 0 THEN
            DELETE FROM runcue.live WHERE seq = ANY (gone_live);
        END IF;
        IF cardinality(gone_done) > 0 THEN
            DELETE FROM runcue.done WHERE seq = ANY (gone_done);
        END IF;
    END IF;
    IF cardinality(n_seq) > 0 THEN
        INSERT INTO runcue.job (seq, id, lane, rank, created_at, spec)
        SELECT unnest(n_seq), unnest(n_id), unnest(n_lane), unnest(n_rank), unnest(n_created_at), unnest(n_spec);
        IF true = ALL (n_plain) THEN
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
    END IF;
    IF num_nonnulls(q_seqs, gone_held, l_seq, left_from, r_token, d_seq) > 0 THEN
        IF cardinality(q_seqs) > 0 THEN
            many := cardinality(q_seqs) >= 8 * cardinality(q_lane);
            IF many THEN
                seen := runcue.take_ready(q_lane, q_rank, q_at, q_jobs, q_seqs);
            END IF;
            IF seen < cardinality(q_seqs) AND cardinality(gone_ready) > 0 THEN
                DELETE FROM runcue.live WHERE seq = ANY (gone_ready);
                GET DIAGNOSTICS rows = ROW_COUNT;
                seen := seen + rows;
            END IF;
        END IF;
        IF cardinality(gone_held) > 0 THEN
            WITH gone AS (DELETE FROM runcue.live WHERE seq = ANY (gone_held) RETURNING token)
            SELECT coalesce(array_agg(token), '{}') INTO own FROM gone;
        END IF;
        IF cardinality(l_seq) <= 4 THEN
            FOR n IN 1 .. cardinality(l_seq) LOOP
                IF NOT l_new[n] THEN
                    UPDATE runcue.live SET stage = l_stage[n], due = l_due[n], deadline = l_deadline[n],
                        prerequisites = l_prerequisites[n], attempt = l_attempt[n], earlier_attempts = l_earlier[n],
                        crashes = l_crashes[n], queued_at = l_queued_at[n], started_at = l_started_at[n],
                        worker = l_worker[n], token = l_token[n], start_by = l_start_by[n], flags = l_flags[n],
                        outcome = l_outcome[n]
                    WHERE seq = l_seq[n];
                    IF FOUND THEN
                        IF l_held[n] = 0 THEN
                            seen := seen + 1;
                        ELSIF l_held[n] > 0 THEN
                            own := own || l_held[n];
                        END IF;
                        CONTINUE;
                    END IF;
                    -- The others were found in runs.
                    CONTINUE WHEN l_held[n] IS NULL;
                END IF;
                INSERT INTO runcue.live (seq, lane, rank, stage, due, deadline, prerequisites, attempt, earlier_attempts,
                    crashes, queued_at, started_at, worker, token, start_by, flags, outcome)
                VALUES (l_seq[n], l_lane[n], l_rank[n], l_stage[n], l_due[n], l_deadline[n], l_prerequisites[n], l_attempt[n],
                    l_earlier[n], l_crashes[n], l_queued_at[n], l_started_at[n], l_worker[n], l_token[n], l_start_by[n],
                    l_flags[n], l_outcome[n]);
            END LOOP;
        ELSIF cardinality(l_seq) > 4 THEN
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
                    WHERE NOT given.is_new AND live.seq = ANY (ARRAY[given.seq]) RETURNING given.held)
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
        END IF;
        IF NOT many AND seen < cardinality(q_seqs) THEN
            PERFORM runcue.take_ready(q_lane, q_rank, q_at, q_jobs, q_seqs);
        END IF;
        -- If all of them had rows of their own no run is the fewer.
        IF cardinality(left_from) > 1 OR left_to[1] - left_from[1] >= cardinality(own) THEN
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
                DELETE FROM runcue.lease_run USING gone
                WHERE lease_run.token = ANY (ARRAY[gone.token]) AND lease_run.remain = gone.jobs)
            UPDATE runcue.lease_run SET remain = remain - gone.jobs
            FROM gone WHERE lease_run.token = ANY (ARRAY[gone.token]) AND lease_run.remain > gone.jobs AND gone.jobs > 0;
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
    END IF;
END $$;

-- Everything else of a turn, and the turn itself. Answers the server's clock. Columns without rows may be NULL.
CREATE OR REPLACE FUNCTION runcue.write_turn(
    p_follows bigint, p_commit uuid, p_numbers bigint[], p_last_served_group text,
    t_lane bigint[], t_rank bigint[], t_seq bigint[], p_changed bigint[],
    b_kind smallint[], b_name text[], b_body text[],
    dropped_keys bigint[], dropped_lanes bigint[], dropped_groups text[], k_key bytea[], k_seq bigint[],
    tie_prerequisite bigint[], tie_dependent bigint[], h_lane bigint[], h_jobs integer[],
    lane_lane bigint[], lane_key text[], lane_queue text[], lane_grp text[], lane_task text[],
    u_at bigint[], u_uses integer[], u_body text[], prune_usage bigint,
    e_last bigint[], e_first bigint[], e_at bigint[], e_shared text[], e_body text[],
    prune_before bigint, prune_through bigint,
    g_n bigint[], g_seq bigint[], g_attempt integer[], g_token bigint[], g_stream text[], g_at bigint[], g_text text[],
    task_name text[], task_spec text[],
    w_id uuid[], w_spec text[], w_at bigint[], w_gone uuid[], w_seen uuid[], w_seen_at bigint[],
    admitted bigint[], refused_n bigint[], refused_why text[],
    p_news boolean
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    mine bigint := p_follows + 1;
    latest bigint;
    since bigint;
    -- Whether the board's own table is brought up to this turn: where groups or lanes go, it is the only place to take them
    -- from, and where much changes a turn would be too long a row.
    moves boolean;
BEGIN
    SELECT revision, moved INTO latest, since FROM runcue.turn ORDER BY revision DESC LIMIT 1;
    IF latest <> p_follows THEN
        RAISE EXCEPTION 'somebody else has written' USING ERRCODE = 'RC001';
    END IF;
    moves := mine - since >= 64 OR coalesce(cardinality(b_kind) > 8 OR 4 = ANY (b_kind), false)
        OR num_nonnulls(dropped_lanes, dropped_groups) > 0;
    IF moves THEN
        DELETE FROM runcue.lane WHERE lane = ANY (dropped_lanes);
        DELETE FROM runcue.board_row WHERE kind = 1 AND name = ANY (dropped_groups);
        WITH given AS (
            SELECT DISTINCT ON (kind, name COLLATE "C") kind, name, revision, body
            FROM (
                SELECT kind, name, revision, body FROM (
                    SELECT unnest(board_kind) AS kind, unnest(board_name) AS name, revision, unnest(board_body) AS body
                    FROM runcue.turn WHERE revision > since) AS before
                WHERE kind <> 1 OR (name = ANY (dropped_groups)) IS NOT TRUE
                UNION ALL
                SELECT unnest(b_kind), unnest(b_name), mine, unnest(b_body)) AS either
            ORDER BY kind, name COLLATE "C", revision DESC),
        gone AS (
            DELETE FROM runcue.board_row USING (
                SELECT given.kind, given.name, (SELECT max(old.revision) FROM runcue.board_row AS old
                                            WHERE old.kind = given.kind AND old.name = given.name) AS revision
                FROM given) AS old
            WHERE board_row.kind = ANY (ARRAY[old.kind]) AND board_row.name = ANY (ARRAY[old.name])
                AND board_row.revision = ANY (ARRAY[old.revision]))
        INSERT INTO runcue.board_row (kind, name, revision, body) SELECT kind, name, revision, body FROM given;
        -- Those who lag further behind than this read everything anew.
        IF mine / 64 <> since / 64 THEN
            DELETE FROM runcue.turn WHERE revision <= mine - 20000;
        END IF;
    END IF;
    IF cardinality(e_last) > 0 THEN
        INSERT INTO runcue.event (last, first, at, shared, body)
        SELECT * FROM unnest(e_last, e_first, e_at, e_shared, e_body);
    END IF;
    -- Most turns have none of this, and each look takes as long as a part of a row.
    IF num_nonnulls(dropped_keys, k_key, tie_prerequisite, lane_lane, prune_usage, u_at, prune_through, g_n, task_name,
                    w_gone, w_id, w_seen, refused_n, admitted) > 0 THEN
        IF cardinality(dropped_keys) > 0 THEN
            DELETE FROM runcue.idempotency WHERE seq = ANY (dropped_keys);
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
        IF cardinality(g_n) > 0 THEN
            INSERT INTO runcue.log (n, seq, attempt, token, stream, at, text)
            SELECT * FROM unnest(g_n, g_seq, g_attempt, g_token, g_stream, g_at, g_text);
            -- No more than so much is kept of a job; the oldest goes first, the latest chunk always stays.
            DELETE FROM runcue.log USING (
                SELECT n, sum(octet_length(text)) OVER latest_first AS kept, row_number() OVER latest_first AS place
                FROM runcue.log WHERE seq = ANY (g_seq)
                WINDOW latest_first AS (PARTITION BY seq ORDER BY n DESC)) AS old
            WHERE log.n = ANY (ARRAY[old.n]) AND old.kept > 262144 AND old.place > 1;
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
            WHERE worker.id = ANY (ARRAY[given.id]);
        END IF;
        IF cardinality(refused_n) > 0 THEN
            INSERT INTO runcue.refused (n, at, body, why)
            SELECT inbox.n, inbox.at, inbox.body, given.why FROM runcue.inbox
            JOIN unnest(refused_n, refused_why) AS given (n, why) ON inbox.n = ANY (ARRAY[given.n]);
            DELETE FROM runcue.inbox WHERE n = ANY (refused_n);
        END IF;
        IF cardinality(admitted) > 0 THEN
            DELETE FROM runcue.inbox WHERE n = ANY (admitted);
        END IF;
    END IF;
    INSERT INTO runcue.turn VALUES (mine, p_commit, p_numbers[1], p_numbers[2], p_numbers[3], p_numbers[4],
        p_numbers[5], p_last_served_group, p_numbers[6], p_numbers[7], p_numbers[8], p_numbers[9], p_numbers[10],
        coalesce(t_lane, '{}'), coalesce(t_rank, '{}'), coalesce(t_seq, '{}'), coalesce(p_changed, '{}'),
        coalesce(h_lane, '{}'), coalesce(h_jobs, '{}'),
        CASE WHEN moves THEN '{}' ELSE coalesce(b_kind, '{}') END,
        CASE WHEN moves THEN '{}' ELSE coalesce(b_name, '{}') END,
        CASE WHEN moves THEN '{}' ELSE coalesce(b_body, '{}') END,
        CASE WHEN moves THEN mine ELSE since END);
    IF p_news THEN
        PERFORM pg_notify('runcue.', mine::text);
    END IF;
    RETURN runcue.now_micros();
END $$;
