//! How a hub is set up. Owns the defaults and the bounds of what comes from outside.

use std::time::Duration;

use runcue_engine::Tracer;

use crate::access::Role;

/// The largest body of a single request, in bytes.
pub const MAX_BODY: usize = 4 * 1024 * 1024;
/// The largest body of a bulk submission, in bytes.
pub const MAX_BULK_BODY: usize = 256 * 1024 * 1024;
/// The most jobs in one bulk submission.
pub const MAX_BULK: usize = 100_000;
/// The longest a claim may wait.
pub const MAX_WAIT: Duration = Duration::from_secs(60);
/// The most jobs in one claim.
pub const MAX_CLAIM: usize = 1_000;

/// A token that was given at start, not through the store.
#[derive(Clone, Debug)]
pub struct StaticToken {
    /// What it is called in lists.
    pub name: String,
    /// What it may do.
    pub role: Role,
    /// The token itself.
    pub secret: String,
}

/// How a hub is set up.
#[derive(Clone, Debug)]
pub struct HubConfig {
    /// What people call the store.
    pub place: String,
    /// How long a claimed job stays with its worker without a heartbeat.
    pub lease: Duration,
    /// How often jobs of silent workers are looked for.
    pub reap_every: Duration,
    /// How long after its claim a job of a rated service may start.
    pub start_within: Duration,
    /// Names under which the hub may be addressed, besides addresses and `localhost`.
    pub hosts: Vec<String>,
    /// Tokens given at start.
    pub tokens: Vec<StaticToken>,
    /// Nobody needs a token as long as there is none. Only for loopback.
    pub open: bool,
    /// The hub is reached through TLS, so that cookies are only sent that way.
    pub tls: bool,
    /// Jobs whose solver has no checksum are taken.
    pub unchecked_solvers: bool,
    /// What makes spans of submissions.
    pub tracer: Tracer,
}

impl Default for HubConfig {
    fn default() -> Self {
        Self {
            place: String::new(),
            lease: Duration::from_secs(60),
            reap_every: Duration::from_secs(15),
            start_within: Duration::from_secs(2),
            hosts: Vec::new(),
            tokens: Vec::new(),
            open: true,
            tls: false,
            unchecked_solvers: false,
            tracer: Tracer::off(),
        }
    }
}
