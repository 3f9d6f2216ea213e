-- The groups that a transaction changed, one row each: [[name, paused, turn, queued, leased, running, completed, failed,
-- cancelled, quarantined], …]. A row of `grp` for every group would cost a claim over many groups more than its jobs. From time to
-- time they move into `grp`; until then the latest entry of a group counts, and `grp` is older. The view `groups`
-- has it all.
CREATE TABLE group_run (
    n     INTEGER PRIMARY KEY,
    stamp INTEGER NOT NULL,
    body  TEXT    NOT NULL
) STRICT;

CREATE VIEW groups AS
WITH told AS (
    SELECT name, paused, turn, queued, leased, running, completed, failed, cancelled, quarantined, 0 AS n FROM grp
    UNION ALL
    SELECT
        one.value ->> 0, one.value ->> 1, one.value ->> 2, one.value ->> 3, one.value ->> 4, one.value ->> 5,
        one.value ->> 6, one.value ->> 7, one.value ->> 8, one.value ->> 9, group_run.n
    FROM group_run, json_each(group_run.body) AS one
), latest AS (
    -- with max() the other columns are those of the row that has it
    SELECT *, max(n) FROM told GROUP BY name
)
SELECT nullif(name, '') AS "group", paused, queued, leased, running, completed, failed, cancelled, quarantined FROM latest;
