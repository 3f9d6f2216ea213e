//! What workers send: their registration, their claims, and the lease they were given.

use std::collections::BTreeSet;

use runcue_core::{JobId, Lease, QueueName, TaskName, Timestamp, Token, WorkerId};
use runcue_view::millis;
use serde::{Deserialize, Serialize};

use super::JobBody;
use crate::config::{MAX_CLAIM, MAX_WAIT};
use crate::error::{Answer, Refusal};
use crate::names::instance_of;
use crate::openapi::{
    Described, Schema, count, count32, count64, id_read, instant, list_of, may, must, name, number,
    object, read_as, seconds, signed32, text,
};

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

impl Described for RegisterBody {
    const NAME: &'static str = "Register";

    fn schema() -> Schema {
        read_as::<Self>([
            must("worker_id", name()),
            may("name", text().or_null().says("What people call its machine.")),
            may("cores", count32()),
            may("ram_gb", number().with("minimum", 0)),
            may("tags", list_of(text()).says("Words that describe it.")),
            may("types", list_of(name()).says("Job types it takes; none means all.")),
            may("slots", count32().or_null().says("How many jobs it runs at once.")),
            may("instance", id_read().or_null().says("This start of it.")),
        ])
    }
}

impl Described for ClaimBody {
    const NAME: &'static str = "Claim";

    fn schema() -> Schema {
        let most =
            format!("Seconds to wait for work; more than {} count as that.", MAX_WAIT.as_secs());
        let max = count().with("minimum", 1).up_to(MAX_CLAIM).or_null();
        read_as::<Self>([
            must("worker_id", name()),
            may("types", list_of(name()).or_null()),
            may("max", max.says("The most jobs; with it the answer is a list.")),
            may("wait", seconds().or_null().says(&most)),
            may("instance", id_read().or_null()),
            may("queues", list_of(name())),
            may("project", text().or_null()),
            may("labels", list_of(text())),
            may("max_priority", signed32().or_null()),
        ])
    }
}

impl Described for ClaimedBody {
    const NAME: &'static str = "Claimed";

    fn schema() -> Schema {
        object([must("jobs", list_of(JobBody::claimed()))])
    }
}

impl Described for LeaseBody {
    const NAME: &'static str = "Lease";

    fn schema() -> Schema {
        read_as::<Self>([
            must("attempt", count32()),
            must("token", count64()),
            must("instance", id_read()),
            may("expires_at", instant().or_null()),
            may(
                "start_within_ms",
                count64().or_null().says("How long after the claim it may start; `null` if that does not matter."),
            ),
        ])
        .says("The right to run one attempt. A client that sends it back never touches what it no longer holds.")
    }
}
