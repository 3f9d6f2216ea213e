//! Ended attempts on their way to the store. Few batches are on their way at a time, and what ends meanwhile makes
//! the next one: many jobs share a transaction without anyone waiting for company.
//!
//! Claims go to the store behind the ends that made room for them ([`Completer::all_sent`]): what those held is free by
//! then, and the store can do both in one commit.
//!
//! A completion is kept, and its lease extended, until the store has taken it in or says that the job is
//! somebody else's.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use runcue_core::{StateWord, Timestamp};
use runcue_store::{Finish, Finished, Outcome, Result, StoreError};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use crate::running::Running;
use crate::shared::{Shared, backoff};

/// So often a batch waits for its output.
const OUTPUT_TRIES: u32 = 5;
/// Batches that are on their way to the store at the most.
const AT_A_TIME: usize = 4;

#[derive(Clone)]
struct Ended {
    running: Arc<Running>,
    outcome: Outcome,
}

/// Writes down how attempts ended.
#[derive(Default)]
pub(crate) struct Completer {
    waiting: Mutex<Vec<Ended>>,
    arrived: Notify,
    /// A batch is on its way to the store.
    sent: Notify,
    /// The store does not take them in at the moment.
    stuck: AtomicBool,
    /// How often in a row their output could not go first.
    without_output: AtomicU32,
    /// Reported but not yet taken in by the store.
    pending: watch::Sender<usize>,
}

impl Completer {
    fn waiting(&self) -> MutexGuard<'_, Vec<Ended>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn push(&self, running: Arc<Running>, outcome: Outcome) {
        // Counted first: once it is in the list it may be written, and counted off, at any moment.
        self.pending.send_modify(|pending| *pending += 1);
        self.waiting().push(Ended { running, outcome });
        self.arrived.notify_one();
    }

    /// Waits until everything reported is on its way to the store, unless the store does not take it in.
    pub(crate) async fn all_sent(&self) {
        loop {
            let mut sent = pin!(self.sent.notified());
            sent.as_mut().enable();
            if self.waiting().is_empty() || self.stuck.load(Ordering::Relaxed) {
                return;
            }
            sent.await;
        }
    }

    /// Whether everything reported has been taken in.
    pub(crate) fn is_idle(&self) -> bool {
        *self.pending.borrow() == 0
    }

    /// Waits until everything reported has been taken in.
    pub(crate) async fn idle(&self) {
        let _ = self.pending.subscribe().wait_for(|pending| *pending == 0).await;
    }

    /// Writes everything that waits, in one batch. When the store could not, it all waits again.
    pub(crate) async fn run_once(&self, shared: &Shared, now: Timestamp) -> Result<usize> {
        let batch = std::mem::take(&mut *self.waiting());
        if batch.is_empty() {
            return Ok(0);
        }
        // Output is only taken from whoever holds the lease, so it goes first. But it is worth less than the
        // work: when it cannot go for long while the work could, the work goes without it.
        if let Err(error) = shared.logs.run_once(shared, now).await {
            let tries = self.without_output.fetch_add(1, Ordering::Relaxed);
            if tries < OUTPUT_TRIES {
                self.waiting().splice(..0, batch);
                return Err(error);
            }
        } else {
            self.without_output.store(0, Ordering::Relaxed);
        }
        let finishes = batch.iter().map(|ended| Finish {
            lease: ended.running.lease.clone(),
            outcome: ended.outcome.clone(),
        });
        let finish = shared.ask(shared.store.finish(now, finishes.collect()));
        // The store has it when it was asked; its answer comes later.
        let told = async { self.sent.notify_waiters() };
        match tokio::join!(biased; finish, told).0 {
            Ok(answers) => {
                self.settle(shared, &batch, &answers);
                Ok(batch.len())
            }
            Err(StoreError::Closed) => {
                self.settle(shared, &batch, &[]);
                Err(StoreError::Closed)
            }
            Err(error) => {
                self.waiting().splice(..0, batch);
                Err(error)
            }
        }
    }

    fn settle(&self, shared: &Shared, batch: &[Ended], answers: &[Finished]) {
        for (ended, answer) in batch.iter().zip(answers) {
            tell(shared, ended, answer);
        }
        shared.running.remove(batch.iter().map(|ended| &ended.running));
        self.pending.send_modify(|pending| *pending -= batch.len());
        let telling = |ended: &Ended| {
            matches!(ended.outcome, Outcome::Failed { .. } | Outcome::RateLimited { .. })
        };
        if batch.iter().any(telling) {
            shared.look_at_status.notify_one();
        }
    }

    /// Writes what ends, until it is told to stop. The store may take long to answer, because it serves others first: then
    /// what ends meanwhile joins what it has been given, instead of waiting until it is done with that. While it refuses,
    /// one batch at a time is tried.
    pub(crate) async fn run(shared: &Shared, stop: &CancellationToken) {
        let completer = &shared.completer;
        let mut batches = FuturesUnordered::new();
        let mut failures = 0;
        loop {
            tokio::select! {
                biased;
                Some(written) = batches.next(), if !batches.is_empty() => {
                    match written {
                        Ok(_) => failures = 0,
                        Err(StoreError::Closed) => return,
                        Err(error) => {
                            failures += 1;
                            shared.refused("completions wait", &error);
                        }
                    }
                    completer.stuck.store(failures > 0, Ordering::Relaxed);
                    if failures > 0 {
                        completer.sent.notify_waiters();
                    }
                    continue;
                }
                () = completer.arrived.notified(), if failures == 0 && batches.len() < AT_A_TIME => {}
                () = tokio::time::sleep(backoff(failures)), if failures > 0 && batches.is_empty() => {}
                () = stop.cancelled(), if batches.is_empty() => return,
            }
            shared.until_quiet(|| completer.waiting().len()).await;
            batches.push(completer.run_once(shared, shared.clock.now()));
        }
    }
}

