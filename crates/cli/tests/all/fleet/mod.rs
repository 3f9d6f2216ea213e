//! Several `runcue work` daemons on one server, and what can happen to them and to it: daemons are killed with -9
//! and suspended, the server is killed, suspended and cut off. The records are those of [`crate::crash`]: the ledger
//! that the jobs write, and what the store says happened.
//!
//! Servers are private and durable: PostgreSQL syncs every commit, Redis its append-only file at every change.
//! `RUNCUE_LONG=1` kills more often.

mod daemons;
mod limits;
mod outages;
mod rate;
mod scene;
pub mod server;

/// One of two, for CI and for long mode.
fn chosen<T>(short: T, long: T) -> T {
    if std::env::var_os("RUNCUE_LONG").is_some() { long } else { short }
}
