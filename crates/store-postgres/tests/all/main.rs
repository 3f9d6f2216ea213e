//! The contract on PostgreSQL, and what only a server can suffer. Every test has a database of its own on a
//! real server.

#![expect(clippy::unwrap_used, reason = "a panic is the way a test fails")]

mod ahead;
mod beside;
mod board;
mod clocks;
mod durability;
mod failures;
mod faults;
mod held;
mod inbox;
mod kept_turns;
mod lease_runs;
mod load;
mod migrated;
mod news;
mod pinned;
mod pooler;
mod ready_runs;
mod refilled;
mod retained;
mod rights;
mod round_trips;
mod tls;
mod told;

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use runcue_store::Store;
use runcue_store_postgres::Options;
use runcue_store_suite::Maker;
use runcue_test_servers::Database;

/// Schemas of a database; the latest one is what is opened again.
struct Schemas {
    database: Database,
    count: Mutex<u32>,
}

impl Schemas {
    fn new() -> Self {
        Self { database: runcue_test_servers::postgres().unwrap(), count: Mutex::new(0) }
    }

    fn handle(&self) -> Arc<dyn Store> {
        let url = format!("{}?schema=queue_{}", self.database.url(), self.count.lock().unwrap());
        let mut options = Options::parse(&url).unwrap();
        options.callers_clock = true;
        // Few jobs are enough for a run, so that every test has some.
        options.together = 2;
        Arc::new(runcue_store_postgres::open(options).unwrap())
    }
}

#[async_trait]
impl Maker for Schemas {
    async fn open(&self) -> Arc<dyn Store> {
        *self.count.lock().unwrap() += 1;
        self.handle()
    }

    async fn reopen(&self, store: Arc<dyn Store>) -> Option<Arc<dyn Store>> {
        drop(store);
        Some(self.handle())
    }

    async fn second_handle(&self, _: &Arc<dyn Store>) -> Option<Arc<dyn Store>> {
        Some(self.handle())
    }
}

runcue_store_suite::contract_suite!(Schemas::new());
runcue_store_suite::durable_suite!(Schemas::new());
runcue_store_suite::model_suite!(Schemas::new(), 20);
