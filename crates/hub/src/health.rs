//! Is everything well: is the store there, and is work that could be done being done.

use std::time::Duration;

use runcue_core::WorkerId;
use runcue_store::ClaimRequest;
use serde::Serialize;

use crate::hub::Shared;
use crate::openapi::{Described, Schema, count, must, object, text, word};

/// How long ready work may wait while nothing is claimed before that is said.
const PATIENCE: Duration = Duration::from_secs(30);

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
    let stats = match (hub.store.trouble(), hub.store.stats(now).await) {
        (None, Ok(stats)) => stats,
        (Some(trouble), _) => return Health { status: "away", message: trouble, ..health },
        (None, Err(error)) => {
            return Health { status: "away", message: error.to_string(), ..health };
        }
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

/// Whether a worker that takes everything would be given something now.
async fn could_run(hub: &Shared) -> bool {
    let request = ClaimRequest::new(WorkerId::from_u128(0), 1);
    let found = hub.store.candidates(hub.now(), request, Default::default()).await;
    found.is_ok_and(|found| !found.jobs.is_empty())
}
