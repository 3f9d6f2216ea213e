//! The contract on the memory store, and on the machine in turns.

#![expect(clippy::unwrap_used, reason = "a panic is the way a test fails")]

mod turns;

use std::sync::Arc;

use async_trait::async_trait;
use runcue_store::{MemoryStore, Store};
use runcue_store_suite::Maker;

struct Memory;

#[async_trait]
impl Maker for Memory {
    async fn open(&self) -> Arc<dyn Store> {
        Arc::new(MemoryStore::new())
    }

    fn is_durable(&self) -> bool {
        false
    }

    async fn reopen(&self, _: Arc<dyn Store>) -> Option<Arc<dyn Store>> {
        None
    }

    async fn second_handle(&self, _: &Arc<dyn Store>) -> Option<Arc<dyn Store>> {
        None
    }
}

runcue_store_suite::contract_suite!(Memory);
runcue_store_suite::model_suite!(Memory, 400);
