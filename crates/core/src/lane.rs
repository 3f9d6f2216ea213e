//! Lanes. Jobs that compete under the same constraints form a lane; inside a lane the order is priority,
//! then age. A claim looks at lanes, never at the backlog behind their heads.

use std::collections::BTreeSet;
use std::hash::{Hash, Hasher};

use serde::{Deserialize, Serialize};

use crate::capability::Requires;
use crate::ids::{GroupName, Key, QueueName, ServiceName, TaskName};
use crate::job::JobSpec;

/// A lane's number on its store.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct LaneId(pub u64);

/// The constraints that the jobs of a lane share.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LaneKey {
    /// Their queue.
    pub queue: QueueName,
    /// Their group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<GroupName>,
    /// Their task.
    pub task: TaskName,
    /// The key that per-key limits are counted by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<Key>,
    /// What their worker must offer.
    #[serde(default, skip_serializing_if = "Requires::is_none")]
    pub requires: Requires,
    /// The services they use, sorted; how many units is each job's own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub services: Vec<ServiceName>,
    /// Their project.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// Their labels.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub labels: BTreeSet<String>,
}

// Requirements are checked numbers, never NaN, so that equal means equal.
impl Eq for LaneKey {}

impl Hash for LaneKey {
    fn hash<H: Hasher>(&self, to: &mut H) {
        self.queue.hash(to);
        self.group.hash(to);
        self.task.hash(to);
        self.key.hash(to);
        self.services.hash(to);
    }
}

impl LaneKey {
    /// The lane a job belongs to.
    pub fn of(spec: &JobSpec) -> Self {
        Self {
            queue: spec.queue.clone(),
            group: spec.group.clone(),
            task: spec.task.clone(),
            key: spec.key.clone(),
            requires: spec.requires.clone(),
            services: spec.services.iter().map(|used| used.service.clone()).collect(),
            project: spec.project.clone(),
            labels: spec.labels.clone(),
        }
    }

    /// One text per lane, the same on every machine.
    pub fn canonical(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// The same constraints but for group and key, which are looked at on their own.
    pub fn gate(&self) -> Self {
        Self { group: None, key: None, ..self.clone() }
    }
}
