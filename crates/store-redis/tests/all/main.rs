//! The contract on a real Redis server, and what only a server can suffer: lost replies, crashes, frost, bad
//! settings.

#![expect(clippy::unwrap_used, reason = "a panic is the way a test fails")]

mod ahead;
mod clocks;
mod crashes;
mod eviction;
mod failover;
mod fixture;
mod forgotten;
mod kept_turns;
mod lost_replies;
mod news;
mod openings;
mod reading;
mod refusals;
mod refused_commits;
mod round_trips;
mod trouble;
mod turns;
mod whole;

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use runcue_store::Store;
use runcue_store_suite::Maker;
use runcue_test_servers::Prefix;

/// Prefixes on the shared server; the latest one is what is opened again. The instants are the tests' own.
struct Prefixes {
    latest: Mutex<Option<Prefix>>,
    how: &'static str,
}

impl Prefixes {
    /// Commits are transactions, as they are wherever the server lets them.
    fn by_transactions() -> Self {
        Self { latest: Mutex::new(None), how: "" }
    }

    /// Commits of the first handle go by script, as they do elsewhere. The second makes transactions.
    fn by_scripts() -> Self {
        Self { latest: Mutex::new(None), how: "&transactions=off" }
    }

    /// `more` stands in the address.
    fn handle(&self, more: &str) -> Arc<dyn Store> {
        let latest = self.latest.lock().unwrap();
        let url = format!("{}&clock=caller{more}", latest.as_ref().unwrap().url());
        Arc::new(runcue_store_redis::open_url(&url).unwrap())
    }
}

#[async_trait]
impl Maker for Prefixes {
    async fn open(&self) -> Arc<dyn Store> {
        *self.latest.lock().unwrap() = Some(runcue_test_servers::redis().unwrap());
        self.handle(self.how)
    }

    async fn reopen(&self, store: Arc<dyn Store>) -> Option<Arc<dyn Store>> {
        drop(store);
        Some(self.handle(self.how))
    }

    async fn second_handle(&self, _: &Arc<dyn Store>) -> Option<Arc<dyn Store>> {
        Some(self.handle(""))
    }
}

runcue_store_suite::contract_suite!(Prefixes::by_transactions());
runcue_store_suite::durable_suite!(Prefixes::by_transactions());
runcue_store_suite::model_suite!(Prefixes::by_transactions(), 30);

mod by_scripts {
    use super::*;

    runcue_store_suite::contract_suite!(Prefixes::by_scripts());
    runcue_store_suite::durable_suite!(Prefixes::by_scripts());
    runcue_store_suite::model_suite!(Prefixes::by_scripts(), 30);
}
