//! What the parts of one engine share: the store, the clock, the jobs it holds, and how it was set up. Owns
//! no behaviour beyond asking the store and telling the time.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use runcue_core::submission::AfterFailure;
use runcue_core::{Capabilities, ClaimFilter, TaskName, TaskSpec, Timestamp};
use runcue_store::{ClaimRequest, Result, Retention, Stats, Store, StoreError, WorkerSpec};
use runcue_trace::Tracer;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use crate::backpressure::Backpressure;
use crate::callbacks::Callbacks;
use crate::clock::Clock;
use crate::complete::Completer;
use crate::ids::IdSource;
use crate::logs::Logs;
use crate::metrics::Metrics;
use crate::outage::Outage;
use crate::parked::parked;
use crate::running::RunningJobs;
use crate::score::Scores;
use crate::start_within::StartWithin;
use crate::task::{Handler, Task};
use crate::wait::Waiters;

/// How an engine was set up.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) lease: Duration,
    pub(crate) heartbeat: Duration,
    pub(crate) reap_every: Duration,
    pub(crate) reap_after: Duration,
    pub(crate) prune_every: Duration,
    pub(crate) status_every: Duration,
    pub(crate) poll: Duration,
    pub(crate) start_within: Duration,
    pub(crate) stop_grace: Duration,
    pub(crate) cancel_grace: Duration,
    pub(crate) filter: ClaimFilter,
    pub(crate) offers: Option<Capabilities>,
    pub(crate) retention: Option<Retention>,
    pub(crate) after_failure: AfterFailure,
}

/// What one engine's parts share.
pub(crate) struct Shared {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) ids: Arc<dyn IdSource>,
    pub(crate) worker: WorkerSpec,
    pub(crate) registered: AtomicBool,
    pub(crate) settings: Settings,
    pub(crate) tracer: Tracer,
    pub(crate) start_within: StartWithin,
    pub(crate) tasks: RwLock<HashMap<TaskName, Arc<Task>>>,
    pub(crate) known: RwLock<HashMap<String, TaskSpec>>,
    pub(crate) fallback: Option<Arc<dyn Handler>>,
    pub(crate) slots: AtomicUsize,
    /// Handlers at work now. Only its decrease is news.
    pub(crate) active: watch::Sender<usize>,
    pub(crate) running: Arc<RunningJobs>,
    pub(crate) logs: Arc<Logs>,
    pub(crate) completer: Completer,
    pub(crate) callbacks: Callbacks,
    pub(crate) scores: Scores,
    pub(crate) backpressure: Backpressure,
    pub(crate) waiters: Waiters,
    pub(crate) outage: Outage,
    pub(crate) metrics: Arc<Metrics>,
    /// Goes up whenever something changed in the store.
    pub(crate) news: watch::Sender<u64>,
    pub(crate) status: watch::Sender<Option<Arc<Stats>>>,
    pub(crate) look_at_status: Notify,
    pub(crate) look_at_reap: Notify,
    pub(crate) look_at_schedules: Notify,
    /// When the last claim and the last reap said to come back.
    pub(crate) wakes: std::sync::Mutex<Wakes>,
    /// No more claims.
    pub(crate) stopping: CancellationToken,
    /// Everything is over; also when the last handle is dropped.
    pub(crate) over: CancellationToken,
}

/// When there may be something to do by itself.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Wakes {
    pub(crate) claim: Option<Timestamp>,
    pub(crate) reap: Option<Timestamp>,
    /// Claims made so far.
    pub(crate) claims: u64,
}

impl Shared {
    /// Waits for an answer of the store. Under virtual time the clock stands still meanwhile.
    pub(crate) async fn ask<T>(&self, question: impl Future<Output = T>) -> T {
        if self.clock.is_virtual() { parked(question).await } else { question.await }
    }

    /// Sleeps until an instant on the engine's clock; for ever, if there is none.
    pub(crate) async fn sleep_until(&self, at: Option<Timestamp>) {
        match at {
            Some(at) => tokio::time::sleep(at.since(self.clock.now())).await,
            None => std::future::pending().await,
        }
    }

