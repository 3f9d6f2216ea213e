//! The contract on the LMDB store, and what only a directory of files can show.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

mod directory;
mod disk;
mod fixture;
mod processes;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use async_trait::async_trait;
use runcue_store::Store;
use runcue_store_lmdb::{LmdbStore, Options};
use runcue_store_suite::Maker;

/// Directories in a temporary one; the latest is what is opened again.
struct Directories {
    inside: tempfile::TempDir,
    count: AtomicU32,
}

impl Directories {
    fn new() -> Self {
        Self { inside: tempfile::tempdir().unwrap(), count: AtomicU32::new(0) }
    }

    fn path(&self) -> PathBuf {
        self.inside.path().join(self.count.load(Ordering::Relaxed).to_string())
    }

    fn handle(&self) -> Arc<dyn Store> {
        Arc::new(LmdbStore::open(&Options::new(self.path())).unwrap())
    }
}

#[async_trait]
impl Maker for Directories {
    async fn open(&self) -> Arc<dyn Store> {
        self.count.fetch_add(1, Ordering::Relaxed);
        self.handle()
    }

    async fn reopen(&self, store: Arc<dyn Store>) -> Option<Arc<dyn Store>> {
        // No close: as after a crash.
        drop(store);
        Some(self.handle())
    }

    async fn second_handle(&self, _: &Arc<dyn Store>) -> Option<Arc<dyn Store>> {
        Some(self.handle())
    }
}

runcue_store_suite::contract_suite!(Directories::new());
runcue_store_suite::durable_suite!(Directories::new());
runcue_store_suite::model_suite!(Directories::new(), 100);
