//! What a turn writes: rows after the change, by table. Everything in it is written together.

use std::collections::{BTreeMap, BTreeSet};

use runcue_core::{
    Event, GroupName, Job, Json, LaneId, LaneKey, QueueName, ScheduleName, Seq, ServiceName, State,
    TaskName, TaskSpec, Timestamp, Wait, WorkerId,
};

use super::kept::{Places, runs};
use super::{CommitId, Numbers, Rank};
use crate::reply::{GroupInfo, LogChunk, QueueInfo, ScheduleInfo};
use crate::request::WorkerSpec;
use crate::tables::{ServiceRow, UsageRow};

/// What became of one job in a turn.
#[derive(Clone, Debug)]
pub enum JobWrite {
    /// It is new, and this is what it is by now. Its id must not be there yet. If its spec has an
    /// idempotency key the job has it from now on, unless [`WriteSet::dropped_keys`] names the job.
    Insert(Job),
    /// It has changed. Its spec, its lane and its place never do.
    Change {
        /// What it is now.
        job: Job,
        /// The state it was in before the turn.
        before: State,
    },
    /// It is gone, with its output, its key and its ties in both directions.
    Delete {
        /// What it was before the turn.
        job: Job,
    },
}

impl JobWrite {
    /// What the job is by now, or was before it went.
    pub fn job(&self) -> &Job {
        match self {
            Self::Insert(job) | Self::Change { job, .. } | Self::Delete { job } => job,
        }
    }

    /// Whether the job was ready before the turn.
    pub fn was_ready(&self) -> bool {
        match self {
            Self::Insert(_) => false,
            Self::Change { before, .. } => *before == State::Queued(Wait::Turn),
            Self::Delete { job } => job.life.state == State::Queued(Wait::Turn),
        }
    }

    /// Whether it was, or is now.
    pub(super) fn changes_ready(&self) -> bool {
        self.was_ready() || self.job().life.state == State::Queued(Wait::Turn)
    }
}

/// Which events go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrunedEvents {
    /// Those from before an instant.
    pub before: Timestamp,
    /// And those up to a number, that one included.
    pub through: u64,
}

/// All that a turn writes. Deletions and prunings come first, then everything else.
#[derive(Clone, Debug, Default)]
pub struct WriteSet {
    /// The commit's own name, to be stored with its revision. Nothing only in a write set under way.
    pub id: Option<CommitId>,
    /// The revision it builds on. Its own is the next number.
    pub follows: u64,
    /// Whether the turn is held; otherwise only `follows` is compared.
    pub in_turn: bool,
    /// Whether the turn is to go on afterwards.
    pub keeps_turn: bool,
    /// Whether it ends, and the daemon will ask for it again at once ([`Haste::Again`](super::Haste)), after those who have
    /// little to do. Only of a turn that was kept; if it does not ask, [`Backend::abandon`](super::Backend) says so.
    pub lends_turn: bool,
    /// Jobs by place.
    pub jobs: BTreeMap<Seq, JobWrite>,
    /// Jobs that were there before and give their idempotency key up. They come before the inserts, which may
    /// take the key over.
    pub dropped_keys: BTreeSet<Seq>,
    /// Lanes that go, with their canonical text. Whoever knew them must read everything at its next turn.
    pub dropped_lanes: BTreeMap<LaneId, String>,
    /// Groups that go; the same holds.
    pub dropped_groups: BTreeSet<Option<GroupName>>,
    /// New ties: (prerequisite, dependent). Some may be there already.
    pub ties: BTreeSet<(Seq, Seq)>,
    /// New lanes with their canonical text.
    pub lanes: BTreeMap<LaneId, (LaneKey, String)>,
    /// Lanes whose ready jobs have changed, with the best place at which one has become ready; nothing if
    /// jobs only went.
    pub touched: BTreeMap<LaneId, Option<Rank>>,
    /// Leased and running jobs of lanes that use services, as they are now.
    pub held: BTreeMap<LaneId, u32>,
    /// Now and then, all of these that are not zero. A backend that keeps what each commit changed need not look
    /// further back than the last commit that had them.
    pub all_held: Option<Vec<(LaneId, u32)>>,
    /// Groups.
    pub groups: BTreeMap<Option<GroupName>, GroupInfo>,
    /// Queues.
    pub queues: BTreeMap<QueueName, QueueInfo>,
    /// Services.
    pub services: BTreeMap<ServiceName, ServiceRow>,
    /// Schedules, with nothing for one that goes.
    pub schedules: BTreeMap<ScheduleName, Option<ScheduleInfo>>,
    /// Records of fronts by their keys, with nothing for one that goes.
    pub records: BTreeMap<String, Option<Json>>,
    /// Task definitions.
    pub tasks: BTreeMap<TaskName, TaskSpec>,
    /// Worker instances and when they said so. One that is known keeps the instant it was first seen.
    pub workers: BTreeMap<WorkerId, (WorkerSpec, Timestamp)>,
    /// Worker instances that go.
    pub dropped_workers: BTreeSet<WorkerId>,
    /// Known worker instances that were heard of; one that is not known stays unknown.
    pub seen_workers: BTreeMap<WorkerId, Timestamp>,
    /// Uses of services.
    pub usage: Vec<UsageRow>,
    /// Entries of the usage log from before this instant go; the new ones stay.
    pub prune_usage: Option<Timestamp>,
    /// Events, their numbers following each other.
    pub events: Vec<Event>,
    /// Events that go; the new ones stay.
    pub prune_events: Option<PrunedEvents>,
    /// Output with its number and its job. No more than [`super::LOG_BYTES`] are kept per job.
    pub logs: Vec<(Seq, LogChunk)>,
    /// Rows of the inbox that were admitted; they go.
    pub admitted: Vec<u64>,
    /// Rows of the inbox that were refused, and why; they are kept apart for people to see.
    pub refused: Vec<(u64, String)>,
    /// The numbers after the turn.
    pub numbers: Numbers,
    /// Others may want to know: jobs have become ready, ended, or been asked to stop, or a limit or a pause
    /// has changed. A commit with news wakes the other daemons, once.
    pub news: bool,
    /// What they are told with the news, besides the revision.
    pub tells: Option<String>,
}

impl WriteSet {
    /// What wakes the other daemons, if there is news: the revision, and what they are told.
    pub fn message(&self) -> Option<String> {
        let revision = self.follows + 1;
        let message = || match &self.tells {
            Some(tells) => format!("{revision} {tells}"),
            None => revision.to_string(),
        };
        self.news.then(message)
    }

    /// The jobs that come, change or go: whoever knows one of them must read it again.
    pub fn changed(&self) -> Vec<Places> {
        runs(self.jobs.keys().copied())
    }

    /// How many jobs it hands out, and how many of those that were handed out come back.
    pub(super) fn handed_out_and_back(&self) -> (usize, usize) {
        let mut moved = (0, 0);
        for write in self.jobs.values() {
            if let JobWrite::Change { job, before } = write {
                match (before.lease().is_some(), job.life.state.lease().is_some()) {
                    (false, true) => moved.0 += 1,
                    (true, false) => moved.1 += 1,
                    _ => {}
                }
            }
        }
        moved
    }
}
