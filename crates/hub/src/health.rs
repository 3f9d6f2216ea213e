//! Is everything well: is the store there, and is work that could be done being done.

use std::time::Duration;

use runcue_core::{Timestamp, WorkerId};
use runcue_store::{ClaimRequest, Stats};
use serde::Serialize;

use crate::hub::Shared;
use crate::openapi::{Described, Schema, count, must, object, text, word};

/// How long ready work may wait while nothing is claimed before that is said.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long the store may take to answer before it is called away: whoever asks wants to know now.
const ANSWER: Duration = Duration::from_secs(3);
/// The same of one that is known to be away. It is asked all the same, because that makes it try again.
const ANSWER_OF_ONE_AWAY: Duration = Duration::from_millis(200);

/// What is known of the hub's health.
#[derive(Clone, Debug, Serialize)]
pub struct Health {
    /// `ok`, `stuck`, or `away`.
    pub status: &'static str,
    /// The same in words.
    pub message: String,
    /// Jobs that wait only for their turn and for room.
    pub ready: u64,
    /// Jobs that are handed out.
    pub running: u64,
    /// Claims that wait for work.
    pub waiting_workers: usize,
    /// The hub's version.
    pub version: &'static str,
}

impl Described for Health {
    const NAME: &'static str = "Health";

    fn schema() -> Schema {
        object([
            must("status", word(&["ok", "stuck", "away"])),
            must("message", text()),
            must("ready", count()),
            must("running", count()),
            must("waiting_workers", count().says("Claims that wait for work.")),
            must("version", text()),
        ])
    }
}

/// Looks.
pub async fn look(hub: &Shared) -> Health {
    let mut health = Health {
        status: "ok",
        message: "fine".to_owned(),
        ready: 0,
        running: 0,
        waiting_workers: hub.desk.len(),
        version: env!("CARGO_PKG_VERSION"),
    };
    let now = hub.now();
    let stats = match stats(hub, now).await {
        Ok(stats) => stats,
        Err(message) => return Health { status: "away", message, ..health },
    };
    let waiting = stats.delayed + stats.blocked;
    health.ready = stats.counts.queued.saturating_sub(waiting);
    health.running = stats.counts.leased + stats.counts.running;
    let oldest = stats.oldest_ready.map(|at| now.since(at)).unwrap_or_default();
    let quiet = hub.series.last_claim().is_none_or(|at| now.since(at) > PATIENCE);
    if health.ready > 0 && oldest > PATIENCE && quiet && could_run(hub).await {
        health.status = "stuck";
        health.message = format!(
            "there is ready work but nothing was claimed for {} s: are workers running, and do they take \
             these jobs?",
            PATIENCE.as_secs()
        );
    }
    health
}

/// The store's numbers, or why there are none.
async fn stats(hub: &Shared, now: Timestamp) -> Result<Stats, String> {
    let known = hub.store.trouble();
    let patience = if known.is_some() { ANSWER_OF_ONE_AWAY } else { ANSWER };
    match tokio::time::timeout(patience, hub.store.stats(now)).await {
        Ok(stats) => stats.map_err(|error| error.to_string()),
        Err(_) => {
            Err(hub.store.trouble().or(known).unwrap_or_else(|| {
                format!("the store has not answered for {} s", ANSWER.as_secs())
            }))
        }
    }
}

/// Whether a worker that takes everything would be given something now.
async fn could_run(hub: &Shared) -> bool {
    let request = ClaimRequest::new(WorkerId::from_u128(0), 1);
    let found = hub.store.candidates(hub.now(), request, Default::default()).await;
    found.is_ok_and(|found| !found.jobs.is_empty())
}
