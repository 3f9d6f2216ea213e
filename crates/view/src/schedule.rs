//! A schedule: what it submits, when, and how it goes.

use runcue_core::{
    GroupName, JobId, Json, Missed, Overlap, QueueName, ScheduleName, TaskName, Timestamp,
};
use runcue_store::ScheduleInfo;
use serde::Serialize;

use crate::millis;

/// A schedule.
#[derive(Clone, Debug, Serialize)]
pub struct ScheduleView {
    /// Its name.
    pub name: ScheduleName,
    /// When, as a cron expression.
    pub cron: String,
    /// The time zone that is read in.
    pub zone: String,
    /// What becomes of firings that nobody was there for.
    pub missed: Missed,
    /// What happens while the job of the firing before is not finished.
    pub overlap: Overlap,
    /// Whether a person paused it.
    pub paused: bool,
    /// The task of its jobs.
    pub task: TaskName,
    /// The queue of its jobs.
    pub queue: QueueName,
    /// The group of its jobs.
    pub group: Option<GroupName>,
    /// The priority of its jobs.
    pub priority: i32,
    /// The target of its jobs.
    pub target: Option<String>,
    /// The params of its jobs.
    pub params: Json,
    /// Its next firings, nearest first; none while it is paused.
    pub next_at: Vec<i64>,
    /// The instant of its latest firing.
    pub last_at: Option<i64>,
    /// The job of that.
    pub last_job: Option<JobId>,
    /// Firings submitted so far.
    pub fired: u64,
    /// Why the latest firing was not submitted, if it was not.
    pub last_error: Option<String>,
}

/// Schedules.
#[derive(Clone, Debug, Serialize)]
pub struct SchedulesView {
    /// The schedules, by name.
    pub schedules: Vec<ScheduleView>,
}

impl ScheduleView {
    /// A schedule with so many of its next firings.
    pub fn new(schedule: &ScheduleInfo, firings: usize) -> Self {
        let (spec, job) = (&schedule.spec, &schedule.spec.job);
        Self {
            name: spec.name.clone(),
            cron: spec.cron.clone(),
            zone: spec.zone.clone(),
            missed: spec.missed,
            overlap: spec.overlap,
            paused: spec.paused,
            task: job.task.clone(),
            queue: job.queue.clone(),
            group: job.group.clone(),
            priority: job.priority,
            target: job.target.clone(),
            params: job.params.clone(),
            next_at: next(schedule, firings).into_iter().map(millis).collect(),
            last_at: schedule.last_at.map(millis),
            last_job: schedule.last_job,
            fired: schedule.fired,
            last_error: schedule.last_error.clone(),
        }
    }
}

/// The next firings of a schedule.
pub fn next(schedule: &ScheduleInfo, firings: usize) -> Vec<Timestamp> {
    let timetable = schedule.spec.timetable().ok();
    let after = |at: &Timestamp| timetable.as_ref().and_then(|table| table.next_after(*at));
    std::iter::successors(schedule.next_at, after).take(firings).collect()
}
