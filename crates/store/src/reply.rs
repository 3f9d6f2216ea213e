//! What a store answers.

use std::collections::BTreeMap;

use runcue_core::breaker::Breaker;
use runcue_core::service::KeyLimits;
use runcue_core::{
    GroupName, Job, JobId, Json, Lease, OnFull, QueueName, Rate, ScheduleName, ScheduleSpec, Seq,
    ServiceName, ServiceSpec, StateWord, Timestamp, Token,
};
use serde::{Deserialize, Serialize};

use crate::request::WorkerSpec;

/// What became of one submitted job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Submitted {
    /// It was accepted.
    New(JobId),
    /// It was known already, by id or by idempotency key: this is the job that is there.
    Existing(JobId),
}

impl Submitted {
    /// The job, whichever it is.
    pub fn id(self) -> JobId {
        match self {
            Self::New(id) | Self::Existing(id) => id,
        }
    }
}

/// What a claim gave.
#[derive(Clone, Debug, Default)]
pub struct Claimed {
    /// Jobs with their leases.
    pub jobs: Vec<(Job, Lease)>,
    /// The earliest instant at which another claim may find something by itself.
    pub wake: Option<Timestamp>,
}

/// What a claim could take now.
#[derive(Clone, Debug, Default)]
pub struct Candidates {
    /// The jobs: groups in the order of their turns, the best of each lane first.
    pub jobs: Vec<Candidate>,
    /// The earliest instant at which there may be others by itself.
    pub wake: Option<Timestamp>,
}

/// A job that a claim could take now.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The job.
    pub job: Job,
    /// How loaded each of its services is, from 0 to 1.
    pub pressure: Vec<(ServiceName, f64)>,
}

/// What a heartbeat was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extended {
    /// The lease holds until then; the job is asked to stop if `cancel`.
    Held {
        /// Until when.
        until: Timestamp,
        /// Somebody wants the job stopped.
        cancel: bool,
    },
    /// The job is no longer the caller's; it must stop and report nothing.
    Lost,
}

/// What became of a finished attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finished {
    /// The job is in this state now; a retried one is queued until then.
    Now {
        /// The state.
        state: StateWord,
        /// When the next attempt is due.
        retry_at: Option<Timestamp>,
    },
    /// The same result was there already.
    Repeated,
    /// The job was no longer the caller's; nothing changed.
    Lost,
}

/// What a reaper did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reaped {
    /// Jobs taken back and queued again.
    pub requeued: Vec<JobId>,
    /// Jobs taken back and set aside.
    pub quarantined: Vec<JobId>,
    /// Jobs whose deadline passed while they waited.
    pub overdue: Vec<JobId>,
    /// The earliest instant at which there may be more to do.
    pub wake: Option<Timestamp>,
}

/// Jobs by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Waiting.
    pub queued: u64,
    /// Handed out.
    pub leased: u64,
    /// Being worked on.
    pub running: u64,
    /// Done.
    pub completed: u64,
    /// Not done, for good.
    pub failed: u64,
    /// Withdrawn.
    pub cancelled: u64,
    /// Set aside.
    pub quarantined: u64,
}

impl Counts {
    /// The count of one state.
    pub fn get(&self, state: StateWord) -> u64 {
        let mut copy = *self;
        *copy.of(state)
    }

    /// The count of one state, to be changed.
    pub fn of(&mut self, state: StateWord) -> &mut u64 {
        match state {
            StateWord::Queued => &mut self.queued,
            StateWord::Leased => &mut self.leased,
            StateWord::Running => &mut self.running,
            StateWord::Completed => &mut self.completed,
            StateWord::Failed => &mut self.failed,
            StateWord::Cancelled => &mut self.cancelled,
            StateWord::Quarantined => &mut self.quarantined,
        }
    }

    /// All jobs.
    pub fn total(&self) -> u64 {
        StateWord::ALL.into_iter().map(|state| self.get(state)).sum()
    }

    /// Jobs that are not in a final state.
    pub fn live(&self) -> u64 {
        self.queued + self.leased + self.running
    }

    /// Adds another count.
    pub fn add(&mut self, other: &Self) {
        for state in StateWord::ALL {
            *self.of(state) += other.get(state);
        }
    }
}

/// A project and its jobs that are not in a final state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProjectInfo {
    /// Its name; nothing for the jobs without a project.
    pub name: Option<String>,
    /// Jobs that wait only for their turn, and for room in their services.
    pub ready: u64,
    /// Jobs that wait for a time or for prerequisites.
    pub waiting: u64,
    /// Jobs that are leased or running.
    pub claimed: u64,
}

/// A job that an application put down in its own transaction and that was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Its number in the inbox.
    pub n: u64,
    /// The job as JSON, as it was put down.
    pub body: String,
    /// The reason.
    pub why: String,
}

/// Counts of everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stats {
    /// Jobs by state.
    pub counts: Counts,
    /// Of the queued ones: those that wait for a time (a retry or `run_at`).
    pub delayed: u64,
    /// Of the queued ones: those that wait for prerequisites.
    pub blocked: u64,
    /// When the oldest job that waits only for its turn was submitted.
    pub oldest_ready: Option<Timestamp>,
    /// The group served last; nothing for jobs without one, or before the first.
    pub last_served_group: Option<GroupName>,
}

