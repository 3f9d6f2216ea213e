//! Leases that are written as one row together: those of jobs that were claimed for the first time, and to which nothing
//! else has happened. Whatever happens to one of them next gives it a row of its own.

use std::collections::HashSet;

use runcue_core::{Job, Lease, Life, Seq, State, Timestamp, Wait};
use runcue_store::overlay::{JobWrite, WriteSet};
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::flight::Value;
use crate::rows::{flags, signed, small, stage};

/// Fewer than this are cheaper with rows of their own.
const FEWEST: usize = 4;
/// So many at the most: a lease finds its run among those whose first number is no further from its own than this. The
/// schema knows it.
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
            (&self.token, Type::INT8_ARRAY),
            (&self.at, Type::INT4_ARRAY),
            (&self.jobs, Type::INT4_ARRAY),
            (&self.low, Type::INT8_ARRAY),
            (&self.high, Type::INT8_ARRAY),
            (&self.stage, Type::INT2_ARRAY),
            (&self.due, Type::INT8_ARRAY),
            (&self.attempt, Type::INT4_ARRAY),
            (&self.started_at, Type::INT8_ARRAY),
            (&self.worker, Type::UUID_ARRAY),
            (&self.start_by, Type::INT8_ARRAY),
            (&self.seqs, Type::INT8_ARRAY),
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
