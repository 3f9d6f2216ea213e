//! The places of ready jobs, lane by lane. A place may outlive its job's readiness, because claims leave it
//! where it is; whoever comes across such places here clears them, whole runs at once. A lane whose jobs are
//! all known without a look is swept after so many claims.

use std::sync::Arc;

use super::jobs::joined;
use super::*;
use crate::rows::{self, READY_COLUMNS};
use runcue_core::board::HEADS;
use runcue_store::stage::READY;

/// A run of places in a lane whose jobs are not ready.
struct Left {
    priority: i32,
    first: i64,
    last: i64,
}

/// Params that are read at once beside those of a job that is wanted.
const NEAR_BYTES: usize = 512 * 1024;

/// Places left in a lane before it is swept.
const LEFT: usize = 128;

impl SqliteTables {
    /// A job waits for its turn again.
    pub(super) fn add_place(&self, job: &Job) -> Result<()> {
        let sql = "INSERT OR IGNORE INTO ready (lane, priority, seq) VALUES (?1, ?2, ?3)";
        let values = params![signed(job.lane.0), job.spec.priority, signed(job.seq.0)];
        self.run(sql, values).map(drop)
    }

    pub(super) fn ready_heads(
        &self,
        lane: LaneId,
        max: Option<i32>,
        limit: usize,
    ) -> Result<Vec<Head>> {
        let sql = "SELECT ready.priority, ready.seq, job.stage, job.units FROM ready \
                   LEFT JOIN job ON job.seq = ready.seq WHERE ready.lane = ?1 AND ready.priority <= ?2 \
                   ORDER BY ready.priority DESC, ready.seq";
        let values = params![signed(lane.0), max.unwrap_or(i32::MAX)];
        self.scan(lane, sql, values, limit, |row| {
            let units = match row.get_ref(3)?.as_str_or_null()? {
                Some(text) => Some(Arc::from(rows::parsed::<Vec<u64>>("units", text)?)),
                None => None,
            };
            Ok(Head { priority: row.get(0)?, seq: Seq(unsigned(row.get(1)?)), units })
        })
    }

    /// The same jobs whole, in one go: a statement for each would cost more than its row.
    pub(super) fn load_ready(&self, lane: LaneId, limit: usize) -> Result<Vec<Job>> {
        const SQL: &str = joined!(
            "SELECT ready.priority, ready.seq, job.stage, ",
            READY_COLUMNS,
            " FROM ready LEFT JOIN job ON job.seq = ready.seq LEFT JOIN body ON body.seq = job.seq ",
            "WHERE ready.lane = ?1 ORDER BY ready.priority DESC, ready.seq"
        );
        let specs = &self.specs;
        let with_outcome = RefCell::new(Vec::new());
        let read = |row: &Row<'_>| {
            let place = (lane, Seq(unsigned(row.get(1)?)));
            let (job, has_outcome) = rows::ready_job(row, 3, place, &mut specs.borrow_mut())?;
            if has_outcome {
                with_outcome.borrow_mut().push(job.seq);
            }
            Ok(job)
        };
        let mut jobs = self.scan(lane, SQL, [signed(lane.0)], limit, read)?;
        for seq in with_outcome.into_inner() {
            if let Some(job) = jobs.iter_mut().find(|job| job.seq == seq)
                && let Some(whole) = self.load_job(seq)?
            {
                *job = whole;
            }
        }
        Ok(jobs)
    }

    /// The ready jobs among so many from one on, as far as a bound of bytes goes. They stand next to each other in
    /// the file.
    pub(super) fn load_ready_from(&self, seq: Seq, limit: usize) -> Result<Vec<Job>> {
        const SQL: &str = joined!(
            "SELECT job.seq, job.lane, job.has_outcome, ",
            READY_COLUMNS,
            " FROM job JOIN body ON body.seq = job.seq WHERE job.seq BETWEEN ?1 AND ?2 AND job.stage = 0 ",
            "ORDER BY job.seq"
        );
        self.settle()?;
        let first = signed(seq.0);
        let look = || -> rusqlite::Result<Vec<Job>> {
            let mut found = Vec::with_capacity(limit);
            let mut bytes = 0;
            let mut statement = self.connection.prepare_cached(SQL)?;
            let mut rows = statement.query([first, first.saturating_add(limit_of(limit) - 1)])?;
            while bytes < NEAR_BYTES
                && let Some(row) = rows.next()?
            {
                // What came of it would have to be looked up.
                if row.get(2)? {
                    continue;
                }
                let place = (LaneId(unsigned(row.get(1)?)), Seq(unsigned(row.get(0)?)));
                let (job, _) = rows::ready_job(row, 3, place, &mut self.specs.borrow_mut())?;
                bytes += job.spec.params.as_str().len();
                found.push(job);
            }
            Ok(found)
        };
        look().map_err(|error| self.explain(&error))
    }

    /// Reads the first ready jobs of a statement whose columns begin with priority, place and stage, and
    /// clears the other places it comes across.
    fn scan<R>(
        &self,
        lane: LaneId,
        sql: &str,
        values: impl Params,
        limit: usize,
        read: impl Fn(&Row<'_>) -> rusqlite::Result<R>,
    ) -> Result<Vec<R>> {
        self.settle()?;
        let mut left: Vec<Left> = Vec::new();
        let look = |left: &mut Vec<Left>| -> rusqlite::Result<Vec<R>> {
            let mut found = Vec::with_capacity(limit.min(HEADS));
            let mut in_run = false;
            let mut statement = self.connection.prepare_cached(sql)?;
            let mut rows = statement.query(values)?;
            while found.len() < limit
                && let Some(row) = rows.next()?
            {
                if row.get::<_, Option<u8>>(2)? == Some(READY) {
                    found.push(read(row)?);
                    in_run = false;
                    continue;
                }
                let (priority, seq) = (row.get(0)?, row.get(1)?);
                match left.last_mut() {
                    Some(run) if in_run && run.priority == priority => run.last = seq,
                    _ => left.push(Left { priority, first: seq, last: seq }),
                }
                in_run = true;
            }
            Ok(found)
        };
        let found = look(&mut left).map_err(|error| self.explain(&error))?;
        self.left.borrow_mut().remove(&signed(lane.0));
        for run in left {
            self.clear_places(signed(lane.0), run.priority, run.first, run.last)?;
        }
        Ok(found)
    }

    /// Claims left so many places in a lane.
    pub(super) fn leave_places(&self, lane: i64, count: usize) -> Result<()> {
        let left = {
            let mut left = self.left.borrow_mut();
            let left = left.entry(lane).or_default();
            *left += count;
            *left
        };
        if left >= LEFT {
            // Looking for the first ready job clears everything before it.
            self.ready_heads(LaneId(unsigned(lane)), None, 1)?;
        }
        Ok(())
    }

    /// Clears the places of jobs that stand next to each other in a lane and are not ready.
    pub(super) fn clear_places(
        &self,
        lane: i64,
        priority: i32,
        first: i64,
        last: i64,
    ) -> Result<()> {
        let sql = "DELETE FROM ready WHERE lane = ?1 AND priority = ?2 AND seq BETWEEN ?3 AND ?4";
        self.run_now(sql, params![lane, priority, first, last]).map(drop)
    }
}
