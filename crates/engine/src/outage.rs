//! What is said when the store cannot do its work: one line that names the trouble and the fix, not one
//! from every part of the engine at every try. All of them go on trying by themselves.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use runcue_core::Timestamp;
use runcue_store::StoreError;

/// The same trouble is told again no sooner than this.
const AGAIN: Duration = Duration::from_secs(60);

/// The trouble that was told last, and when.
#[derive(Debug, Default)]
pub(crate) struct Outage {
    told: Mutex<Option<(String, Timestamp)>>,
}

impl Outage {
    /// The store could not do something for a part of the engine, which will try again.
    pub(crate) fn tell(&self, now: Timestamp, what: &'static str, error: &StoreError) {
        let text = error.to_string();
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let known = told.as_ref().is_some_and(|(last, at)| *last == text && now.since(*at) < AGAIN);
        if known {
            tracing::debug!(error = text, "{what}");
            return;
        }
        tracing::warn!("{text}; {what}, and work goes on by itself when that is over");
        *told = Some((text, now));
    }
}
