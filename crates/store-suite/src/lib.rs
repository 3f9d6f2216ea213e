//! The contract as tests, by topic, for any store; and the model test, which compares a store with a naive
//! reference over random histories.
//!
//! A store crate hands over constructors and gets one named test per sentence of the contract. In its
//! `tests/all/main.rs`:
//!
//! ```text
//! use std::sync::{Arc, Mutex};
//!
//! use async_trait::async_trait;
//! use runcue_store::Store;
//! use runcue_store_suite::Maker;
//!
//! /// A file in a temporary directory; the latest one is what is opened again.
//! struct Files {
//!     dir: tempfile::TempDir,
//!     count: Mutex<u32>,
//! }
//!
//! #[async_trait]
//! impl Maker for Files {
//!     async fn open(&self) -> Arc<dyn Store> {
//!         *self.count.lock().unwrap() += 1;
//!         self.handle().await
//!     }
//!     async fn reopen(&self, store: Arc<dyn Store>) -> Option<Arc<dyn Store>> {
//!         drop(store); // no close: as after a crash
//!         Some(self.handle().await)
//!     }
//!     async fn second_handle(&self, _: &Arc<dyn Store>) -> Option<Arc<dyn Store>> {
//!         Some(self.handle().await)
//!     }
//! }
//!
//! runcue_store_suite::contract_suite!(Files::new());
//! runcue_store_suite::durable_suite!(Files::new());
//! runcue_store_suite::model_suite!(Files::new(), 100);
//! ```
//!
//! A store that forgets with its process (memory) takes `contract_suite!` and `model_suite!` only.

#![expect(
    clippy::unwrap_used,
    reason = "everything here is test code, where a panic is the way to fail"
)]

pub mod ahead;
pub mod fixture;
pub mod model;
pub mod round_trips;
pub mod scene;
pub mod skew;
mod suite;
pub mod topics;

use std::sync::Arc;

use async_trait::async_trait;
use runcue_store::Store;

/// What a store crate hands over.
#[async_trait]
pub trait Maker: Send + Sync {
    /// A fresh, empty store.
    async fn open(&self) -> Arc<dyn Store>;

    /// Whether the data outlives a handle.
    fn is_durable(&self) -> bool {
        true
    }

    /// The data of the store that was opened last, through a new handle; the old one is gone without
    /// having been closed, as after a crash. Nothing if the store forgets with its process.
    async fn reopen(&self, store: Arc<dyn Store>) -> Option<Arc<dyn Store>>;

    /// Another handle on the data of the store that was opened last, as in another process. Nothing if
    /// there can only be one.
    async fn second_handle(&self, store: &Arc<dyn Store>) -> Option<Arc<dyn Store>>;
}
