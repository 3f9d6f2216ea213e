//! What an embedded store has to persist. [`Tables`] are rows and indexes and decide nothing; the
//! [`crate::machine`] decides. All calls between two [`Tables::revision`] calls are one transaction, and
//! nobody else writes in between.

use runcue_core::board::Head;
use runcue_core::breaker::Breaker;
use runcue_core::{
    Event, GroupName, Job, JobFilter, JobId, Key, LaneId, LaneKey, ScheduleName, Seq, ServiceName,
    ServiceSpec, State, StateWord, TaskSpec, Timestamp, Token, WorkerId,
};

use runcue_core::map::Map;
use serde::{Deserialize, Serialize};

use crate::Result;
use crate::reply::{GroupInfo, LogChunk, QueueInfo, Record, ScheduleInfo};
use crate::request::WorkerSpec;

/// Output kept per job, in bytes. The oldest chunks go first; the latest one always stays.
pub const LOG_BYTES: usize = 256 * 1024;

/// Events in one row at the most, in stores that keep them in runs.
pub const EVENTS_PER_ROW: usize = 512;

/// A run of events as JSON. What follows from the row is left out: their numbers, which follow each other,
/// and their instants where they are the row's.
pub fn event_run(events: &[Event], at: Timestamp) -> String {
    let mut body = String::with_capacity(events.len() * 128);
    body.push('[');
    for (n, event) in events.iter().enumerate() {
        if n > 0 {
            body.push(',');
        }
        event.write_json(&mut body, None, Some(event.at).filter(|own| *own != at));
    }
    body.push(']');
    body
}

/// A service as it is stored.
#[derive(Clone, Debug, PartialEq)]
pub struct ServiceRow {
    /// Its definition.
    pub spec: ServiceSpec,
    /// Its breaker.
    pub breaker: Breaker,
    /// Held back until then.
    pub held_until: Timestamp,
}

/// Units of a service used at an instant; fewer than none, if they were noted before and never used.
#[derive(Clone, Debug, PartialEq)]
pub struct UsageRow {
    /// The service.
    pub service: ServiceName,
    /// The key they are counted by.
    pub key: Option<Key>,
    /// When.
    pub at: Timestamp,
    /// How many.
    pub units: i64,
}

/// The numbers a store counts on with.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Counters {
    /// The latest job.
    pub seq: Seq,
    /// The latest claim.
    pub served: Token,
    /// The latest event.
    pub event: u64,
    /// Queued jobs that wait for a time.
    pub delayed: u64,
    /// Queued jobs that wait for prerequisites.
    pub blocked: u64,
    /// The group served last.
    pub last_served_group: Option<GroupName>,
}

/// What has changed since a revision.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    /// Groups.
    pub groups: Vec<GroupInfo>,
    /// Queues.
    pub queues: Vec<QueueInfo>,
    /// Services.
    pub services: Vec<ServiceRow>,
    /// Lanes that gained ready jobs.
    pub lanes: Vec<(LaneId, LaneKey)>,
    /// Uses of services that still count.
    pub usage: Vec<UsageRow>,
    /// Leased and running jobs by lane: all of them, changed or not.
    pub held: Vec<(LaneId, u32)>,
    /// The numbers.
    pub counters: Counters,
    /// This is everything there is, not only what changed: the first look, or lanes were deleted since the
    /// last one. What is known from before is to be forgotten.
    pub afresh: bool,
}

/// A job that was put down beside the queue, in an application's own transaction, to be admitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InboxRow {
    /// Its number.
    pub n: u64,
    /// The job as JSON.
    pub body: String,
}

/// The instants by which jobs are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// Delayed jobs by when their time comes.
    Delayed,
    /// Leased and running jobs by when their lease lapses.
    Lapsed,
}

/// The rows of an embedded store. See the module's documentation for transactions.
pub trait Tables {
    /// Jobs that were submitted one after the other are read faster together than one by one, and faster than
    /// those of a lane that are scattered among others.
    const NEIGHBOURS: bool = false;

