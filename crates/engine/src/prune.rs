//! Deletes finished work that retention no longer keeps. It says what it will delete one round before it
//! does.

use std::time::Duration;

use runcue_core::Timestamp;
use runcue_store::{Pruned, Result, Retention};
use tokio_util::sync::CancellationToken;

use crate::shared::Shared;

/// How long after its start an engine first looks.
const FIRST: Duration = Duration::from_secs(60);
/// So many pieces are deleted in a row at the most.
const ROUNDS: u32 = 100;

/// Deletes what was announced a round ago.
#[derive(Debug)]
pub(crate) struct Pruner {
    retention: Retention,
    /// What was announced, and as of when.
    announced: Option<Timestamp>,
}

impl Pruner {
    pub(crate) fn new(retention: Retention) -> Self {
        Self { retention, announced: None }
    }

    /// Deletes what was announced, then announces what comes next. Answers what it deleted.
    pub(crate) async fn run_once(&mut self, shared: &Shared, now: Timestamp) -> Result<Pruned> {
        let mut deleted = Pruned::default();
        if let Some(as_of) = self.announced.take() {
            // As of the announcement: what has come of age since was not announced.
            for _ in 0..ROUNDS {
                // The store deletes a piece at a time, so that others get their turn in between.
                let some = shared.ask(shared.store.prune(as_of, self.retention, false)).await?;
                if some.is_empty() {
                    break;
                }
                deleted.add(&some);
            }
            log("retention: deleted", &deleted);
        }
        let due = shared.ask(shared.store.prune(now, self.retention, true)).await?;
        if !due.is_empty() {
            log("retention: will be deleted in the next round", &due);
            self.announced = Some(now);
        }
        Ok(deleted)
    }

    pub(crate) async fn run(mut self, shared: &Shared, stop: &CancellationToken) {
        let mut pause = FIRST.min(shared.settings.prune_every);
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = tokio::time::sleep(pause) => {}
            }
            pause = shared.settings.prune_every;
            if let Err(error) = self.run_once(shared, shared.clock.now()).await {
                shared.refused("retention could not be applied", &error);
            }
        }
    }
}

fn log(what: &'static str, pruned: &Pruned) {
    if pruned.is_empty() {
        return;
    }
    let jobs: u64 = pruned.jobs.values().sum();
    let by_state: Vec<String> =
        pruned.jobs.iter().map(|(state, count)| format!("{state} {count}")).collect();
    let by_state = by_state.join(", ");
    tracing::info!(jobs, by_state, events = pruned.events, usage = pruned.usage, "{what}");
}
