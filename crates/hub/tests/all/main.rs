//! The hub over real connections: every documented route, its words and status codes, who may do what, waiting
//! claims and event streams.

#![expect(clippy::unwrap_used, reason = "helpers of tests: what cannot go on has failed")]

mod actions;
mod claims;
mod definitions;
mod documented;
mod events;
mod openapi;
mod security;
mod server;
mod submit;
mod webhooks;
mod workers;