    /// The number of the latest committed change, by whomever.
    fn revision(&mut self) -> Result<u64>;
    /// What changed after a revision; after zero, everything.
    fn changes(&mut self, since: u64, now: Timestamp) -> Result<Changes>;
    /// The last write of a transaction: keeps the counters and answers the new revision.
    fn seal(&mut self, counters: &Counters) -> Result<u64>;

    /// The ready jobs of these lanes will be asked for. Tables that can read several at once may use it.
    fn expect_lanes(&mut self, lanes: &[LaneId]) {
        let _ = lanes;
    }

    /// Those of these jobs that are known, with their places. Unless it must be sure, tables that refuse a
    /// known job at their commit, and have the operation run again, need not look.
    fn known(&mut self, ids: &[JobId], sure: bool) -> Result<Map<JobId, Seq>>;
    /// Inserts jobs that are not known yet.
    fn insert(&mut self, jobs: &[Job]) -> Result<()>;
    /// The place of a job.
    fn seq_of(&mut self, id: JobId) -> Result<Option<Seq>>;
    /// A job with everything.
    fn job(&mut self, seq: Seq) -> Result<Option<Job>>;
    /// Writes a job's life, which was in this state before.
    fn save(&mut self, job: &Job, before: &State) -> Result<()>;
    /// Writes the progress of a job.
    fn save_progress(&mut self, job: &Job) -> Result<()>;
    /// Deletes a job with its output and its ties.
    fn delete(&mut self, job: &Job) -> Result<()>;

    /// The job that has an idempotency key.
    fn key_holder(&mut self, key: &str) -> Result<Option<Seq>>;
    /// A job gives its idempotency key up.
    fn drop_key(&mut self, seq: Seq) -> Result<()>;

    /// Notes that a job depends on another.
    fn tie(&mut self, prerequisite: Seq, dependent: Seq) -> Result<()>;
    /// The dependents of a job.
    fn dependents(&mut self, seq: Seq) -> Result<Vec<Seq>>;
    /// The prerequisites of a job.
    fn prerequisites(&mut self, seq: Seq) -> Result<Vec<Seq>>;

    /// The first ready jobs of a lane, best first, no higher than a priority.
    fn ready(&mut self, lane: LaneId, max_priority: Option<i32>, limit: usize)
    -> Result<Vec<Head>>;
    /// The first ready jobs of a lane whole, best first.
    fn ready_jobs(&mut self, lane: LaneId, limit: usize) -> Result<Vec<Job>>;
    /// The ready jobs among so many from this one on, in the order of their submission, as far as that is
    /// cheap. Only asked of tables with [`Tables::NEIGHBOURS`].
    fn ready_from(&mut self, seq: Seq, limit: usize) -> Result<Vec<Job>> {
        let _ = (seq, limit);
        Ok(Vec::new())
    }
    /// How many ready jobs of a lane stand before a job.
    fn ahead(&mut self, job: &Job) -> Result<u64>;
    /// Jobs whose instant has come, earliest first.
    fn due(&mut self, what: Due, now: Timestamp, limit: usize) -> Result<Vec<Seq>>;
    /// The earliest instant of any job.
    fn next_due(&mut self, what: Due) -> Result<Option<Timestamp>>;
    /// Queued jobs whose deadline has passed.
    fn overdue(&mut self, now: Timestamp, limit: usize) -> Result<Vec<Seq>>;
    /// The earliest deadline of a queued job.
    fn next_deadline(&mut self) -> Result<Option<Timestamp>>;
    /// Jobs that a worker instance holds.
    fn held_by(&mut self, worker: WorkerId) -> Result<Vec<Seq>>;
    /// The oldest queued jobs of a queue.
    fn oldest_queued(&mut self, queue: &runcue_core::QueueName, limit: usize) -> Result<Vec<Seq>>;
    /// Jobs that match a filter, oldest first, after a place.
    fn matching(
        &mut self,
        filter: &JobFilter,
        after: Option<Seq>,
        limit: usize,
    ) -> Result<Vec<Seq>>;
    /// Finished jobs of a state, oldest end first: those that ended before an instant, or that are more
    /// than a count.
    fn stale(
        &mut self,
        state: StateWord,
        ended_before: Timestamp,
        keep: u64,
        limit: usize,
    ) -> Result<Vec<Seq>>;

