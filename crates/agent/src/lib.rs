//! The worker agent: takes jobs from a hub and runs them here. It opens no port; everything it does, it asks for
//! over HTTP, so a machine behind NAT is as good as any other.
//!
//! ```text
//! claim (waits at the hub) ─▶ solver (verified, cached) ─▶ run, watched ─▶ logs ─▶ outbox ─▶ hub
//!                                  beats: every held job is kept, and cancelled ones are stopped
//! ```
//!
//! The hub may be away for minutes: what runs goes on, what ended is delivered when it is back. A job that was
//! given to somebody else meanwhile is stopped here and reported by nobody but its holder.

mod agent;
mod beats;
mod client;
mod config;
mod job;
mod logs;
mod machine;
mod outbox;
mod solver;

pub use agent::{Agent, AgentError};
pub use client::{HubClient, HubTrouble};
pub use config::{AgentConfig, Capability};
