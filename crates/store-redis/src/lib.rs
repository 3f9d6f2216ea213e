//! The Redis store: a queue on a Redis server, 7.0 or newer, for any number of daemons on any number of
//! machines.
//!
//! It is the machine of every other store, working in turns (see `runcue_store::overlay`). Here is what the
//! server has to offer for that: small scripts, which are the only steps that change several keys at once,
//! and the rows and indexes they write. [`keys`] lists every key.
//!
//! A commit is one call of one script, or one transaction if it is of many jobs (`transaction.rs`). Either writes
//! nothing unless the revision is still the one it builds on. A very large commit is put down in parts first, decided in one step, and then carried out part by part
//! so that the server is never busy with it for long; whoever takes the next turn finishes that if its author
//! is gone.

mod backend;
mod check;
mod commit;
mod connection;
mod delta;
mod failure;
mod find;
mod histories;
pub mod keys;
mod life;
mod migrate;
mod pack;
mod persistence;
mod questions;
mod reader;
mod reading;
mod rows;
mod script;
mod store;
mod transaction;
mod value;
mod watcher;
mod whole;

pub use backend::RedisBackend;
pub use connection::Options;
pub use migrate::SCHEMA;
pub use persistence::Persistence;
pub use reader::RedisReader;
pub use store::{RedisStore, open, open_url};
pub use watcher::Ears;
