//! Where jobs wait and who takes them: groups, queues and workers.

use std::collections::HashSet;
use std::time::Duration;

use runcue_core::{Capabilities, GroupName, OnFull, QueueName, Timestamp, WorkerId};
use runcue_store::{Counts, GroupInfo, QueueInfo, WorkerInfo};
use serde::Serialize;

use crate::millis;

/// A worker that was not heard of for so long counts as gone.
pub const SILENCE: Duration = Duration::from_secs(60);

/// A group.
#[derive(Clone, Debug, Serialize)]
pub struct GroupView {
    /// Its name; `null` for the jobs without a group.
    pub name: Option<GroupName>,
    /// Whether it is paused.
    pub paused: bool,
    /// Its place in the rotation: the lowest is served next.
    pub turn: u64,
    /// Its jobs by state.
    pub counts: Counts,
}

impl From<&GroupInfo> for GroupView {
    fn from(group: &GroupInfo) -> Self {
        Self {
            name: group.name.clone(),
            paused: group.paused,
            turn: group.turn,
            counts: group.counts,
        }
    }
}

/// Every group.
#[derive(Clone, Debug, Serialize)]
pub struct GroupsView {
    /// The groups.
    pub groups: Vec<GroupView>,
}

/// A queue.
#[derive(Clone, Debug, Serialize)]
pub struct QueueView {
    /// Its name.
    pub name: QueueName,
    /// Jobs that wait in it.
    pub queued: u64,
    /// The most that may.
    pub max_queued: Option<u64>,
    /// What happens beyond that.
    pub on_full: OnFull,
    /// Whether it is paused.
    pub paused: bool,
}

impl From<&QueueInfo> for QueueView {
    fn from(queue: &QueueInfo) -> Self {
        Self {
            name: queue.name.clone(),
            queued: queue.queued,
            max_queued: queue.max_queued,
            on_full: queue.on_full,
            paused: queue.paused,
        }
    }
}

/// Every queue.
#[derive(Clone, Debug, Serialize)]
pub struct QueuesView {
    /// The queues.
    pub queues: Vec<QueueView>,
}

/// A worker instance.
#[derive(Clone, Debug, Serialize)]
pub struct WorkerView {
    /// Its identity.
    pub id: WorkerId,
    /// What people call it.
    pub name: String,
    /// The machine it runs on.
    pub host: String,
    /// Its process there.
    pub pid: u32,
    /// Whether it was heard of lately and is not known to be gone.
    pub alive: bool,
    /// How many jobs it runs at once.
    pub slots: u32,
    /// Jobs it holds now.
    pub held: u64,
    /// What it offers.
    pub offers: Capabilities,
    /// When it was first seen.
    pub started_at: i64,
    /// When it was last heard of.
    pub seen_at: i64,
}

impl WorkerView {
    /// A worker as it stands now; `gone` are those whose process is known to have ended.
    pub fn new(worker: &WorkerInfo, gone: &HashSet<WorkerId>, now: Timestamp) -> Self {
        let spec = &worker.spec;
        Self {
            id: spec.id,
            name: spec.name.clone(),
            host: spec.host.clone(),
            pid: spec.pid,
            alive: !gone.contains(&spec.id) && now.since(worker.seen_at) < SILENCE,
            slots: spec.slots,
            held: worker.held,
            offers: spec.offers.clone(),
            started_at: millis(worker.started_at),
            seen_at: millis(worker.seen_at),
        }
    }
}
