//! What goes from one store to another: a queue in pieces, each of which is taken over whole.

use runcue_core::{GroupName, Job, JobId, Seq, TaskSpec, Token};

use crate::reply::{GroupInfo, LogChunk, QueueInfo, ScheduleInfo};
use crate::tables::{ServiceRow, UsageRow};

/// A piece of a queue.
#[derive(Clone, Debug, Default)]
pub struct Moved {
    /// What is defined beside the jobs.
    pub definitions: Option<Definitions>,
    /// Jobs, oldest first.
    pub jobs: Vec<MovedJob>,
    /// The place of the last one if there may be more.
    pub next: Option<Seq>,
}

/// Everything beside the jobs.
#[derive(Clone, Debug, Default)]
pub struct Definitions {
    /// Services with their breakers and holds.
    pub services: Vec<ServiceRow>,
    /// Uses of services that still count.
    pub usage: Vec<UsageRow>,
    /// Groups with their pauses and turns; the counts are the jobs' own.
    pub groups: Vec<GroupInfo>,
    /// Queues with their caps and pauses; the depths are the jobs' own.
    pub queues: Vec<QueueInfo>,
    /// Tasks. The machine does not know them; whoever moves a queue adds them.
    pub tasks: Vec<TaskSpec>,
    /// Schedules with their next firings.
    pub schedules: Vec<ScheduleInfo>,
    /// The latest claim, so that no lease is ever taken for another.
    pub served: Token,
    /// The group served last.
    pub last_served_group: Option<GroupName>,
}

/// A job with what belongs to it.
#[derive(Clone, Debug)]
pub struct MovedJob {
    /// The job; its place and its lane are those of the store it comes from.
    pub job: Job,
    /// Whether its idempotency key is still its own.
    pub holds_key: bool,
    /// The jobs it depends on, under the ids they really have.
    pub prerequisites: Vec<JobId>,
    /// Dependents that were submitted before it: those behind it name it themselves.
    pub earlier_dependents: Vec<JobId>,
    /// Output that is to be kept beyond what is there. Whoever moves a queue adds it.
    pub output: Vec<LogChunk>,
}
