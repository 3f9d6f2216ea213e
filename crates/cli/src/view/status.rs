//! The queue at a glance.

use runcue_core::GroupName;
use runcue_store::Counts;
use serde::Serialize;

use super::{ServiceView, WorkerView};

/// The queue at a glance.
#[derive(Clone, Debug, Serialize)]
pub struct StatusView {
    /// The store it is in.
    pub store: String,
    /// What an acknowledged write survives.
    pub durability: &'static str,
    /// When this was seen.
    pub at: i64,
    /// Jobs by state.
    pub counts: Counts,
    /// Of the queued ones: those that wait only for their turn and for room.
    pub ready: u64,
    /// Of the queued ones: those that wait for a time.
    pub delayed: u64,
    /// Of the queued ones: those that wait for prerequisites.
    pub blocked: u64,
    /// When the oldest ready job was submitted.
    pub oldest_ready_at: Option<i64>,
    /// The group served last.
    pub last_served_group: Option<GroupName>,
    /// Every known worker.
    pub workers: Vec<WorkerView>,
    /// The services that let nothing through just now.
    pub blocked_services: Vec<ServiceView>,
    /// The groups that are paused.
    pub paused_groups: Vec<GroupName>,
    /// What to do next, when work waits and nothing will happen by itself.
    pub hint: Option<String>,
}

impl StatusView {
    /// Workers that are alive.
    pub fn live_workers(&self) -> impl Iterator<Item = &WorkerView> {
        self.workers.iter().filter(|worker| worker.alive)
    }
}
