//! Named queues: their cap, and what happens to a submission that finds them full.

use serde::{Deserialize, Serialize};

use crate::ids::QueueName;

/// What happens to a submission to a full queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnFull {
    /// It is refused.
    #[default]
    Reject,
    /// The oldest waiting jobs are cancelled to make room.
    DropOldest,
    /// The submitter waits for room. A store refuses; the engine tries again when there is news.
    Block,
}

/// The definition of a queue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueSpec {
    /// Its name.
    pub name: QueueName,
    /// The most jobs that may wait in it.
    #[serde(default)]
    pub max_queued: Option<u64>,
    /// What happens beyond that.
    #[serde(default)]
    pub on_full: OnFull,
    /// Nothing of it is handed out.
    #[serde(default)]
    pub paused: bool,
}