/// Counts and logs what became of one attempt.
fn tell(shared: &Shared, ended: &Ended, answer: &Finished) {
    let running = &ended.running;
    let Finished::Now { state, .. } = answer else {
        if *answer == Finished::Lost {
            tracing::warn!(work_unit_id = %running.id(), attempt = running.lease.attempt, "lease_lost");
        }
        return;
    };
    let metrics = &shared.metrics;
    match &ended.outcome {
        Outcome::Done { .. } if *state == StateWord::Completed => {
            metrics.completed();
            tracing::info!(
                work_unit_id = %running.id(),
                task_type = %running.job.spec.task,
                attempt = running.lease.attempt,
                "work_completed"
            );
        }
        Outcome::Done { .. } => failed(shared, ended, *state, "the result was refused"),
        Outcome::Failed { error, .. } => failed(shared, ended, *state, error),
        Outcome::RateLimited { retry_after, service } => {
            let all = running.job.spec.services.iter().map(|used| &used.service);
            for name in all.filter(|name| service.as_ref().is_none_or(|one| one == *name)) {
                metrics.rate_limited(name);
                tracing::warn!(service = %name, retry_after = ?retry_after, "service_rate_limited");
            }
        }
        Outcome::HandBack | Outcome::Unstarted => {
            tracing::info!(work_unit_id = %running.id(), "work_handed_back")
        }
        Outcome::Stopped => tracing::info!(work_unit_id = %running.id(), "work_cancelled"),
    }
}

fn failed(shared: &Shared, ended: &Ended, state: StateWord, error: &str) {
    let will_retry = !state.is_final();
    if will_retry {
        shared.metrics.retried();
    } else if state != StateWord::Cancelled {
        shared.metrics.failed();
    }
    tracing::warn!(
        work_unit_id = %ended.running.id(),
        task_type = %ended.running.job.spec.task,
        attempt = ended.running.lease.attempt,
        error,
        will_retry,
        "work_failed"
    );
}
