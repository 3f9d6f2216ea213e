//! Jobs that are looked for by more than a key, and the check of everything.

use std::collections::BTreeMap;

use runcue_core::{JobFilter, LaneId, Seq, StateWord, Timestamp};
use runcue_store::overlay::{Find, Rank, Timed};
use runcue_store::{Counts, GroupInfo, Result};
use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};
use uuid::Uuid;

use super::PostgresBackend;
use super::opening::GROUP;
use crate::reader::{Clause, Way};
use crate::rows::{parsed, rank_of, signed, stages, unsigned};

fn limit_of(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

fn seqs(rows: &[Row]) -> Vec<Seq> {
    rows.iter().map(|row| Seq(unsigned(row.get(0)))).collect()
}

impl PostgresBackend {
    /// The search begins at the earliest instant: before it there may be many rows that are dead but cannot
    /// be removed yet.
    pub(super) fn list_by_instant(
        &mut self,
        list: Timed,
        from: Option<Timestamp>,
        limit: usize,
    ) -> Result<Vec<(Timestamp, Seq)>> {
        let sql = match list {
            Timed::Delayed => {
                "SELECT due, seq FROM runcue.live WHERE stage = 1 AND due >= $1 ORDER BY due, seq LIMIT $2"
            }
            Timed::Lapsing => {
                "(SELECT due, seq FROM runcue.live WHERE stage > 2 AND due >= $1 ORDER BY due, seq LIMIT $2) \
                 UNION ALL (SELECT due, seq FROM runcue.leased WHERE due >= $1 ORDER BY due, seq LIMIT $2) \
                 ORDER BY due, seq LIMIT $2"
            }
            Timed::Deadline => {
                "SELECT deadline, seq FROM runcue.live WHERE deadline IS NOT NULL AND deadline >= $1 \
                 ORDER BY deadline, seq LIMIT $2"
            }
        };
        let from = from.map_or(i64::MIN, Timestamp::as_micros);
        let rows = self.query(sql, &[(&from, Type::INT8), (&limit_of(limit), Type::INT8)])?;
        let read = |row: &Row| (Timestamp::from_micros(row.get(0)), Seq(unsigned(row.get(1))));
        Ok(rows.iter().map(read).collect())
    }

    pub(super) fn search(&mut self, what: &Find<'_>) -> Result<Vec<Seq>> {
        match what {
            Find::HeldBy(worker) => {
                let worker = Uuid::from_u128(worker.as_u128());
                let sql = "SELECT seq FROM runcue.live WHERE stage > 2 AND worker = $1 \
                           UNION ALL SELECT seq FROM runcue.leased WHERE worker = $1 ORDER BY seq";
                Ok(seqs(&self.query(sql, &[(&worker, Type::UUID)])?))
            }
            Find::OldestQueued { queue, limit } => {
                let queue = Some((*queue).clone());
                let states = [StateWord::Queued].into();
                self.matching(&JobFilter { states, queue, ..JobFilter::default() }, None, *limit)
            }
            Find::Matching { filter, after, limit } => self.matching(filter, *after, *limit),
            Find::Stale { state, ended_before, keep, limit } => {
                self.stale(*state, *ended_before, *keep, *limit)
            }
        }
    }

    fn matching(
        &mut self,
        filter: &JobFilter,
        after: Option<Seq>,
        limit: usize,
    ) -> Result<Vec<Seq>> {
        let after = after.map_or(-1, |seq| signed(seq.0));
        let limit = limit_of(limit);
        let clause = Clause::of(filter, 3);
        let sql = clause.seqs(Way::Up);
        let sql = self.options.sql(&sql);
        let mut values: Vec<(&(dyn ToSql + Sync), Type)> =
            vec![(&after, Type::INT8), (&limit, Type::INT8)];
        values.extend(clause.values());
        let rows = self.run(0, async |client| client.query_typed(&sql, &values).await)?;
        Ok(seqs(&rows))
    }

    fn stale(
        &mut self,
        state: StateWord,
        ended_before: Timestamp,
        keep: u64,
        limit: usize,
    ) -> Result<Vec<Seq>> {
        let stage = stages(state)[0];
        let before = ended_before.as_micros();
        // How many there are is known from the groups, without counting them.
        let sql = "SELECT sum((body::json -> 'counts' ->> $1)::bigint)::bigint FROM runcue.board WHERE kind = 1";
        let total = self.number(sql, &[(&state.as_str(), Type::TEXT)])?;
        let over = limit_of(limit).min(signed(total.saturating_sub(keep)));
        let sql = "SELECT seq FROM runcue.done WHERE stage = $1 AND ended_at < $2 ORDER BY ended_at, seq LIMIT $3";
        let values: &[(&(dyn ToSql + Sync), Type)] =
            &[(&stage, Type::INT2), (&before, Type::INT8), (&limit_of(limit), Type::INT8)];
        let old = seqs(&self.query(sql, values)?);
        if old.len() as i64 >= over {
            return Ok(old);
        }
        let sql = "SELECT seq FROM runcue.done WHERE stage = $1 ORDER BY ended_at, seq LIMIT $2";
        Ok(seqs(&self.query(sql, &[(&stage, Type::INT2), (&over, Type::INT8)])?))
    }

    pub(super) fn count_ahead(&mut self, lane: LaneId, place: Rank) -> Result<u64> {
        // Of runs those before the one that the place is in, and what stands before it there.
        let sql = "SELECT (SELECT count(*) FROM runcue.live WHERE stage = 0 AND lane = $1 AND (rank, seq) < ($2, $3)) \
            + (SELECT coalesce(sum(cardinality(seqs) - taken), 0) FROM runcue.ready_run \
               WHERE lane = $1 AND (rank, last) < ($2, $3))::bigint \
            + (SELECT count(*) FROM (SELECT unnest(seqs[taken + 1 :]) AS seq FROM runcue.ready_run \
               WHERE lane = $1 AND rank = $2 AND last >= $3 ORDER BY last LIMIT 64) AS one WHERE seq < $3)";
        let (lane, rank, seq) = (signed(lane.0), rank_of(place.priority), signed(place.seq.0));
        self.number(sql, &[(&lane, Type::INT8), (&rank, Type::INT8), (&seq, Type::INT8)])
    }

    pub(super) fn find_contradictions(&mut self) -> Result<Vec<String>> {
        // Everything is read; what helps to find single rows is no help here.
        self.renounce_lent();
        let begin = if self.turn.held { "" } else { "BEGIN; " };
        let all = format!(
            "{begin}SET LOCAL enable_seqscan = on; SET LOCAL enable_hashjoin = on; SET LOCAL enable_mergejoin = on"
        );
        self.run(0, async |client| client.batch_execute(&all).await)?;
        let findings = self.contradictions();
        if !self.turn.held
            && self.run(0, async |client| client.batch_execute("ROLLBACK").await).is_err()
        {
            self.drop_connection();
        }
        findings
    }

    fn contradictions(&mut self) -> Result<Vec<String>> {
        let mut findings = self.miscounted_groups()?;
        findings.extend(self.miscounted_lanes()?);
        let orphans = [
            (
                "jobs without a state",
                "SELECT count(*) FROM runcue.job LEFT JOIN runcue.live ON live.seq = job.seq \
                 LEFT JOIN runcue.done ON done.seq = job.seq LEFT JOIN runcue.leased ON leased.seq = job.seq \
                 LEFT JOIN runcue.waiting ON waiting.seq = job.seq \
                 WHERE live.seq IS NULL AND done.seq IS NULL AND leased.seq IS NULL AND waiting.seq IS NULL",
            ),
            (
                "jobs with two states",
                "SELECT count(*) FROM (SELECT 1 FROM (SELECT seq FROM runcue.live UNION ALL SELECT seq FROM runcue.done \
                 UNION ALL SELECT seq FROM runcue.waiting UNION ALL SELECT seq FROM runcue.leased) AS state \
                 GROUP BY seq HAVING count(*) > 1) AS twice",
            ),
            (
                "states without a job",
                "SELECT count(*) FROM (SELECT seq FROM runcue.live UNION ALL SELECT seq FROM runcue.done \
                 UNION ALL SELECT seq FROM runcue.waiting) AS state \
                 WHERE NOT EXISTS (SELECT 1 FROM runcue.job WHERE job.seq = state.seq)",
            ),
            (
                "runs of ready jobs that say wrongly where they are",
                "SELECT count(*) FROM runcue.ready_run WHERE taken >= cardinality(seqs) OR first > seqs[taken + 1] \
                 OR last <> seqs[cardinality(seqs)] OR EXISTS (SELECT 1 FROM unnest(seqs) AS one (seq) \
                 JOIN runcue.job ON job.seq = one.seq \
                 WHERE job.lane <> ready_run.lane OR job.rank <> ready_run.rank)",
            ),
            (
                "jobs without a lane",
                "SELECT count(*) FROM runcue.job LEFT JOIN runcue.lane ON lane.lane = job.lane WHERE lane.lane IS NULL",
            ),
            (
                "runs of leases that count wrongly",
                "SELECT count(*) FROM runcue.lease_run \
                 WHERE remain <> (SELECT count(*) FROM runcue.leased WHERE leased.run = lease_run.token)",
            ),
        ];
        for (what, sql) in orphans {
            let count = self.number(sql, &[])?;
            if count > 0 {
                findings.push(format!("{count} {what}"));
            }
        }
        Ok(findings)
    }

    fn miscounted_groups(&mut self) -> Result<Vec<String>> {
        let sql = "SELECT lane.grp, state.stage, count(*) FROM \
                   (SELECT lane, stage FROM runcue.live UNION ALL SELECT lane, stage FROM runcue.done \
                   UNION ALL SELECT lane, stage FROM runcue.leased UNION ALL SELECT lane, stage FROM runcue.waiting) AS state \
                   JOIN runcue.lane USING (lane) GROUP BY 1, 2";
        let mut real: BTreeMap<String, Counts> = BTreeMap::new();
        for row in self.query(sql, &[])? {
            let stage: i16 = row.get(1);
            let word = StateWord::ALL.into_iter().find(|word| stages(*word).contains(&stage));
            let counts = real.entry(row.get(0)).or_default();
            if let Some(word) = word {
                *counts.of(word) += unsigned(row.get(2));
            }
        }
        let sql = "SELECT name, body FROM runcue.board WHERE kind = $1 ORDER BY name";
        let mut findings = Vec::new();
        for row in self.query(sql, &[(&GROUP, Type::INT2)])? {
            let name: String = row.get(0);
            let noted: GroupInfo = parsed("group", row.get(1)).map_err(|e| self.unreadable(e))?;
            let counts = real.remove(&name).unwrap_or_default();
            if noted.counts != counts {
                let noted = noted.counts;
                findings.push(format!("group {name:?} counts {noted:?}, its jobs are {counts:?}"));
            }
        }
        findings.extend(real.keys().map(|name| format!("group {name:?} is not counted")));
        Ok(findings)
    }

    fn miscounted_lanes(&mut self) -> Result<Vec<String>> {
        let noted: BTreeMap<LaneId, u32> = self.read_held()?.into_iter().collect();
        let sql = "SELECT lane.lane, coalesce(held.n, 0) FROM runcue.lane \
                   LEFT JOIN (SELECT lane, count(*) AS n FROM (SELECT lane FROM runcue.live WHERE stage > 2 \
                       UNION ALL SELECT lane FROM runcue.leased) AS one GROUP BY lane) AS held \
                       ON held.lane = lane.lane \
                   WHERE lane.key::json -> 'services' IS NOT NULL";
        let mut findings = Vec::new();
        for row in self.query(sql, &[])? {
            let (lane, real) = (unsigned(row.get(0)), unsigned(row.get(1)));
            let noted = noted.get(&LaneId(lane)).copied().unwrap_or(0);
            if u64::from(noted) != real {
                findings.push(format!("lane {lane} counts {noted} jobs held, they are {real}"));
            }
        }
        Ok(findings)
    }
}
