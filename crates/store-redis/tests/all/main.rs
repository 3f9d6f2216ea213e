//! The contract on a real Redis server, and what only a server can suffer: lost replies, crashes, frost, bad
//! settings.

#![expect(clippy::unwrap_used, reason = "a panic is the way a test fails")]

mod ahead;
mod clocks;
mod crashes;
mod fixture;
mod kept_turns;
mod lost_replies;
mod news;
mod reading;
mod refusals;
mod refused_commits;
mod round_trips;
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
}

impl Prefixes {
    fn new() -> Self {
        Self { latest: Mutex::new(None) }
    }

    /// `more` stands in the address: `&bulk=0` makes every commit a transaction that can be one.
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
        self.handle("&bulk=0")
    }

    async fn reopen(&self, store: Arc<dyn Store>) -> Option<Arc<dyn Store>> {
        drop(store);
        Some(self.handle("&bulk=0"))
    }

    async fn second_handle(&self, _: &Arc<dyn Store>) -> Option<Arc<dyn Store>> {
        Some(self.handle(""))
    }
}

runcue_store_suite::contract_suite!(Prefixes::new());
runcue_store_suite::durable_suite!(Prefixes::new());
runcue_store_suite::model_suite!(Prefixes::new(), 30);
