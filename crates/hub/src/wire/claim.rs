//! What workers send: their registration, their claims, and the lease they were given.

use std::collections::BTreeSet;

use runcue_core::{JobId, Lease, QueueName, TaskName, Timestamp, Token, WorkerId};
use runcue_view::millis;
use serde::{Deserialize, Serialize};

use super::JobBody;
use crate::error::{Answer, Refusal};
use crate::names::instance_of;

/// The longest name of a worker, in bytes.
const MAX_NAME: usize = 255;

/// A worker says what it is.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RegisterBody {
    pub worker_id: String,
    pub name: Option<String>,
    #[serde(default = "one")]
    pub cores: u32,
    #[serde(default = "one_gb")]
    pub ram_gb: f64,
    #[serde(default)]
    pub tags: BTreeSet<String>,
    #[serde(default)]
    pub types: Vec<TaskName>,
    pub slots: Option<u32>,
    pub instance: Option<WorkerId>,
}

fn one() -> u32 {
    1
}

fn one_gb() -> f64 {
    1.0
}

/// A worker asks for work.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClaimBody {
    pub worker_id: String,
    pub types: Option<BTreeSet<TaskName>>,
    pub max: Option<usize>,
    pub wait: Option<f64>,
    pub instance: Option<WorkerId>,
    #[serde(default)]
    pub queues: BTreeSet<QueueName>,
    pub project: Option<String>,
    #[serde(default)]
    pub labels: BTreeSet<String>,
    pub max_priority: Option<i32>,
}

/// Jobs that were handed out together.
#[derive(Clone, Debug, Serialize)]
pub struct ClaimedBody {
    pub jobs: Vec<JobBody>,
}

/// The right to run one attempt of a job.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LeaseBody {
    pub attempt: u32,
    pub token: u64,
    pub instance: WorkerId,
    #[serde(default)]
    pub expires_at: Option<i64>,
    /// How long after the claim it may start, in milliseconds; nothing if that does not matter.
    #[serde(default)]
    pub start_within_ms: Option<u64>,
}

impl LeaseBody {
    /// A lease as its holder sees it.
    pub fn new(lease: &Lease, now: Timestamp) -> Self {
        let within = lease.start_by.map(|by| by.since(now).as_millis());
        Self {
            attempt: lease.attempt,
            token: lease.token.0,
            instance: lease.worker,
            expires_at: Some(millis(lease.until)),
            start_within_ms: within.map(|span| u64::try_from(span).unwrap_or(u64::MAX)),
        }
    }

    /// The lease as a store knows it. Its end is the store's to know.
    pub fn of(&self, job: JobId) -> Lease {
        Lease {
            job,
            attempt: self.attempt,
            worker: self.instance,
            token: Token(self.token),
            until: Timestamp::ZERO,
            start_by: None,
        }
    }
}

/// The identity of a worker that gives its name and, if it knows of such things, its instance.
pub fn worker(worker_id: &str, instance: Option<WorkerId>) -> Answer<WorkerId> {
    if worker_id.is_empty() || worker_id.len() > MAX_NAME {
        return Err(Refusal::field("worker_id", format!("1 to {MAX_NAME} bytes are expected")));
    }
    if worker_id.chars().any(char::is_control) {
        return Err(Refusal::field("worker_id", "it may not hold control characters"));
    }
    Ok(instance.unwrap_or_else(|| instance_of(worker_id)))
}

impl RegisterBody {
    /// Its identity.
    pub fn id(&self) -> Answer<WorkerId> {
        if !self.ram_gb.is_finite() || self.ram_gb < 0.0 {
            return Err(Refusal::field("ram_gb", "a number, zero or more, is expected"));
        }
        worker(&self.worker_id, self.instance)
    }
}

impl ClaimBody {
    /// The identity of who asks.
    pub fn id(&self) -> Answer<WorkerId> {
        worker(&self.worker_id, self.instance)
    }
}
