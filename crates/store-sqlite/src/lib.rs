//! The SQLite store: the [`Machine`](runcue_store::machine::Machine) over one file.
//!
//! One thread writes; callers that come while it commits are taken together into its next transaction.
//! A few connections read. Several processes may have the file open: each keeps its cache of the board
//! and brings it up to date when the file's revision has moved on.
//!
//! Files as in every store crate: `connection` (opening), `migrate` (schema), `tables` (rows), `rows`
//! (a job to and from its row), `transaction`, `reader`, `inbox` (jobs from an application's own transaction),
//! `backup`, `failure` (what SQLite's errors mean to a caller). The
//! thread that writes, the one that watches and the presence of workers are [`runcue_store`]'s.

mod backup;
mod connection;
mod failure;
mod inbox;
mod migrate;
mod reader;
mod rows;
mod specs;
mod store;
mod tables;
mod transaction;

pub use backup::backup;
pub use connection::{Durability, Options};
pub use inbox::enqueue_in;
pub use migrate::SCHEMA;
pub use store::SqliteStore;