    /// The store could not do something, and it will be tried again.
    pub(crate) fn refused(&self, what: &'static str, error: &StoreError) {
        self.outage.tell(self.clock.now(), what, error);
    }

    pub(crate) fn task(&self, name: &TaskName) -> Option<Arc<Task>> {
        self.tasks.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    /// What runs a task's jobs here.
    pub(crate) fn handler(&self, name: &TaskName) -> Option<Arc<dyn Handler>> {
        let own = self.task(name).and_then(|task| task.handler.clone());
        own.or_else(|| self.fallback.clone())
    }

    /// Which jobs this engine can run, or nothing if it can run none.
    pub(crate) fn filter(&self) -> Option<ClaimFilter> {
        let mut filter = self.settings.filter.clone();
        if self.fallback.is_some() || !filter.tasks.is_empty() {
            return Some(filter);
        }
        let tasks = self.tasks.read().unwrap_or_else(PoisonError::into_inner);
        let runnable = tasks.values().filter(|task| task.handler.is_some());
        filter.tasks = runnable.map(|task| task.spec.name.clone()).collect();
        (!filter.tasks.is_empty()).then_some(filter)
    }

    pub(crate) fn free_slots(&self) -> usize {
        self.slots.load(Ordering::Relaxed).saturating_sub(*self.active.borrow())
    }

    pub(crate) fn request(&self, filter: ClaimFilter, max: usize) -> ClaimRequest {
        ClaimRequest {
            lease: self.settings.lease,
            start_within: self.start_within.span(),
            filter,
            offers: self.settings.offers.clone(),
            again: !self.callbacks.are_set(),
            ..ClaimRequest::new(self.worker.id, max)
        }
    }

    /// Makes this worker instance known, once.
    pub(crate) async fn register(&self) -> Result<()> {
        if self.registered.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        let known = self.store.upsert_worker(self.clock.now(), self.worker.clone());
        let answer = self.ask(known).await;
        if answer.is_err() {
            self.registered.store(false, Ordering::Release);
        }
        answer
    }

    pub(crate) fn note_wakes(&self, note: impl FnOnce(&mut Wakes)) {
        note(&mut self.wakes.lock().unwrap_or_else(PoisonError::into_inner));
    }

    pub(crate) fn wakes(&self) -> Wakes {
        *self.wakes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Turns the store's changes into news for every part of the engine, with one waiter at the store.
pub(crate) async fn watch_store(
    store: Arc<dyn Store>,
    news: watch::Sender<u64>,
    over: CancellationToken,
) {
    let mut version = 0;
    loop {
        tokio::select! {
            biased;
            () = over.cancelled() => return,
            next = store.changed(version) => version = next,
        }
        news.send_modify(|news| *news += 1);
    }
}

/// How long a number has not changed when it is quiet, where many jobs run, and how long that is waited for at the most.
const QUIET: Duration = Duration::from_micros(60);
const NOT_LONGER: Duration = Duration::from_millis(5);
/// So many are many.
const MANY: usize = 64;

impl Shared {
    /// Jobs tend to end together: lets those that are about to, end. As long as a number changes it waits for others to
    /// have their turn in the runtime, but not for long: there may always be some that end.
    pub(crate) async fn until_quiet(&self, number: impl Fn() -> usize) {
        let begun = std::time::Instant::now();
        let (mut known, mut since) = (number(), begun);
        let many = known.max(*self.active.borrow()) >= MANY;
        loop {
            tokio::task::yield_now().await;
            let (now, at) = (number(), std::time::Instant::now());
            if now != known {
                (known, since) = (now, at);
            } else if !many || at - since > QUIET {
                return;
            }
            if at - begun > NOT_LONGER {
                return;
            }
        }
    }
}

/// How long to wait before the next try, after so many failed ones in a row.
pub(crate) fn backoff(failures: u32) -> Duration {
    let doubled = Duration::from_millis(50).saturating_mul(1 << failures.min(7));
    doubled.min(Duration::from_secs(5))
}
