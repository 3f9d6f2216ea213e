//! The agent as a whole: says who it is, takes as much as it has slots for, and ends in good order.
//!
//! ```text
//! stop:  no more claims ─▶ running jobs end, for as long as they are given ─▶ the rest is stopped and handed
//!        back ─▶ ends are delivered ─▶ goodbye
//! ```

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::beats::{HeldJobs, Stop};
use crate::client::{HubClient, HubTrouble};
use crate::config::AgentConfig;
use crate::job;
use crate::logs::Logs;
use crate::machine;
use crate::outbox::Outbox;
use crate::solver::Solvers;

const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// How long the last ends may take to be delivered.
const FLUSH: Duration = Duration::from_secs(10);
/// How long stopped programs may take to be gone, beyond their own grace.
const GONE: Duration = Duration::from_secs(16);

/// Why an agent could not start or go on.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The hub says no, and will say so again.
    #[error(transparent)]
    Hub(#[from] HubTrouble),
    /// Something about this machine.
    #[error("{0}")]
    Machine(String),
}

/// What the parts of an agent share.
pub(crate) struct Shared {
    pub(crate) config: AgentConfig,
    pub(crate) hub: HubClient,
    pub(crate) instance: String,
    pub(crate) held: HeldJobs,
    pub(crate) outbox: Outbox,
    pub(crate) logs: Logs,
    pub(crate) solvers: Solvers,
}

/// Takes jobs from a hub and runs them.
pub struct Agent {
    shared: Arc<Shared>,
}

impl Agent {
    /// Sets an agent up; nothing is asked of the hub yet.
    pub fn new(config: AgentConfig) -> Result<Self, AgentError> {
        let hub = HubClient::new(&config.hubs, config.token.clone())?;
        let mut plain = config.plain_hosts.clone();
        plain.extend(hub.hosts().map(str::to_owned));
        let solvers = Solvers::new(
            config.solver_dir.clone(),
            config.max_solver,
            plain,
            config.unchecked_solvers,
        )
        .map_err(AgentError::Machine)?;
        let mut bits = [0_u8; 16];
        getrandom::fill(&mut bits).map_err(|error| AgentError::Machine(error.to_string()))?;
        let instance = bits.iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Self {
            shared: Arc::new(Shared {
                config,
                hub,
                instance,
                held: HeldJobs::default(),
                outbox: Outbox::default(),
                logs: Logs::default(),
                solvers,
            }),
        })
    }

    /// How many cores this machine has and how much memory.
    pub fn machine_size() -> (u32, f64) {
        machine::size()
    }

    /// This start of the agent, as the hub knows it.
    pub fn instance(&self) -> &str {
        &self.shared.instance
    }

    /// Works until `stop`, then ends in good order. A second stop, `now`, gives running jobs no more time.
    pub async fn run(
        &self,
        stop: CancellationToken,
        now: CancellationToken,
    ) -> Result<(), AgentError> {
        let shared = &self.shared;
        let over = CancellationToken::new();
        let beside = TaskTracker::new();
        start_beside(shared, &beside, &over);
        let jobs = TaskTracker::new();
        let worked = work(shared, &jobs, &stop).await;
        jobs.close();
        tokio::select! {
            () = jobs.wait() => {}
            () = tokio::time::sleep(shared.config.grace) => {}
            () = now.cancelled() => {}
        }
        for held in shared.held.all() {
            held.stop(Stop::HandBack);
        }
        let _ = tokio::time::timeout(GONE, jobs.wait()).await;
        if tokio::time::timeout(FLUSH, shared.outbox.empty()).await.is_err() {
            tracing::error!("the hub did not take in the last ends; their leases will lapse");
        }
        over.cancel();
        beside.close();
        let _ = tokio::time::timeout(FLUSH, beside.wait()).await;
        // A hub that is away learns it by our silence.
        let _ = shared.hub.goodbye(&shared.instance).await;
        worked
    }
}

fn start_beside(shared: &Arc<Shared>, beside: &TaskTracker, over: &CancellationToken) {
    let (one, end) = (Arc::clone(shared), over.clone());
    beside.spawn(async move {
        one.held.run(&one.hub, &one.config.worker_id, one.config.heartbeat, end).await;
    });
    let (one, end) = (Arc::clone(shared), over.clone());
    beside.spawn(async move { one.outbox.run(&one.hub, &one.config.worker_id, end).await });
    let (one, end) = (Arc::clone(shared), over.clone());
    beside.spawn(async move { one.logs.run(&one.hub, &one.config.worker_id, end).await });
    if let Some(every) = shared.config.push_every {
        let (one, end) = (Arc::clone(shared), over.clone());
        beside.spawn(async move {
            let config = &one.config;
            machine::run(&one.hub, &config.worker_id, &config.name, every, end).await;
        });
    }
}

/// Claims and starts jobs until it is told to stop.
async fn work(
    shared: &Arc<Shared>,
    jobs: &TaskTracker,
    stop: &CancellationToken,
) -> Result<(), AgentError> {
    if shared.config.slots == 0 {
        // Only the machine's metrics are wanted.
        stop.cancelled().await;
        return Ok(());
    }
    let slots = Arc::new(Semaphore::new(shared.config.slots));
    let (mut registered, mut pause) = (false, FIRST_PAUSE);
    loop {
        let free = tokio::select! {
            () = stop.cancelled() => return Ok(()),
            free = Arc::clone(&slots).acquire_owned() => match free {
                Ok(free) => free,
                Err(_) => return Ok(()),
            },
        };
        let max = 1 + slots.available_permits();
        let asked = async {
            if !registered {
                shared.hub.register(&shared.config, &shared.instance).await?;
            }
            let claimed = Instant::now();
            let jobs = shared.hub.claim(&shared.config, &shared.instance, max).await?;
            // A claim that waited was answered at the end of its wait, not at its beginning.
            let claimed = if jobs.is_empty() { claimed } else { Instant::now() };
            Ok::<_, HubTrouble>((jobs, claimed))
        };
        let answer = tokio::select! {
            () = stop.cancelled() => return Ok(()),
            answer = asked => answer,
        };
        drop(free);
        match answer {
            Ok((claimed, at)) => {
                registered = true;
                pause = FIRST_PAUSE;
                for one in claimed {
                    begin(shared, jobs, &slots, one, at).await;
                }
            }
            Err(HubTrouble::Away(why)) => {
                tracing::warn!(%why, "no jobs can be claimed; trying again");
                // A hub that comes back may have forgotten us.
                registered = false;
                tokio::select! {
                    () = stop.cancelled() => return Ok(()),
                    () = tokio::time::sleep(pause) => {}
                }
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
            Err(error) => return Err(error.into()),
        }
    }
}

async fn begin(
    shared: &Arc<Shared>,
    jobs: &TaskTracker,
    slots: &Arc<Semaphore>,
    one: crate::client::Job,
    claimed: Instant,
) {
    // Never more are claimed than there are free slots, so this does not wait.
    let Ok(slot) = Arc::clone(slots).acquire_owned().await else { return };
    tracing::info!(job = one.id, task = one.task, attempt = one.lease.attempt, "work_started");
    let held = shared.held.add(one);
    let shared = Arc::clone(shared);
    jobs.spawn(async move {
        job::run(&shared, &held, claimed).await;
        drop(slot);
    });
}
