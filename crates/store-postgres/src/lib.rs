//! The PostgreSQL store: the [`Machine`](runcue_store::machine::Machine) in turns, over one schema of a
//! database.
//!
//! Any number of daemons on any number of machines may use the schema. A turn is a short transaction under an
//! advisory lock; see [`runcue_store::overlay`] for how a daemon works in turns, and `migrations/` for the
//! tables and the functions that write them. With `pooler=on` nothing depends on the state of a session, so a
//! pooler that hands out connections per transaction may stand in between; one that was not spoken of is
//! noticed by the statements it forgets.
//!
//! Files as in every store crate: `connection` (address and opening), `tls`, `migrate` (schema), `rows` (a job
//! to and from its row), `backend` (what the machine asks of the server), `reader` (questions of people),
//! `watcher` (news of other daemons), `inbox` (jobs from an application's own transaction), `failure` (what
//! PostgreSQL's errors mean to a caller).

mod backend;
mod connection;
mod failure;
mod inbox;
mod migrate;
mod reader;
mod rows;
mod store;
mod tls;
mod watcher;

pub use backend::PostgresBackend;
pub use connection::Options;
pub use inbox::enqueue_in;
pub use migrate::{SCHEMA, migrate};
pub use reader::Readers;
pub use store::{PostgresStore, open, open_url};
