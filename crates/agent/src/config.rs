//! How an agent is set up. Owns the defaults.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use runcue_process::CommandSpec;
use runcue_trace::Tracer;
use serde::Serialize;

/// What a machine offers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Capability {
    /// Cores.
    pub cores: u32,
    /// Memory.
    pub ram_gb: f64,
    /// Words that describe it.
    pub tags: BTreeSet<String>,
}

/// Prepares a command before it is started, for example so that it does not outlive us.
pub type Prepare = Arc<dyn Fn(&mut CommandSpec) + Send + Sync>;

/// How an agent is set up.
#[derive(Clone)]
pub struct AgentConfig {
    /// The hubs, any of which will do.
    pub hubs: Vec<String>,
    /// The token, if they want one.
    pub token: Option<String>,
    /// What this machine is called.
    pub worker_id: String,
    /// What people call it.
    pub name: String,
    /// How many jobs run at once.
    pub slots: usize,
    /// Job types that are taken; all, if there are none.
    pub types: BTreeSet<String>,
    /// What this machine offers.
    pub offers: Capability,
    /// Where verified solvers are kept.
    pub solver_dir: PathBuf,
    /// The largest solver, in bytes.
    pub max_solver: u64,
    /// Hosts that solvers may be fetched from without TLS, besides loopback and the hubs.
    pub plain_hosts: BTreeSet<String>,
    /// Solvers without a checksum are run.
    pub unchecked_solvers: bool,
    /// Programs on this machine for jobs that bring no solver, by type.
    pub programs: BTreeMap<String, Vec<String>>,
    /// Jobs that are a command of their own (`runcue add -- CMD`) are run.
    pub commands: bool,
    /// How long a claim waits at the hub.
    pub wait: Duration,
    /// How often held jobs are reported.
    pub heartbeat: Duration,
    /// How often the machine's metrics are pushed; never, if there is no span.
    pub push_every: Option<Duration>,
    /// How long running jobs may go on after a stop was asked for.
    pub grace: Duration,
    /// Prepares every command before it is started.
    pub prepare: Option<Prepare>,
    /// What makes spans of attempts.
    pub tracer: Tracer,
}

impl AgentConfig {
    /// An agent of a hub with every default.
    pub fn new(hub: impl Into<String>, worker_id: impl Into<String>) -> Self {
        let worker_id = worker_id.into();
        Self {
            hubs: vec![hub.into()],
            token: None,
            name: worker_id.clone(),
            worker_id,
            slots: 1,
            types: BTreeSet::new(),
            offers: Capability { cores: 1, ram_gb: 1.0, tags: BTreeSet::new() },
            solver_dir: std::env::temp_dir().join("runcue-solvers"),
            max_solver: 512 * 1024 * 1024,
            plain_hosts: BTreeSet::new(),
            unchecked_solvers: false,
            programs: BTreeMap::new(),
            commands: false,
            wait: Duration::from_secs(30),
            heartbeat: Duration::from_secs(10),
            push_every: Some(Duration::from_secs(5)),
            grace: Duration::from_secs(30),
            prepare: None,
            tracer: Tracer::off(),
        }
    }
}
