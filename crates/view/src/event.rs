//! An event: something that happened, with its number.

use runcue_core::{Event, GroupName, JobId, QueueName, ServiceName, StateWord, TaskName, WorkerId};
use serde::Serialize;

use crate::millis;

/// Something that happened.
#[derive(Clone, Debug, Serialize)]
pub struct EventView {
    /// Its number; a reader resumes after the last one it saw.
    pub seq: u64,
    /// What, as the long word.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// When.
    pub at: i64,
    /// The job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job: Option<JobId>,
    /// Its task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskName>,
    /// Its group, or the group this is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<GroupName>,
    /// The queue this is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<QueueName>,
    /// The attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// The worker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker: Option<WorkerId>,
    /// The job's final state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<StateWord>,
    /// What went wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// When the next attempt is due.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_at: Option<i64>,
    /// The service this is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service: Option<ServiceName>,
    /// How far, 0 to 100.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub percent: Option<f32>,
    /// In words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Seconds the attempt took.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub took: Option<f64>,
}

impl From<&Event> for EventView {
    fn from(event: &Event) -> Self {
        Self {
            seq: event.seq,
            kind: event.kind.wire(),
            at: millis(event.at),
            job: event.job,
            task: event.task.clone(),
            group: event.group.clone(),
            queue: event.queue.clone(),
            attempt: event.attempt,
            worker: event.worker,
            state: event.state,
            error: event.error.clone(),
            retry_at: event.retry_at.map(millis),
            service: event.service.clone(),
            percent: event.percent,
            message: event.message.clone(),
            took: event.took.map(|micros| micros as f64 / 1e6),
        }
    }
}
