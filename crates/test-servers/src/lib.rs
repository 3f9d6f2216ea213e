//! Real servers for tests: PostgreSQL and Redis from the system's packages, on free loopback ports, in
//! temporary directories.
//!
//! - **Shared** ([`postgres`], [`redis`]): one server per test run, started by the first test that asks. Each
//!   test gets a fresh database or key prefix of it. It is quick because it does not sync to disk, and it is
//!   gone some seconds after the last process that used it, however that ended.
//! - **Private** ([`Postgres::settings`], [`Redis::settings`]): a server of one's own, to kill, freeze and
//!   start again. It ends with the test, also when the test is killed.
//! - [`Authority`]: signs certificates for servers that speak TLS.
//! - [`Pooler`]: a PgBouncer in front of a private PostgreSQL.
//! - [`Counter`]: stands between a client and a server and counts round trips.
//! - [`Proxy`]: stands between a client and a server and loses requests or replies.
//!
//! All calls block. A server that cannot be started is an error with one line that names the package it
//! comes in. For tests and benchmarks only; nothing that runcue ships depends on it.

mod authority;
mod counter;
mod keeper;
mod place;
mod pooler;
mod postgres;
mod proxy;
mod redis;
mod shared;
mod trouble;

pub use authority::{Authority, Certificate};
pub use counter::Counter;
pub use pooler::Pooler;
pub use postgres::{Database, Postgres, PostgresSettings};
pub use proxy::{Fault, Proxy};
pub use redis::{Prefix, Redis, RedisSettings};
pub use trouble::Trouble;

/// A fresh, empty database on the PostgreSQL server that the tests share.
///
/// # Errors
/// If no server can be started.
pub fn postgres() -> Result<Database, Trouble> {
    postgres::shared()
}

/// A key prefix of one's own on the Redis server that the tests share.
///
/// # Errors
/// If no server can be started.
pub fn redis() -> Result<Prefix, Trouble> {
    redis::shared()
}
