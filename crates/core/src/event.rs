//! Events: what happened, in the order it happened. A store numbers them and keeps them for a while, so
//! that a reader who comes back misses nothing.

use serde::{Deserialize, Serialize};

use crate::ids::{GroupName, JobId, QueueName, ServiceName, TaskName, WorkerId};
use crate::job::{Job, StateWord};
use crate::time::Timestamp;

/// What sort of thing happened. In the libraries it is the short word; on the wire and in logs the long
/// one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum EventKind {
    /// A job was submitted, or sent round again by a person.
    #[serde(rename = "work_queued")]
    Queued,
    /// An attempt began.
    #[serde(rename = "work_started")]
    Started,
    /// A job says how far it is.
    #[serde(rename = "work_progress")]
    Progress,
    /// A job is done.
    #[serde(rename = "work_completed")]
    Completed,
    /// A job failed for good or was set aside; the state tells which.
    #[serde(rename = "work_failed")]
    Failed,
    /// An attempt ended without success and another will follow.
    #[serde(rename = "work_retrying")]
    Retrying,
    /// A job was withdrawn.
    #[serde(rename = "work_cancelled")]
    Cancelled,
    /// A summary of the queue.
    #[serde(rename = "queue_status")]
    QueueStatus,
    /// A service's breaker, hold, pause or limits changed.
    #[serde(rename = "service_status")]
    ServiceStatus,
    /// A queue is nearly full.
    #[serde(rename = "backpressure_active")]
    Backpressure,
    /// A group was paused or resumed.
    #[serde(rename = "group_status")]
    GroupStatus,
}

impl EventKind {
    /// The long word.
    pub fn wire(self) -> &'static str {
        match self {
            Self::Queued => "work_queued",
            Self::Started => "work_started",
            Self::Progress => "work_progress",
            Self::Completed => "work_completed",
            Self::Failed => "work_failed",
            Self::Retrying => "work_retrying",
            Self::Cancelled => "work_cancelled",
            Self::QueueStatus => "queue_status",
            Self::ServiceStatus => "service_status",
            Self::Backpressure => "backpressure_active",
            Self::GroupStatus => "group_status",
        }
    }

    /// The short word.
    pub fn short(self) -> &'static str {
        self.wire().strip_prefix("work_").unwrap_or(self.wire())
    }

    /// Whether it ends a job, and so is never dropped.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }
}

/// How a job ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Final {
    /// Done: dependents may go on.
    Completed,
    /// Failed or quarantined: dependents fail.
    Failed,
    /// Withdrawn: dependents fail, or are withdrawn too.
    Cancelled,
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Its number; a reader resumes after the last one it saw.
    pub seq: u64,
    /// What.
    #[serde(rename = "type")]
    pub kind: EventKind,
    /// When.
    pub at: Timestamp,
    /// The job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<JobId>,
    /// Its task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskName>,
    /// Its group, or the group this is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<GroupName>,
    /// The queue this is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<QueueName>,
    /// The attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// The worker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<WorkerId>,
    /// The job's final state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<StateWord>,
    /// What went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// When the next attempt is due.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_at: Option<Timestamp>,
    /// The service this is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<ServiceName>,
    /// How far, 0 to 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub percent: Option<f32>,
    /// In words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// How long the attempt took, in microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub took: Option<u64>,
}

impl Event {
    /// An event about nothing in particular yet; the store gives it its number.
    pub fn new(kind: EventKind, at: Timestamp) -> Self {
        Self {
            seq: 0,
            kind,
            at,
            job: None,
            task: None,
            group: None,
            queue: None,
            attempt: None,
            worker: None,
            state: None,
            error: None,
            retry_at: None,
            service: None,
            percent: None,
            message: None,
            took: None,
        }
    }

    /// An event about a job.
    pub fn of_job(kind: EventKind, at: Timestamp, job: &Job) -> Self {
        let attempt = (job.life.attempt > 0).then_some(job.life.attempt);
        Self {
            job: Some(job.spec.id),
            task: Some(job.spec.task.clone()),
            group: job.spec.group.clone(),
            attempt,
            ..Self::new(kind, at)
        }
    }
}
