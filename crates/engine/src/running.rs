//! The jobs this engine holds a lease for: from the claim until the store has taken in how they ended.
//! Owns what the parts of the engine tell each other about a held job; talks to no store.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use runcue_core::{Job, JobId, Lease, Progress, Timestamp, Token};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// A job says how far it is at most this often.
pub(crate) const PROGRESS_EVERY: Duration = Duration::from_secs(1);

/// Why an attempt is not to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Stop {
    /// It is to go on.
    Not = 0,
    /// Somebody withdrew the job.
    Cancelled = 1,
    /// The engine is stopping.
    HandBack = 2,
    /// The lease is somebody else's now.
    Lost = 3,
}

/// One held job.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) job: Job,
    pub(crate) lease: Lease,
    /// When the store was asked for it.
    pub(crate) asked: Timestamp,
    pub(crate) cancel: CancellationToken,
    stop: AtomicU8,
    /// The handler has looked and was told to stop.
    seen: AtomicBool,
    /// How it ended has been said; nothing said later counts.
    ended: AtomicBool,
    progress: Mutex<Reported>,
}

#[derive(Debug, Default)]
struct Reported {
    next: Option<Progress>,
    sent_at: Option<Timestamp>,
}

impl Running {
    pub(crate) fn new(job: Job, lease: Lease, asked: Timestamp) -> Self {
        Self {
            job,
            lease,
            asked,
            cancel: CancellationToken::new(),
            stop: AtomicU8::new(0),
            seen: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            progress: Mutex::default(),
        }
    }

    pub(crate) fn id(&self) -> JobId {
        self.job.spec.id
    }

    /// Asks the attempt to stop. A reason is only ever replaced by a graver one.
    pub(crate) fn stop(&self, why: Stop) -> bool {
        let before = self.stop.fetch_max(why as u8, Ordering::AcqRel);
        self.cancel.cancel();
        before < why as u8
    }

    pub(crate) fn why_stop(&self) -> Stop {
        match self.stop.load(Ordering::Acquire) {
            0 => Stop::Not,
            1 => Stop::Cancelled,
            2 => Stop::HandBack,
            _ => Stop::Lost,
        }
    }

    /// Whether it is asked to stop, for a handler that looks.
    pub(crate) fn look(&self) -> bool {
        let asked = self.cancel.is_cancelled();
        if asked {
            self.seen.store(true, Ordering::Relaxed);
        }
        asked
    }

    pub(crate) fn was_seen(&self) -> bool {
        self.seen.load(Ordering::Relaxed)
    }

    /// Says that it has ended. Only the first to say so may report how.
    pub(crate) fn end(&self) -> bool {
        !self.ended.swap(true, Ordering::AcqRel)
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    fn reported(&self) -> MutexGuard<'_, Reported> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// When the latest report may be sent, if there is an unsent one.
    fn progress_due(&self) -> Option<Timestamp> {
        let reported = self.reported();
        reported.next.as_ref()?;
        Some(reported.sent_at.map_or(Timestamp::ZERO, |at| at.plus(PROGRESS_EVERY)))
    }

    pub(crate) fn take_progress(&self, now: Timestamp) -> Option<Progress> {
        let mut reported = self.reported();
        let due = reported.sent_at.is_none_or(|at| at.plus(PROGRESS_EVERY) <= now);
        let next = if due { reported.next.take() } else { None };
        if next.is_some() {
            reported.sent_at = Some(now);
        }
        next
    }

    /// Takes back a report that could not be sent, unless there is a newer one.
    pub(crate) fn return_progress(&self, progress: Progress) {
        let mut reported = self.reported();
        reported.next.get_or_insert(progress);
        reported.sent_at = None;
    }
}

/// All held jobs.
#[derive(Debug, Default)]
pub(crate) struct RunningJobs {
    held: Mutex<HashMap<Token, Arc<Running>>>,
    added: Notify,
    progress: Notify,
}

impl RunningJobs {
    fn held(&self) -> MutexGuard<'_, HashMap<Token, Arc<Running>>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn add(&self, asked: Timestamp, jobs: Vec<(Job, Lease)>) -> Vec<Arc<Running>> {
        let mut held = self.held();
        let mut added = Vec::with_capacity(jobs.len());
        for (job, lease) in jobs {
            let running = Arc::new(Running::new(job, lease, asked));
            held.insert(running.lease.token, Arc::clone(&running));
            added.push(running);
        }
        drop(held);
        if !added.is_empty() {
            self.added.notify_one();
        }
        added
    }

    /// Waits for jobs to be added. One may be cancelled between its claim and now, and that news is past.
    pub(crate) async fn added(&self) {
        self.added.notified().await;
    }

    pub(crate) fn remove<'a>(&self, gone: impl IntoIterator<Item = &'a Arc<Running>>) {
        let mut held = self.held();
        for running in gone {
            held.remove(&running.lease.token);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.held().is_empty()
    }

    pub(crate) fn all(&self) -> Vec<Arc<Running>> {
        self.held().values().cloned().collect()
    }

    /// Those that have something to report by then.
    pub(crate) fn with_progress(&self, now: Timestamp) -> Vec<Arc<Running>> {
        let due = |running: &&Arc<Running>| running.progress_due().is_some_and(|at| at <= now);
        self.held().values().filter(due).cloned().collect()
    }

    /// When the next report is to be sent.
    pub(crate) fn progress_due(&self) -> Option<Timestamp> {
        self.held().values().filter_map(|running| running.progress_due()).min()
    }

    /// Notes how far a job is; only the latest report is kept.
    pub(crate) fn note_progress(&self, running: &Running, progress: Progress) {
        let first = running.reported().next.replace(progress).is_none();
        if first {
            self.progress.notify_one();
        }
    }

    /// Waits for a report of a job that had nothing unsent.
    pub(crate) async fn progress_noted(&self) {
        self.progress.notified().await;
    }
}
