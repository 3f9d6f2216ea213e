//! Leases that are written as one row together: those of jobs that were claimed for the first time, and to which nothing
//! else has happened. Whatever happens to one of them next gives it a row of its own.

use std::collections::HashSet;

use runcue_core::{Job, Lease, Life, Seq, State, Timestamp, Wait};
use runcue_store::overlay::{JobWrite, WriteSet};
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::flight::{Value, column};
use crate::rows::{flags, signed, small, stage};

/// Fewer than this are cheaper with rows of their own.
const FEWEST: usize = 4;
/// So many at the most, as the schema has it, which refuses more.
const MOST: usize = 1000;

/// Runs of leases, by column.
#[derive(Default)]
pub struct LeaseRuns {
    token: Vec<i64>,
    at: Vec<i32>,
    jobs: Vec<i32>,
    low: Vec<i64>,
    high: Vec<i64>,
    stage: Vec<i16>,
    due: Vec<Option<i64>>,
    attempt: Vec<i32>,
    started_at: Vec<Option<i64>>,
    worker: Vec<Uuid>,
    start_by: Vec<Option<i64>>,
    seqs: Vec<i64>,
}

impl LeaseRuns {
    /// The runs of a turn, and the jobs in them.
    pub fn of(writes: &WriteSet) -> (Self, HashSet<Seq>) {
        let mut first: Vec<(&Job, &Lease)> = writes.jobs.values().filter_map(first_claim).collect();
        first.sort_unstable_by_key(|(_, lease)| lease.token);
        let (mut runs, mut inside) = (Self::default(), HashSet::new());
        for run in first.chunk_by(|one, next| follows(*one, *next)).flat_map(|run| run.chunks(MOST))
        {
            if run.len() >= FEWEST {
                runs.add(run);
                inside.extend(run.iter().map(|(job, _)| job.seq));
            }
        }
        (runs, inside)
    }

    fn add(&mut self, run: &[(&Job, &Lease)]) {
        let Some((job, lease)) = run.first() else { return };
        let (stage, due) = stage(&job.life.state);
        let seqs = run.iter().map(|(job, _)| signed(job.seq.0));
        self.token.push(signed(lease.token.0));
        self.at.push(i32::try_from(self.seqs.len() + 1).unwrap_or(i32::MAX));
        self.jobs.push(i32::try_from(run.len()).unwrap_or(i32::MAX));
        self.low.push(seqs.clone().min().unwrap_or_default());
        self.high.push(seqs.clone().max().unwrap_or_default());
        self.stage.push(stage);
        self.due.push(due);
        self.attempt.push(small(job.life.attempt));
        self.started_at.push(job.life.started_at.map(Timestamp::as_micros));
        self.worker.push(Uuid::from_u128(lease.worker.as_u128()));
        self.start_by.push(lease.start_by.map(Timestamp::as_micros));
        self.seqs.extend(seqs);
    }

    pub fn values(&self) -> Vec<Value<'_>> {
        vec![
            column(&self.token, Type::INT8_ARRAY),
            column(&self.at, Type::INT4_ARRAY),
            column(&self.jobs, Type::INT4_ARRAY),
            column(&self.low, Type::INT8_ARRAY),
            column(&self.high, Type::INT8_ARRAY),
            column(&self.stage, Type::INT2_ARRAY),
            column(&self.due, Type::INT8_ARRAY),
            column(&self.attempt, Type::INT4_ARRAY),
            column(&self.started_at, Type::INT8_ARRAY),
            column(&self.worker, Type::UUID_ARRAY),
            column(&self.start_by, Type::INT8_ARRAY),
            column(&self.seqs, Type::INT8_ARRAY),
        ]
    }
}

/// A job that was ready and is held now, if what a run says of it is all there is to say.
fn first_claim(write: &JobWrite) -> Option<(&Job, &Lease)> {
    let JobWrite::Change { job, before: State::Queued(Wait::Turn) } = write else { return None };
    let lease = job.life.state.lease()?;
    let untouched = Life {
        state: job.life.state.clone(),
        attempt: job.life.attempt,
        started_at: job.life.started_at,
        ..Life::begin(job.life.created_at, Wait::Turn)
    };
    (job.life == untouched && flags(job) == 0).then_some((job, lease))
}

