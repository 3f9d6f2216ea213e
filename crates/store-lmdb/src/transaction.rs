//! A transaction of the thread that writes.

use heed::{Env, RwTxn, WithoutTls};
use runcue_store::Result;
use runcue_store::writer::Transaction;
use self_cell::self_cell;

use crate::format;
use crate::tables::LmdbTables;

/// A transaction until it is committed.
pub struct Slot<'e>(pub Option<RwTxn<'e>>);

self_cell!(
    /// An open transaction together with the environment it borrows.
    pub struct Open {
        owner: Env<WithoutTls>,

        #[covariant]
        dependent: Slot,
    }
);

/// Transactions between two looks for readers that were killed.
const READERS_CHECKED_EVERY: u32 = 4096;

impl Transaction for LmdbTables {
    fn begin(&mut self) -> Result<()> {
        self.begun = self.begun.wrapping_add(1);
        let env = &self.environment.env;
        if self.begun.is_multiple_of(READERS_CHECKED_EVERY) {
            env.clear_stale_readers().map_err(|error| self.environment.explain(&error))?;
        }
        let begin = |env: &Env<WithoutTls>| {
            Open::try_new(env.clone(), |env| env.write_txn().map(|txn| Slot(Some(txn))))
        };
        let begun = self.environment.begin(begin);
        let (inside, open) = begun.map_err(|error| self.environment.explain(&error))?;
        (self.inside, self.open) = (Some(inside), Some(open));
        // A newer version may have raised it since it was opened here.
        let found = self.look(format::stored)?;
        format::check(found, &self.environment.options.place())
    }

    fn commit(&mut self) -> Result<()> {
        // Dropped last: the transaction ends before its right does.
        let _inside = self.inside.take();
        let Some(mut open) = self.open.take() else { return Ok(()) };
        let txn = open.with_dependent_mut(|_, slot| slot.0.take());
        txn.map_or(Ok(()), RwTxn::commit).map_err(|error| self.environment.explain(&error))
    }

    fn roll_back(&mut self) {
        self.open = None;
        self.inside = None;
        // A lane that was made in this transaction was not.
        self.lanes.clear();
    }

    /// What was left to the system is on the disk as well.
    fn close(&mut self) {
        if let Err(error) = self.environment.env.force_sync() {
            tracing::warn!(%error, "the last commits could not be flushed");
        }
    }
}