/// A group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupInfo {
    /// Its name; nothing for the jobs without a group.
    pub name: Option<GroupName>,
    /// Whether it is paused.
    pub paused: bool,
    /// Its place in the rotation.
    pub turn: u64,
    /// Its jobs by state.
    pub counts: Counts,
}

/// A queue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueInfo {
    /// Its name.
    pub name: QueueName,
    /// Its cap.
    pub max_queued: Option<u64>,
    /// What happens beyond it.
    pub on_full: OnFull,
    /// Whether it is paused.
    pub paused: bool,
    /// Jobs that wait in it.
    pub queued: u64,
}

/// A service and its use.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ServiceInfo {
    /// Its definition.
    pub spec: ServiceSpec,
    /// Jobs using it now.
    pub in_use: u32,
    /// Units used in the window of each rate that ends now.
    pub used: Vec<(Rate, u64)>,
    /// Its breaker.
    pub breaker: Breaker,
    /// Held back by a handler until then.
    pub held_until: Option<Timestamp>,
}

impl ServiceInfo {
    /// Its per-key limits.
    pub fn per_key(&self) -> Option<&KeyLimits> {
        self.spec.per_key.as_ref()
    }
}

/// A schedule and how it goes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScheduleInfo {
    /// Its definition.
    pub spec: ScheduleSpec,
    /// When it fires next; nothing while it is paused.
    pub next_at: Option<Timestamp>,
    /// The instant of the latest firing that was submitted.
    #[serde(default)]
    pub last_at: Option<Timestamp>,
    /// The job of that firing.
    #[serde(default)]
    pub last_job: Option<JobId>,
    /// Firings submitted so far.
    #[serde(default)]
    pub fired: u64,
    /// Why the latest firing was not submitted, if it was not.
    #[serde(default)]
    pub last_error: Option<String>,
}

/// A firing of a schedule that was submitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Firing {
    /// The schedule.
    pub schedule: ScheduleName,
    /// Its instant.
    pub at: Timestamp,
    /// Its job.
    pub job: JobId,
}

/// A firing of a schedule that was not submitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// The schedule.
    pub schedule: ScheduleName,
    /// Its instant.
    pub at: Timestamp,
    /// Why, in words.
    pub why: String,
}

/// What became of the schedules whose firing had come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fired {
    /// What was submitted, in order.
    pub jobs: Vec<Firing>,
    /// What was not.
    pub left_out: Vec<LeftOut>,
    /// The next firing of any schedule.
    pub wake: Option<Timestamp>,
}

/// A worker instance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkerInfo {
    /// What it said of itself.
    pub spec: WorkerSpec,
    /// When it was first seen.
    pub started_at: Timestamp,
    /// When it was last heard of.
    pub seen_at: Timestamp,
    /// Jobs it holds now.
    pub held: u64,
}

/// A page of a listing.
#[derive(Clone, Debug)]
pub struct Page<T> {
    /// The rows.
    pub rows: Vec<T>,
    /// Where the next page begins, if there is one.
    pub next: Option<Seq>,
}

/// Which stream a piece of output came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogStream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
    /// runcue's own remarks.
    Note,
}

/// A piece of a job's output.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogChunk {
    /// Its number; the store gives it.
    pub n: u64,
    /// The job.
    pub job: JobId,
    /// The attempt that wrote it.
    pub attempt: u32,
    /// The claim it was written under; output of a lost lease is not kept.
    pub token: Token,
    /// The stream.
    pub stream: LogStream,
    /// When it was kept.
    pub at: Timestamp,
    /// The text.
    pub text: String,
}

/// What is known of the place that a queue is kept in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Particulars {
    /// The program that keeps it, with its version.
    pub server: Option<String>,
    /// The version of what is stored.
    pub schema: Option<u32>,
    /// What its own clock says, if it has one.
    pub now: Option<Timestamp>,
}

/// What was pruned, or would be.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pruned {
    /// Jobs by final state.
    pub jobs: BTreeMap<StateWord, u64>,
    /// Events.
    pub events: u64,
    /// Entries of the usage log.
    pub usage: u64,
}

impl Pruned {
    /// Adds what another round deleted.
    pub fn add(&mut self, other: &Self) {
        for (state, count) in &other.jobs {
            *self.jobs.entry(*state).or_default() += count;
        }
        self.events += other.events;
        self.usage += other.usage;
    }

    /// Whether there was nothing to do.
    pub fn is_empty(&self) -> bool {
        self.jobs.values().all(|n| *n == 0) && self.events == 0 && self.usage == 0
    }
}

/// Something small that a front keeps with the queue, such as a token. Stores do not look inside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// What sort of thing: a word of its front.
    pub kind: String,
    /// Its name among its kind.
    pub name: String,
    /// What is kept; nothing for one that goes.
    pub value: Option<Json>,
}

impl Record {
    /// Every kind there is, for whoever moves a queue.
    pub const KINDS: [&str; 2] = ["token", "webhook"];

    /// What it is kept under: kinds end where their names begin.
    pub fn key(&self) -> String {
        format!("{}\n{}", self.kind, self.name)
    }

    /// What the keys of a kind begin with.
    pub fn keys_of(kind: &str) -> String {
        format!("{kind}\n")
    }

    /// From what it is kept under.
    pub fn of(key: &str, value: Json) -> Option<Self> {
        let (kind, name) = key.split_once('\n')?;
        Some(Self { kind: kind.to_owned(), name: name.to_owned(), value: Some(value) })
    }
}
