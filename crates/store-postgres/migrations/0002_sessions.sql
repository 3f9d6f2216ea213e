-- Sessions settle by themselves how their statements run, once, instead of each turn doing so. Events that were
-- written together have what they share in a column of its own. And the jobs held in lanes are written with the
-- turn that changed them, instead of in a row for each lane.

-- Nobody is in the middle of a turn.
SELECT pg_advisory_xact_lock(hashtextextended('runcue.', 0));

CREATE OR REPLACE FUNCTION runcue.take_turn() RETURNS void LANGUAGE sql VOLATILE AS
$$ SELECT pg_advisory_xact_lock(hashtextextended('runcue.', 0)) $$;

CREATE OR REPLACE FUNCTION runcue.follow(p_follows bigint) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('runcue.', 0));
    IF (SELECT max(revision) FROM runcue.turn) <> p_follows THEN
        RAISE EXCEPTION 'somebody else has written' USING ERRCODE = 'RC001';
    END IF;
    RETURN p_follows;
END $$;

DROP FUNCTION runcue.settings();

-- Lanes that use services, and how many of their jobs are held after the turn, where that has changed. Now and then a
-- turn also writes all that are not zero, as [[lane, jobs], …], in the row of the board of kind 4; what holds is that
-- and the turns since.
ALTER TABLE runcue.turn ADD COLUMN held bigint[] NOT NULL DEFAULT '{}';
ALTER TABLE runcue.turn ADD COLUMN held_jobs integer[] NOT NULL DEFAULT '{}';

INSERT INTO runcue.board (kind, name, revision, body)
SELECT 4, '', (SELECT max(revision) FROM runcue.turn),
       coalesce((SELECT json_agg(json_build_array(name::bigint, body::bigint)) FROM runcue.board
                 WHERE kind = 4 AND body <> '0')::text, '[]');
DELETE FROM runcue.board WHERE kind = 4 AND name <> '';

-- In `shared` an object with the fields that all events of a run have in common, in `body` a list of what is left.
ALTER TABLE runcue.event ADD COLUMN shared text NOT NULL DEFAULT '{}';

-- Long texts are squeezed by what is quicker, where the server has it.
DO $$
BEGIN
    EXECUTE 'ALTER TABLE runcue.event ALTER COLUMN body SET COMPRESSION lz4';
EXCEPTION WHEN OTHERS THEN
    NULL;
END $$;

CREATE OR REPLACE VIEW runcue.events AS
SELECT
    event.first + one.place - 1 AS seq,
    runcue.instant(coalesce((whole.body ->> 'at')::bigint, event.at)) AS at,
    whole.body ->> 'type' AS type,
    whole.body ->> 'job' AS job,
    whole.body ->> 'task' AS task,
    whole.body ->> 'error' AS error,
    whole.body
FROM runcue.event, json_array_elements(event.body::json) WITH ORDINALITY AS one (value, place), LATERAL (
    SELECT CASE '{}' WHEN event.shared THEN one.value WHEN one.value::text THEN event.shared::json
        ELSE (left(event.shared, -1) || ',' || substr(one.value::text, 2))::json END) AS whole (body);

-- What a turn begins with, in one answer: what has changed since a revision, or everything (0). Rows of kind 0 are the
-- latest turn, 1 to 6 are rows of the board, 10 are lanes whose ready jobs have changed (the lane and the best place
-- at which one has become ready), 11 uses of services, and 12 the jobs that turns have changed, in their order. Of
-- everything there is no use of services: how far back that counts is known only from the rows of the board.
CREATE FUNCTION runcue.opening(p_known bigint) RETURNS TABLE
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
        FROM runcue.lane WHERE EXISTS (SELECT 1 FROM runcue.live WHERE live.stage = 0 AND live.lane = lane.lane);
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

DROP FUNCTION runcue.write_jobs(bigint[], bigint[], bigint[], bigint[], uuid[], bigint[], bigint[], bigint[],
    text[], boolean[], bigint[], bigint[], bigint[], smallint[], bigint[], bigint[], integer[], integer[],
    integer[], integer[], bigint[], bigint[], uuid[], bigint[], bigint[], smallint[], text[], bigint[], bigint[],
    smallint[], bigint[], integer[], integer[], integer[], bigint[], bigint[], smallint[], text[]);

-- Jobs of a turn. May be called several times in one. A new job that is plain (ready, and nothing has happened to it) has
-- no columns of its own for its state.
CREATE FUNCTION runcue.write_jobs(
    gone_jobs bigint[], gone_live bigint[], gone_done bigint[],
    n_seq bigint[], n_id uuid[], n_lane bigint[], n_rank bigint[], n_created_at bigint[], n_spec text[],
    n_plain boolean[],
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
    IF true = ANY (n_plain) THEN
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

DROP FUNCTION runcue.write_turn(bigint, uuid, bigint[], text, bigint[], bigint[], bigint[], bigint[], smallint[],
    text[], text[], bigint[], bigint[], text[], bytea[], bigint[], bigint[], bigint[], bigint[], text[], text[],
    text[], text[], bigint[], integer[], text[], bigint, bigint[], bigint[], bigint[], text[], bigint, bigint,
    bigint[], bigint[], integer[], bigint[], text[], bigint[], text[], text[], text[], uuid[], text[], bigint[],
    uuid[], uuid[], bigint[], bigint[], bigint[], text[], boolean);

-- Everything else of a turn, and the turn itself. Answers the server's clock.
CREATE FUNCTION runcue.write_turn(
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
BEGIN
    IF (SELECT max(revision) FROM runcue.turn) <> p_follows THEN
        RAISE EXCEPTION 'somebody else has written' USING ERRCODE = 'RC001';
    END IF;
    IF cardinality(dropped_lanes) > 0 THEN
        DELETE FROM runcue.lane WHERE lane = ANY (dropped_lanes);
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
        INSERT INTO runcue.event (last, first, at, shared, body)
        SELECT * FROM unnest(e_last, e_first, e_at, e_shared, e_body);
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
        t_lane, t_rank, t_seq, p_changed, h_lane, h_jobs);
    -- Those who lag further behind than this read everything anew.
    IF mine % 64 = 0 THEN
        DELETE FROM runcue.turn WHERE revision <= mine - 20000;
    END IF;
    IF p_news THEN
        PERFORM pg_notify('runcue.', mine::text);
    END IF;
    RETURN runcue.now_micros();
END $$;
