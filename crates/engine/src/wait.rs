//! Waiting for jobs to end. One reader of the event stream serves everybody who waits, so a thousand waiting
//! callers cost one.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use runcue_core::{Job, JobId};
use runcue_store::{Result, StoreError};
use tokio::sync::{Notify, oneshot};

use crate::error::Error;
use crate::shared::{Shared, backoff};

/// Events read at a time.
const BATCH: usize = 512;

/// Everybody who waits for a job.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    waiting: Mutex<HashMap<JobId, Vec<oneshot::Sender<Job>>>>,
    first: Notify,
}

impl Waiters {
    fn waiting(&self) -> MutexGuard<'_, HashMap<JobId, Vec<oneshot::Sender<Job>>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn register(&self, id: JobId) -> oneshot::Receiver<Job> {
        let (tell, told) = oneshot::channel();
        let mut waiting = self.waiting();
        let first = waiting.is_empty();
        waiting.entry(id).or_default().push(tell);
        drop(waiting);
        if first {
            self.first.notify_one();
        }
        told
    }

    /// Tells those who wait for jobs that have ended.
    fn tell(&self, jobs: Vec<Job>) {
        let mut waiting = self.waiting();
        for job in jobs.into_iter().filter(|job| job.life.state.word().is_final()) {
            for tell in waiting.remove(&job.id()).into_iter().flatten() {
                let _ = tell.send(job.clone());
            }
        }
    }

    /// Of these jobs, those that somebody waits for. Forgets who no longer does.
    fn wanted(&self, ids: impl Iterator<Item = JobId>) -> Vec<JobId> {
        let waiting = self.waiting();
        ids.filter(|id| waiting.contains_key(id)).collect()
    }

    fn tidy(&self) -> bool {
        let mut waiting = self.waiting();
        waiting.retain(|_, tells| {
            tells.retain(|tell| !tell.is_closed());
            !tells.is_empty()
        });
        waiting.is_empty()
    }
}

/// Waits until a job has ended, or the engine.
pub(crate) async fn wait(shared: &Shared, id: JobId) -> crate::error::Result<Job> {
    let told = shared.waiters.register(id);
    // Only after registering: an end between the look and the registration would be missed.
    let now = shared.ask(shared.store.get(vec![id])).await?;
    let job = now.into_iter().next().flatten().ok_or(StoreError::NotFound(id))?;
    if job.life.state.word().is_final() {
        return Ok(job);
    }
    tokio::select! {
        biased;
        job = told => job.map_err(|_| Error::Stopped),
        () = shared.over.cancelled() => Err(Error::Stopped),
    }
}

/// Reads events for those who wait, while there are any.
pub(crate) async fn serve(shared: &Shared) {
    loop {
        tokio::select! {
            biased;
            () = shared.over.cancelled() => break,
            () = shared.waiters.first.notified() => {}
        }
        let mut failures = 0;
        while let Err(error) = follow(shared).await {
            failures += 1;
            shared.refused("events could not be read", &error);
            tokio::select! {
                biased;
                () = shared.over.cancelled() => break,
                () = tokio::time::sleep(backoff(failures)) => {}
            }
        }
        if shared.over.is_cancelled() {
            break;
        }
    }
    shared.waiters.waiting().clear();
}

async fn follow(shared: &Shared) -> Result<()> {
    let mut news = shared.news.subscribe();
    let mut after = shared.ask(shared.store.last_event()).await?;
    // Whatever ended before that event is seen by this look, whatever ends later by its event.
    let all: Vec<JobId> = shared.waiters.waiting().keys().copied().collect();
    look(shared, all).await?;
    while !shared.waiters.tidy() && !shared.over.is_cancelled() {
        news.mark_unchanged();
        let events = shared.ask(shared.store.events(after, BATCH)).await?;
        let full = events.len() == BATCH;
        after = events.last().map_or(after, |event| event.seq);
        let ended = events.iter().filter(|event| event.kind.is_final()).filter_map(|e| e.job);
        look(shared, shared.waiters.wanted(ended)).await?;
        if full {
            continue;
        }
        tokio::select! {
            biased;
            () = shared.over.cancelled() => {}
            _ = news.changed() => {}
            () = tokio::time::sleep(shared.settings.poll) => {}
        }
    }
    Ok(())
}

async fn look(shared: &Shared, ids: Vec<JobId>) -> Result<()> {
    if ids.is_empty() {
        return Ok(());
    }
    let jobs = shared.ask(shared.store.get(ids)).await?;
    shared.waiters.tell(jobs.into_iter().flatten().collect());
    Ok(())
}