/// Whether a lease is the next after another, and otherwise the same.
fn follows((job, lease): (&Job, &Lease), (next_job, next): (&Job, &Lease)) -> bool {
    next.token.0 == lease.token.0 + 1
        && next_job.life.state.word() == job.life.state.word()
        && next_job.life.attempt == job.life.attempt
        && next_job.life.started_at == job.life.started_at
        && (next.worker, next.until, next.start_by) == (lease.worker, lease.until, lease.start_by)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use runcue_core::{JobId, JobSpec, LaneId, TaskName, Token, WorkerId};

    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_000);

    /// So many jobs that were claimed one after the other, each changed as said.
    fn runs(count: u64, change: impl Fn(u64, &mut Job, &mut Lease)) -> Vec<i32> {
        let mut writes = WriteSet::default();
        for n in 1..=count {
            let id = JobId::from_u128(n.into());
            let spec = Arc::new(JobSpec::new(id, TaskName::new("t").unwrap()));
            let life = Life::begin(NOW, Wait::Turn);
            let life = Life { attempt: 1, started_at: Some(NOW), ..life };
            let mut job = Job { seq: Seq(n), lane: LaneId(1), spec, life, has_dependents: false };
            let mut lease = Lease {
                job: id,
                attempt: 1,
                worker: WorkerId::from_u128(1),
                token: Token(100 + n),
                until: NOW.plus(Duration::from_secs(30)),
                start_by: None,
            };
            change(n, &mut job, &mut lease);
            job.life.state = State::Running(lease);
            let before = State::Queued(Wait::Turn);
            writes.jobs.insert(job.seq, JobWrite::Change { job, before });
        }
        let (runs, inside) = LeaseRuns::of(&writes);
        assert_eq!(inside.len(), runs.seqs.len());
        runs.jobs
    }

    #[test]
    fn leases_that_follow_each_other_are_a_run_if_they_are_enough() {
        assert_eq!(runs(10, |_, _, _| {}), [10]);
        assert!(runs(3, |_, _, _| {}).is_empty());
        assert_eq!(runs(2_001, |_, _, _| {}), [1_000, 1_000]);
        assert_eq!(runs(10, |n, _, lease| lease.token.0 += u64::from(n > 5)), [5, 5]);
    }

    #[test]
    fn what_a_run_says_of_all_is_the_same_for_all() {
        let other = WorkerId::from_u128(2);
        let half = |n: u64| n > 5;
        assert_eq!(
            runs(10, |n, _, lease| if half(n) {
                lease.worker = other
            }),
            [5, 5]
        );
        assert_eq!(
            runs(10, |n, _, lease| if half(n) {
                lease.until = NOW
            }),
            [5, 5]
        );
        assert_eq!(
            runs(10, |n, _, lease| if half(n) {
                lease.start_by = Some(NOW)
            }),
            [5, 5]
        );
        let later = Some(NOW.plus(Duration::from_secs(1)));
        assert_eq!(
            runs(10, |n, job, _| if half(n) {
                job.life.started_at = later
            }),
            [5, 5]
        );
        assert_eq!(
            runs(10, |n, job, _| if half(n) {
                job.life.attempt = 2
            }),
            [5, 5]
        );
    }

    #[test]
    fn a_job_to_which_more_has_happened_has_a_row_of_its_own() {
        let fifth = |n: u64| n == 5;
        assert_eq!(
            runs(10, |n, job, _| if fifth(n) {
                job.life.crashes = 1
            }),
            [4, 5]
        );
        assert_eq!(runs(10, |n, job, _| job.has_dependents = fifth(n)), [4, 5]);
        assert_eq!(runs(10, |n, job, _| job.life.cancel_requested = fifth(n)), [4, 5]);
        let error = || Some("boom".to_owned());
        assert_eq!(
            runs(10, |n, job, _| if fifth(n) {
                job.life.last_error = error()
            }),
            [4, 5]
        );
    }
}
