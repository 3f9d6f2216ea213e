//! What a full queue means to a submitter: refusal, or waiting for room; and telling the application before
//! it comes to that. The cap itself, and dropping the oldest, are the store's.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use runcue_core::QueueName;
use runcue_store::{QueueInfo, StoreError, SubmitBatch, Submitted};
use tokio::time::Instant;

use crate::error::{Error, Result};
use crate::shared::Shared;

/// A queue is nearly full from this many hundredths of its cap.
const NEARLY_FULL: u64 = 80;
/// The depths are looked at no more often than this.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// What the application is told about a queue that is nearly full.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackpressureInfo {
    /// The queue.
    pub queue: QueueName,
    /// How many jobs wait.
    pub queued: u64,
    /// How many may.
    pub max: u64,
}

/// Called when a queue is nearly full.
pub type BackpressureFn = dyn Fn(&BackpressureInfo) + Send + Sync;

/// Watches over the caps of queues.
#[derive(Default)]
pub(crate) struct Backpressure {
    callback: Option<Arc<BackpressureFn>>,
    /// Some queue has a cap; otherwise nothing needs watching.
    pub(crate) capped: AtomicBool,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    looked: Option<Instant>,
    nearly_full: HashSet<QueueName>,
}

impl Backpressure {
    pub(crate) fn new(callback: Option<Arc<BackpressureFn>>) -> Self {
        Self { callback, ..Self::default() }
    }

    /// Whether it is time for another look.
    fn is_due(&self) -> bool {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let due = seen.looked.is_none_or(|at| now.duration_since(at) >= LOOK_EVERY);
        if due {
            seen.looked = Some(now);
        }
        due
    }

    /// Takes in the depths and answers the queues that have become nearly full.
    fn take_in(&self, queues: Vec<QueueInfo>) -> Vec<BackpressureInfo> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let mut fresh = Vec::new();
        for queue in queues {
            let Some(max) = queue.max_queued else { continue };
            let nearly = queue.queued >= max.saturating_mul(NEARLY_FULL).div_ceil(100);
            if !nearly {
                seen.nearly_full.remove(&queue.name);
            } else if seen.nearly_full.insert(queue.name.clone()) {
                fresh.push(BackpressureInfo { queue: queue.name, queued: queue.queued, max });
            }
        }
        fresh
    }
}

/// Submits, waiting for room where the queue's rule says so, for no longer than that.
pub(crate) async fn submit(
    shared: &Shared,
    batch: SubmitBatch,
    patience: Option<Duration>,
) -> Result<Vec<Submitted>> {
    if !shared.backpressure.capped.load(Ordering::Relaxed) {
        return Ok(shared.ask(shared.store.submit(shared.clock.now(), batch)).await?);
    }
    let end = patience.map(|patience| Instant::now() + patience);
    let mut news = shared.news.subscribe();
    loop {
        news.mark_unchanged();
        let answer = shared.ask(shared.store.submit(shared.clock.now(), batch.clone())).await;
        look(shared, answer.is_err()).await;
        match answer {
            // A batch that would not fit into the empty queue either waits for nothing.
            Err(StoreError::Full { max, block: true, .. }) if batch.jobs.len() as u64 <= max => {}
            answer => return Ok(answer?),
        }
        tokio::select! {
            biased;
            () = shared.over.cancelled() => return Err(Error::Stopped),
            _ = news.changed() => {}
            () = tokio::time::sleep(shared.settings.poll) => {}
            () = until(end) => return Err(Error::NoRoom(patience.unwrap_or_default())),
        }
    }
}

async fn until(end: Option<Instant>) {
    match end {
        Some(end) => tokio::time::sleep_until(end).await,
        None => std::future::pending().await,
    }
}

async fn look(shared: &Shared, refused: bool) {
    if !shared.backpressure.is_due() && !refused {
        return;
    }
    let Ok(queues) = shared.ask(shared.store.queues()).await else { return };
    for info in shared.backpressure.take_in(queues) {
        shared.metrics.backpressure_active();
        tracing::warn!(
            queue = %info.queue, queued = info.queued, max = info.max, "backpressure_active"
        );
        if let Some(callback) = shared.backpressure.callback.clone() {
            shared.callbacks.tell(&shared.metrics, Box::new(move || callback(&info)));
        }
    }
}
