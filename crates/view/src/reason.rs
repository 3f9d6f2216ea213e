//! Why a job waits: one reason as data and in words.

use runcue_core::why::Reason;
use runcue_core::{GroupName, JobId, QueueName, ServiceName, StateWord, Timestamp};
use serde::Serialize;

use crate::millis;

/// One reason.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ReasonView {
    /// Its word: `not_waiting`, `prerequisites`, `not_yet`, `group_paused`, `queue_paused`, `service`,
    /// `no_worker_fits`, `no_worker`, `behind` or `next`.
    pub reason: &'static str,
    /// The same in words.
    pub words: String,
    /// When it ends by itself, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<i64>,
    /// The state of a job that does not wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<StateWord>,
    /// Its latest error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// How many prerequisites are not done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left: Option<u32>,
    /// Some of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub jobs: Vec<JobId>,
    /// Whether it waits after a failed attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<bool>,
    /// The paused group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<GroupName>,
    /// The paused queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<QueueName>,
    /// The service without room.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service: Option<ServiceName>,
    /// What keeps the job out of it, in a word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block: Option<String>,
    /// How many jobs are ahead in its lane.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ahead: Option<u64>,
}

impl From<&Reason> for ReasonView {
    fn from(reason: &Reason) -> Self {
        let plain = Self { words: reason.to_string(), ..Self::default() };
        match reason.clone() {
            Reason::NotWaiting { state, error } => {
                Self { reason: "not_waiting", state: Some(state), error, ..plain }
            }
            Reason::Prerequisites { left, jobs } => {
                Self { reason: "prerequisites", left: Some(left), jobs, ..plain }
            }
            Reason::NotYet { at, retry } => {
                Self { reason: "not_yet", until: Some(millis(at)), retry: Some(retry), ..plain }
            }
            Reason::GroupPaused { group } => {
                Self { reason: "group_paused", group: Some(group), ..plain }
            }
            Reason::QueuePaused { queue } => {
                Self { reason: "queue_paused", queue: Some(queue), ..plain }
            }
            Reason::Service { service, block, until, .. } => Self {
                reason: "service",
                service: Some(service),
                block: Some(block),
                until: until.map(millis),
                ..plain
            },
            Reason::NoWorkerFits => Self { reason: "no_worker_fits", ..plain },
            Reason::NoWorker => Self { reason: "no_worker", ..plain },
            Reason::Behind { ahead } => Self { reason: "behind", ahead: Some(ahead), ..plain },
            Reason::Next => Self { reason: "next", ..plain },
        }
    }
}

impl ReasonView {
    /// When it ends by itself, as an instant.
    pub fn ends_at(&self) -> Option<Timestamp> {
        self.until.map(Timestamp::from_millis)
    }
}