    /// The lane with these constraints, made if need be; the text is its canonical form.
    fn lane(&mut self, key: &LaneKey, canonical: &str) -> Result<LaneId>;
    /// The constraints of a lane.
    fn lane_key(&mut self, lane: LaneId) -> Result<Option<LaneKey>>;
    /// A lane gained ready jobs: others must look again.
    fn touch_lane(&mut self, lane: LaneId) -> Result<()>;

    /// Deletes lanes that no job belongs to, at most so many, and groups that have no jobs and are not
    /// paused. Answers whether it deleted anything. Whoever knew them is told by [`Changes::afresh`].
    fn prune_lanes(&mut self, limit: usize) -> Result<bool>;

    /// Writes groups.
    fn put_groups(&mut self, groups: &[&GroupInfo]) -> Result<()>;
    /// Writes a queue.
    fn put_queue(&mut self, queue: &QueueInfo) -> Result<()>;
    /// Writes a service.
    fn put_service(&mut self, service: &ServiceRow) -> Result<()>;
    /// Writes a record of a front under its key, or deletes it.
    fn put_record(&mut self, record: &Record) -> Result<()>;
    /// Writes a task definition.
    fn put_task(&mut self, task: &TaskSpec) -> Result<()>;
    /// Writes a worker instance.
    fn put_worker(&mut self, worker: &WorkerSpec, now: Timestamp) -> Result<()>;
    /// Deletes a worker instance.
    fn drop_worker(&mut self, worker: WorkerId) -> Result<()>;
    /// Worker instances last heard of after an instant, with what they offer.
    fn live_workers(&mut self, since: Timestamp) -> Result<Vec<WorkerSpec>>;
    /// A worker instance was heard of.
    fn seen_worker(&mut self, worker: WorkerId, now: Timestamp) -> Result<()>;

    /// Writes a schedule.
    fn put_schedule(&mut self, schedule: &ScheduleInfo) -> Result<()>;
    /// Deletes a schedule; answers whether there was one.
    fn drop_schedule(&mut self, name: &ScheduleName) -> Result<bool>;
    /// A schedule.
    fn schedule(&mut self, name: &ScheduleName) -> Result<Option<ScheduleInfo>>;
    /// Every schedule, by name.
    fn schedules(&mut self) -> Result<Vec<ScheduleInfo>>;
    /// Schedules whose next firing has come, earliest first.
    fn due_schedules(&mut self, now: Timestamp) -> Result<Vec<ScheduleInfo>>;
    /// The earliest next firing of any schedule.
    fn next_firing(&mut self) -> Result<Option<Timestamp>>;

    /// Adds to the log of service use.
    fn note_usage(&mut self, rows: &[UsageRow]) -> Result<()>;
    /// Deletes, or counts, entries of that log from before an instant.
    fn prune_usage(&mut self, before: Timestamp, dry_run: bool) -> Result<u64>;
    /// Keeps events; their numbers follow each other.
    fn append_events(&mut self, events: &[Event]) -> Result<()>;
    /// Deletes, or counts, events from before an instant or beyond a count.
    fn prune_events(&mut self, before: Timestamp, keep: u64, dry_run: bool) -> Result<u64>;
    /// Keeps output; no more than a bound per job.
    fn append_log(&mut self, seq: Seq, chunk: &LogChunk) -> Result<()>;

    /// Jobs that were put down beside the queue, after a number, oldest first.
    fn inbox(&mut self, after: u64, limit: usize) -> Result<Vec<InboxRow>> {
        let _ = (after, limit);
        Ok(Vec::new())
    }
    /// A row of the inbox was admitted and goes, or was refused and is kept apart with the reason.
    fn clear_inbox(&mut self, n: u64, refused: Option<&str>) -> Result<()> {
        let _ = (n, refused);
        Ok(())
    }

    /// Checks that stored data agrees with itself.
    fn check(&mut self) -> Result<Vec<String>>;
}
