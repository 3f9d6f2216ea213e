//! The contract on SQLite, and what only a file can suffer: damage, other programs, full disks, other
//! processes.

#![expect(clippy::unwrap_used, reason = "a panic is the way a test fails")]

mod file;
mod fixture;
mod group_runs;
mod inbox;
mod near;
mod places;
mod presence;
mod shell;

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use runcue_store::Store;
use runcue_store_sqlite::{Options, SqliteStore};
use runcue_store_suite::Maker;

/// Files in a temporary directory; the latest one is what is opened again.
struct Files {
    directory: tempfile::TempDir,
    count: Mutex<u32>,
}

impl Files {
    fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap(), count: Mutex::new(0) }
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join(format!("queue-{}.db", self.count.lock().unwrap()))
    }

    fn handle(&self) -> Arc<dyn Store> {
        Arc::new(SqliteStore::open(Options::new(self.path())).unwrap())
    }
}

#[async_trait]
impl Maker for Files {
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

runcue_store_suite::contract_suite!(Files::new());
runcue_store_suite::durable_suite!(Files::new());
runcue_store_suite::model_suite!(Files::new(), 60);
