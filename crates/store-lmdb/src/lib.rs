//! The LMDB store: the [`Machine`](runcue_store::machine::Machine) over a memory-mapped directory.
//!
//! Several processes of one machine may have the directory open: LMDB's own lock lets one of them write at a
//! time, and readers see a snapshot without waiting. Each process keeps its cache of the board and brings it up
//! to date when the revision has moved on. Not for network disks.
//!
//! Files as in every store crate: `connection` (opening, and the databases of the environment), `format` (the
//! version of what is stored), `tables` (rows), `rows` (a job to and from its row), `keys` (how keys are
//! ordered), `transaction`, `reader`, `failure` (what LMDB's errors mean to a caller).

mod connection;
mod failure;
mod format;
mod keys;
mod reader;
mod rows;
mod store;
mod tables;
mod transaction;
mod view;

pub use connection::{Durability, Options};
pub use format::FORMAT;
pub use store::LmdbStore;
