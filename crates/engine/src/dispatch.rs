//! Free slots become running jobs. Owns when to ask the store for jobs and how many; running them is
//! [`crate::execute`]'s.
//!
//! ```text
//!  a slot is free ─┐
//!  news ───────────┼─▶ claim as many as there are free slots ─▶ execute each
//!  a time has come ┤        (scored first, if there are callbacks)
//!  slow poll ──────┘
//! ```
//!
//! Slots that come free while a claim or a batch of completions is under way are filled by the next claim
//! together: nothing here asks once per job.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use runcue_core::{ClaimFilter, Timestamp};
use runcue_store::{Claimed, Result};

use crate::execute::execute;
use crate::running::Running;
use crate::score;
use crate::shared::{Shared, backoff};

/// With fewer slots than this there is one claim at a time.
const MANY: usize = 128;

/// Claims jobs and starts them.
pub(crate) struct Dispatcher {
    shared: Arc<Shared>,
}

impl Dispatcher {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// Claims up to the free slots and starts what it got, whenever there is a reason to, until the engine stops. Where
    /// there are many slots it asks for half as many at a time, and twice as long as it gets all it asks for: the store can
    /// decide about some while it writes down others.
    pub(crate) async fn run(self) {
        let shared = &self.shared;
        let mut news = shared.news.subscribe();
        let mut active = shared.active.subscribe();
        let mut claims = FuturesUnordered::new();
        let (mut asking, mut failures) = (0, 0);
        // Until it is known better: two small claims that find nothing cost less than a large one that all wait for.
        let (mut due, mut plenty) = (true, shared.slots.load(Ordering::Relaxed) >= MANY);
        while !shared.stopping.is_cancelled() {
            if due {
                news.mark_unchanged();
                active.mark_unchanged();
                tokio::select! {
                    biased;
                    () = shared.stopping.cancelled() => break,
                    () = shared.completer.all_sent() => {}
                }
            }
            while due && claims.len() < if plenty { 2 } else { 1 } {
                let free = shared.free_slots().saturating_sub(asking);
                let slots = shared.slots.load(Ordering::Relaxed);
                let half = slots.div_ceil(2);
                let most = if slots >= MANY { free.min(half) } else { free };
                // A second claim for few slots can wait, and be one for more.
                if !claims.is_empty() && most < half / 2 {
                    break;
                }
                due = plenty && most > 0;
                if most > 0 {
                    asking += most;
                    claims.push(self.claim_some(most));
                }
            }
            let full = shared.free_slots() <= asking;
            let mut wake = Some(shared.clock.now().plus(shared.settings.poll));
            if failures > 0 {
                wake = Some(shared.clock.now().plus(backoff(failures)));
            } else if !full {
                wake = earliest(wake, shared.wakes().claim);
            }
            tokio::select! {
                biased;
                () = shared.stopping.cancelled() => break,
                Some((asked, claimed)) = claims.next(), if !claims.is_empty() => {
                    asking -= asked;
                    match claimed {
                        Ok(started) => {
                            failures = 0;
                            plenty = started == asked && shared.slots.load(Ordering::Relaxed) >= MANY;
                            due |= plenty;
                        }
                        Err(error) => {
                            failures += 1;
                            plenty = false;
                            shared.refused("no jobs could be claimed", &error);
                        }
                    }
                }
                _ = active.changed() => {
                    shared.until_quiet(|| *shared.active.borrow()).await;
                    due = true;
                }
                _ = news.changed(), if !full && failures == 0 => due = true,
                () = shared.sleep_until(wake), if !full && claims.is_empty() => due = true,
            }
        }
        // What is claimed is held, and started: whoever stops the engine waits for it or hands it back.
        while claims.next().await.is_some() {}
    }

    /// Claims up to so many jobs and starts what it got. Answers both numbers.
    async fn claim_some(&self, most: usize) -> (usize, Result<usize>) {
        (most, self.claim_and_start(self.shared.clock.now(), most).await)
    }

    async fn claim_and_start(&self, now: Timestamp, most: usize) -> Result<usize> {
        let claimed = claim(&self.shared, now, most).await?;
        let started = claimed.len();
        for running in claimed {
            tokio::spawn(run_one(Arc::clone(&self.shared), running));
        }
        if started > 0 {
            // They go first: what to claim next can wait.
            tokio::task::yield_now().await;
        }
        Ok(started)
    }
}

/// Claims up to `max` jobs and holds them.
pub(crate) async fn claim(
    shared: &Shared,
    now: Timestamp,
    max: usize,
) -> Result<Vec<Arc<Running>>> {
    if max == 0 {
        return Ok(Vec::new());
    }
    let Some(filter) = shared.filter() else {
        shared.note_wakes(|wakes| wakes.claims += 1);
        return Ok(Vec::new());
    };
    let (asked, claimed) = ask(shared, now, filter, max).await?;
    shared.start_within.took(shared.clock.now().since(asked));
    let waits = claimed.wake.is_some() && claimed.jobs.len() < max;
    shared.note_wakes(|wakes| {
        wakes.claim = claimed.wake;
        wakes.claims += 1;
    });
    if waits {
        shared.look_at_status.notify_one();
    }
    shared.metrics.count_requests(&claimed.jobs);
    let count = claimed.jobs.len();
    let held = shared.running.add(asked, claimed.jobs);
    // More handlers at work is no news to whoever waits for a free slot.
    shared.active.send_if_modified(|active| {
        *active += count;
        false
    });
    Ok(held)
}

/// Jobs, and when the store was asked for them.
async fn ask(
    shared: &Shared,
    now: Timestamp,
    filter: ClaimFilter,
    max: usize,
) -> Result<(Timestamp, Claimed)> {
    let mut request = shared.request(filter, max);
    if !shared.callbacks.are_set() {
        return Ok((now, shared.ask(shared.store.claim(now, request)).await?));
    }
    let choice = score::choose(shared, now, &request).await?;
    if choice.jobs.is_empty() {
        return Ok((shared.clock.now(), Claimed { jobs: Vec::new(), wake: choice.wake }));
    }
    request.only = Some(choice.jobs);
    // Scoring took time, and a job of a rated service must start soon after its claim.
    let asked = shared.clock.now();
    let claimed = shared.ask(shared.store.claim(asked, request)).await?;
    Ok((asked, Claimed { wake: earliest(claimed.wake, choice.wake), ..claimed }))
}

/// Runs a held job and frees its slot.
pub(crate) async fn run_one(shared: Arc<Shared>, running: Arc<Running>) {
    execute(&shared, &running).await;
    shared.active.send_modify(|active| *active = active.saturating_sub(1));
}

pub(crate) fn earliest(a: Option<Timestamp>, b: Option<Timestamp>) -> Option<Timestamp> {
    a.into_iter().chain(b).min()
}
