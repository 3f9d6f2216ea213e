//! Filters: which jobs a worker wants to claim, and which a person wants to see or act on.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::ids::{GroupName, JobId, QueueName, TaskName};
use crate::job::{Job, StateWord};
use crate::lane::LaneKey;

/// What a claim is willing to take; an empty set means anything, but for the tasks that are runcue's own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClaimFilter {
    /// Only of these queues.
    pub queues: BTreeSet<QueueName>,
    /// Only of these tasks.
    pub tasks: BTreeSet<TaskName>,
    /// Only of this project.
    pub project: Option<String>,
    /// Only with all of these labels.
    pub labels: BTreeSet<String>,
    /// Only up to this priority.
    pub max_priority: Option<i32>,
}

impl ClaimFilter {
    /// Whether the jobs of a lane are wanted, priority apart.
    pub fn wants(&self, lane: &LaneKey) -> bool {
        let any_task = self.tasks.is_empty() && !lane.task.is_reserved();
        (self.queues.is_empty() || self.queues.contains(&lane.queue))
            && (any_task || self.tasks.contains(&lane.task))
            && (self.project.is_none() || self.project == lane.project)
            && self.labels.is_subset(&lane.labels)
    }
}

/// Which jobs a query or a bulk action means; an empty set means any.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct JobFilter {
    /// These jobs.
    pub ids: BTreeSet<JobId>,
    /// In these states.
    pub states: BTreeSet<StateWord>,
    /// Of this queue.
    pub queue: Option<QueueName>,
    /// Of this group.
    pub group: Option<GroupName>,
    /// Of this task.
    pub task: Option<TaskName>,
    /// Of this project.
    pub project: Option<String>,
    /// With this label.
    pub label: Option<String>,
}

impl JobFilter {
    /// Exactly these jobs.
    pub fn of_ids(ids: impl IntoIterator<Item = JobId>) -> Self {
        Self { ids: ids.into_iter().collect(), ..Self::default() }
    }

    /// All jobs of a group.
    pub fn of_group(group: GroupName) -> Self {
        Self { group: Some(group), ..Self::default() }
    }

    /// The same, in these states only.
    pub fn in_states(mut self, states: impl IntoIterator<Item = StateWord>) -> Self {
        self.states = states.into_iter().collect();
        self
    }

    /// Whether a job is meant.
    pub fn matches(&self, job: &Job) -> bool {
        let spec = &job.spec;
        (self.ids.is_empty() || self.ids.contains(&spec.id))
            && (self.states.is_empty() || self.states.contains(&job.life.state.word()))
            && self.queue.as_ref().is_none_or(|queue| *queue == spec.queue)
            && self.group.as_ref().is_none_or(|group| Some(group) == spec.group.as_ref())
            && self.task.as_ref().is_none_or(|task| *task == spec.task)
            && self.project.as_ref().is_none_or(|project| Some(project) == spec.project.as_ref())
            && self.label.as_ref().is_none_or(|label| spec.labels.contains(label))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::JobSpec;

    #[test]
    fn a_task_of_runcues_own_is_wanted_only_by_name() {
        let task = |name: &str| TaskName::new(name).unwrap();
        let lane = |name: &str| LaneKey::of(&JobSpec::new(JobId::from_u128(1), task(name)));
        let anything = ClaimFilter::default();
        let named = ClaimFilter { tasks: [task("runcue.x")].into(), ..ClaimFilter::default() };
        assert!(anything.wants(&lane("x")) && !anything.wants(&lane("runcue.x")));
        assert!(named.wants(&lane("runcue.x")) && !named.wants(&lane("x")));
        assert!(anything.wants(&lane("runcue-x")), "only the dot makes it ours");
    }
}
