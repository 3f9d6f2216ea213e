//! The SQLite store: the [`Machine`](runcue_store::machine::Machine) over one file.
//!
//! One thread writes; callers that come while it commits are taken together into its next transaction.
//! A few connections read. Several processes may have the file open: each keeps its cache of the board
//! and brings it up to date when the file's revision has moved on.
//!
//! Files as in every store crate: `connection` (opening), `migrate` (schema), `tables` (rows), `rows`
//! (a job to and from its row), `writer`, `reader`, `presence` (which workers are alive), `failure`
//! (what SQLite's errors mean to a caller).

mod connection;
mod failure;
mod migrate;
mod presence;
mod reader;
mod rows;
mod store;
mod tables;
mod watcher;
mod writer;

pub use connection::{Durability, Options};
pub use migrate::SCHEMA;
pub use store::SqliteStore;
