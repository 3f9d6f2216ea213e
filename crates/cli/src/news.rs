//! Waiting for something to happen to a store, with a slow look underneath should no news come through.

use std::time::Duration;

use runcue_store::Store;
use tokio::time::timeout;

/// A reader of a store that wants to know when to look again.
pub struct News<'a> {
    store: &'a dyn Store,
    seen: u64,
}

impl<'a> News<'a> {
    /// Begins before the first look, so that nothing falls between a look and the wait after it.
    pub async fn begin(store: &'a dyn Store) -> Self {
        Self { store, seen: store.changed(0).await }
    }

    /// Returns when something changed since the last wait, or when so much time has passed.
    pub async fn wait(&mut self, at_most: Duration) {
        if let Ok(seen) = timeout(at_most, self.store.changed(self.seen)).await {
            self.seen = seen;
        }
    }
}
