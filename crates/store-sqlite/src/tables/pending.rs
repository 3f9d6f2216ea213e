//! Changes that a whole batch of jobs shares, collected and written with one statement for each run of
//! consecutive jobs. A statement per job would cost more than its row.
//!
//! Whatever is asked or written in between settles them first, so nobody sees the difference.

use super::*;
use runcue_core::Token;

/// What a claim writes to a job; the same for most jobs of a batch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Claim {
    pub stage: u8,
    pub due: Option<i64>,
    pub attempt: u32,
    pub started_at: Option<i64>,
    pub worker: [u8; 16],
    pub start_by: Option<i64>,
    pub had_deadline: bool,
}

/// A run of so many jobs of one lane takes their places with it: one statement clears them all, and
/// whoever looks for the lane's next jobs need not pass them. Shorter runs leave them.
const CLEARED: usize = 16;

/// What a completion writes to a job.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct End {
    pub stage: u8,
    pub due: Option<i64>,
    pub has_outcome: bool,
}

/// The changes that are not written yet: of one kind, with the same values.
#[derive(Debug, Default)]
pub struct Pending {
    claim: Option<Claim>,
    end: Option<End>,
    jobs: Vec<Changed>,
}

/// One of the jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Changed {
    seq: i64,
    /// The number of its claim.
    token: i64,
    lane: i64,
    priority: i32,
}

impl Changed {
    fn new(job: &Job, token: i64) -> Self {
        let (seq, lane) = (signed(job.seq.0), signed(job.lane.0));
        Self { seq, token, lane, priority: job.spec.priority }
    }

    /// Whether another one follows it in every respect.
    fn leads_to(&self, next: &Self) -> bool {
        self.seq + 1 == next.seq && self.token + 1 == next.token
    }

    fn is_beside(&self, next: &Self) -> bool {
        self.lane == next.lane && self.priority == next.priority
    }
}

impl Pending {
    pub fn clear(&mut self) {
        self.claim = None;
        self.end = None;
        self.jobs.clear();
    }
}

impl SqliteTables {
    pub(super) fn add_claim(&self, job: &Job, token: Token, claim: Claim) -> Result<()> {
        if self.pending.borrow().claim != Some(claim) {
            self.settle()?;
        }
        let mut pending = self.pending.borrow_mut();
        pending.claim = Some(claim);
        pending.jobs.push(Changed::new(job, signed(token.0)));
        Ok(())
    }

    pub(super) fn add_end(&self, job: &Job, end: End) -> Result<()> {
        if self.pending.borrow().end != Some(end) {
            self.settle()?;
        }
        let mut pending = self.pending.borrow_mut();
        pending.end = Some(end);
        pending.jobs.push(Changed::new(job, signed(job.seq.0)));
        Ok(())
    }

    /// Writes what is pending.
    pub(super) fn settle(&self) -> Result<()> {
        if self.pending.borrow().jobs.is_empty() {
            return Ok(());
        }
        let mut pending = self.pending.take();
        pending.jobs.sort_unstable();
        for run in pending.jobs.chunk_by(Changed::leads_to) {
            let (Some(first), Some(last)) = (run.first(), run.last()) else { continue };
            if let Some(claim) = &pending.claim {
                self.write_claims(first.seq, last.seq, first.token - first.seq, claim)?;
                self.clear_long(run)?;
            }
            if let Some(end) = &pending.end {
                self.run_now(
                    "UPDATE OR FAIL job SET stage = ?3, due = ?4, has_outcome = has_outcome OR ?5 \
                     WHERE seq BETWEEN ?1 AND ?2",
                    params![first.seq, last.seq, end.stage, end.due, end.has_outcome],
                )?;
            }
        }
        pending.clear();
        self.pending.replace(pending);
        Ok(())
    }

    /// Clears the places of claimed jobs where one statement clears many of them.
    fn clear_long(&self, run: &[Changed]) -> Result<()> {
        for places in run.chunk_by(Changed::is_beside) {
            let (Some(first), Some(last)) = (places.first(), places.last()) else { continue };
            if places.len() >= CLEARED {
                self.clear_places(first.lane, first.priority, first.seq, last.seq)?;
            } else {
                self.leave_places(first.lane, places.len())?;
            }
        }
        Ok(())
    }

    /// Claims jobs that stand next to each other and were claimed one after the other.
    fn write_claims(&self, first: i64, last: i64, offset: i64, claim: &Claim) -> Result<()> {
        // Only the columns that change are named, because SQLite rewrites every index that a named column
        // belongs to.
        let sql = if claim.had_deadline {
            "UPDATE OR FAIL job SET stage = ?3, due = ?4, attempt = ?5, started_at = ?6, worker = ?7, start_by = ?8, \
             token = seq + ?9, deadline = NULL WHERE seq BETWEEN ?1 AND ?2"
        } else {
            "UPDATE OR FAIL job SET stage = ?3, due = ?4, attempt = ?5, started_at = ?6, worker = ?7, start_by = ?8, \
             token = seq + ?9 WHERE seq BETWEEN ?1 AND ?2"
        };
        let values = params![
            first,
            last,
            claim.stage,
            claim.due,
            claim.attempt,
            claim.started_at,
            &claim.worker[..],
            claim.start_by,
            offset,
        ];
        self.run_now(sql, values).map(drop)
    }
}
