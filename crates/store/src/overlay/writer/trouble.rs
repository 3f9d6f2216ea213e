//! A server that is away, and commits of which nobody knows whether they went through.

use std::time::Instant;

use super::super::{Backend, WriteSet};
use super::{Attempt, PAUSES, Worker};
use crate::StoreError;

impl<B: Backend> Worker<B> {
    /// The reply to a commit was lost. Nobody is answered before it is known whether it went through.
    pub(super) fn settle(&mut self, writes: &WriteSet, why: String) -> Attempt {
        let Some(id) = writes.id else { return Attempt::Again };
        let begun = Instant::now();
        let mut error = StoreError::Unavailable(why);
        loop {
            self.away(&error);
            if begun.elapsed() > self.settings.patience {
                return Attempt::Away(error);
            }
            if let Some(at) = self.retry_at {
                std::thread::sleep(at.saturating_duration_since(Instant::now()));
            }
            let settled = self
                .connect()
                .and_then(|()| self.machine.tables().backend().settle(id, writes.follows));
            match settled {
                Ok(true) => return Attempt::Done,
                Ok(false) => return Attempt::Again,
                Err(failed @ StoreError::Unavailable(_)) => error = failed,
                Err(failed) => return Attempt::Away(failed),
            }
        }
    }

    pub(super) fn away(&mut self, error: &StoreError) {
        self.connected &= !matches!(error, StoreError::Unavailable(_));
        self.commits += 1;
        let jitter =
            75 + (self.settings.instance ^ u128::from(self.commits).wrapping_mul(0x9e37_79b9)) % 50;
        let pause = self.pause * u32::try_from(jitter).unwrap_or(100) / 100;
        self.retry_at = Some(Instant::now() + pause);
        self.pause = (self.pause * 2).min(PAUSES.1);
        let why = error.to_string();
        let place = &self.settings.place;
        if self.trouble.borrow().is_none() {
            tracing::warn!(place, "{why}; trying again");
        } else {
            tracing::debug!(place, "{why}; trying again");
        }
        self.trouble.send_replace(Some(why));
    }

    pub(super) fn well(&mut self) {
        self.retry_at = None;
        self.pause = PAUSES.0;
        if self.trouble.borrow().is_some() {
            tracing::info!(place = self.settings.place, "the store is available again");
            self.trouble.send_replace(None);
            // Whatever happened in the meantime was not heard of.
            self.news.wake();
        }
    }
}
