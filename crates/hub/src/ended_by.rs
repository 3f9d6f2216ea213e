//! Who ran the last attempt of a job that has ended. A job keeps the workers of its failed attempts; who completed it, or
//! had it when it was withdrawn, stands only in the event of its end. Owns the way to that event: events are in the
//! order of time, so it is looked up by the instant of the end, and not by reading them all.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use runcue_core::{Event, Job, JobId, Timestamp, WorkerId};
use runcue_store::{Store, StoreError};

/// Clocks of several processes that write events may differ by this much.
const SKEW: Duration = Duration::from_millis(500);
/// Events that are read at once, and how often, before it is given up.
const BATCH: usize = 1_000;
const BATCHES: usize = 10;
/// Answers that are remembered; beyond that all are looked up anew.
const MOST: usize = 10_000;

/// Who ended jobs, as far as it was asked.
#[derive(Debug, Default)]
pub struct EndedBy {
    found: Mutex<HashMap<(JobId, Timestamp), Option<WorkerId>>>,
}

impl EndedBy {
    /// The worker of a job's last attempt; nothing if it never ran, has not ended, or that is no longer kept.
    pub async fn of(&self, store: &dyn Store, job: &Job) -> Result<Option<WorkerId>, StoreError> {
        let life = &job.life;
        let Some(at) = life.finished_at.filter(|_| life.attempt > 0) else { return Ok(None) };
        let last = life.failures.last().filter(|failure| failure.attempt == life.attempt);
        if let Some(failed) = last {
            return Ok(failed.worker_id);
        }
        let known =
            self.found.lock().unwrap_or_else(PoisonError::into_inner).get(&(job.id(), at)).copied();
        if let Some(known) = known {
            return Ok(known);
        }
        let event = find(store, job.id(), at).await?;
        let worker = event.and_then(|event| event.worker);
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        if found.len() >= MOST {
            found.clear();
        }
        found.insert((job.id(), at), worker);
        Ok(worker)
    }
}

/// The event of a job's end at an instant.
async fn find(store: &dyn Store, job: JobId, at: Timestamp) -> Result<Option<Event>, StoreError> {
    let mut after = before(store, at.minus(SKEW)).await?;
    for _ in 0..BATCHES {
        let events = store.events(after, BATCH).await?;
        let Some(last) = events.last() else { return Ok(None) };
        let over = last.at > at.plus(SKEW);
        after = last.seq;
        let its = |event: &Event| event.job == Some(job) && event.kind.is_final() && event.at == at;
        if let Some(found) = events.into_iter().find(its) {
            return Ok(Some(found));
        }
        if over {
            return Ok(None);
        }
    }
    Ok(None)
}

/// A number of an event before all that happened from an instant on.
async fn before(store: &dyn Store, at: Timestamp) -> Result<u64, StoreError> {
    let (mut low, mut high) = (0, store.last_event().await?);
    while low < high {
        let middle = low + (high - low) / 2;
        let next = store.events(middle, 1).await?;
        match next.first() {
            // What is no longer kept happened before, too.
            Some(event) if event.at < at => low = event.seq.min(high),
            _ => high = middle,
        }
    }
    Ok(low)
}
