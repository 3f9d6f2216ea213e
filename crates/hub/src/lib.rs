//! The hub: a store as an HTTP service, for producers, for workers behind NAT, and for a browser.
//!
//! ```text
//! request ─▶ guard (host, origin, token, role) ─▶ routes/<noun> ─▶ wire (their words ⇄ ours) ─▶ Store
//!                                                     claim ─▶ desk (waits until there is work)
//!                                                    events ◀─ tail (reads each event once for all readers)
//! ```
//!
//! - [`Hub`] is the way in: it opens on a store, gives a router, and serves it until it is told to end.
//! - `routes/table` lists every route; the router and the document at `/openapi.json` are both made from it.
//! - `wire` owns the documented shapes and words; nothing else knows them.
//! - `desk` holds the claims that wait; `tail` the event streams; `series` the figures of the last hour.
//! - `webhooks` tells receivers that jobs have ended, through the queue itself.
//! - `access` says who may do what; `guard` asks it before any route is reached.
//!
//! The hub decides nothing about jobs: it asks the store, as every other front does.

mod access;
mod config;
mod desk;
mod door;
mod ended_by;
mod error;
mod fleet;
mod guard;
mod health;
mod held;
mod hub;
mod names;
mod openapi;
mod routes;
mod series;
mod stream;
mod tail;
pub mod tokens;
pub mod webhooks;
mod wire;

pub use access::Role;
pub use config::{HubConfig, StaticToken};
pub use door::Door;
pub use error::{Code, Refusal};
pub use hub::{Hub, HubError};

/// The document of every route, in the OpenAPI format.
pub fn openapi() -> serde_json::Value {
    openapi::document(&routes::routes())
}
