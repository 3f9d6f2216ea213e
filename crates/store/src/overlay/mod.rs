//! Stores on servers: the same [`Machine`](crate::machine::Machine) as in the embedded ones, working in *turns*.
//!
//! Several daemons share a server. Each has one thread that writes ([`Writer`]). It takes whatever requests
//! have come in, takes the queue's turn, lets the machine work on an [`Overlay`], and writes all that came of
//! it in one atomic step that also ends the turn. Turns are exclusive over all daemons, so claim and services
//! are one atomic step whoever claims.
//!
//! The overlay is the machine's [`Tables`](crate::tables::Tables). It answers reads from what this turn has
//! changed, from what it knows to be unchanged, and else from the [`Backend`], asking for as much as it can
//! foresee in one question. It keeps every write as rows after the change (a [`WriteSet`]); several changes
//! of one job are one row.
//!
//! A backend is what a server has to offer: take the turn, answer questions, write a write set. It decides
//! nothing. Its calls block; they are made by one thread at a time.
//!
//! **Without a turn.** A daemon that has been alone for a while skips [`Backend::begin`]: its operations run
//! on what it knows, and [`Backend::commit`] names the revision they build on. If somebody else has written in
//! the meantime nothing is written, and the operations run again in a real turn. So one daemon needs one round
//! trip per batch. Operations are therefore repeatable.
//!
//! **Kept turns.** Where several daemons are busy, the one whose turn it is keeps it over several commits, for some
//! tens of milliseconds at the most and as long as it has more to do: what it knows stays good, and it need not wait for the
//! others between any two of its batches. They wait, and each has its turn in the order in which it asked.
//!
//! **Lent turns.** Those who have little to do go before those who have much, however many of them wait. Whoever keeps a
//! turn for much hears with its commits that somebody waits with little, lends the turn, and goes on with it afterwards.
//!
//! **Decided while written.** A large commit is carried out by a second thread (`desk.rs`), and the next turn is decided
//! meanwhile on what it will have written. If it comes to nothing, both are decided again.
//!
//! **Told changes.** A small commit with news says in its message what it has changed. Whoever was up to date takes that
//! over and need not begin a turn to know it (`told.rs`).
//!
//! **Claims ahead.** A daemon with nothing else to do that was told of jobs claims them before its engine asks (`ahead.rs`);
//! if it is the one they are submitted to, in the same commit.
//!
//! **Lost replies.** A commit has an id of its own, which is stored with its revision. When its reply is lost,
//! [`Backend::settle`] says whether it went through, and makes sure that it never will if it did not.

mod ahead;
mod ask;
mod cache;
mod clock;
mod desk;
mod door;
mod kept;
mod news;
mod requests;
mod store;
mod tables;
mod told;
mod window;
mod write_set;
mod writer;

use std::collections::BTreeMap;
use std::time::Duration;

use runcue_core::{
    Job, JobFilter, JobId, LaneId, LaneKey, QueueName, ScheduleName, Seq, StateWord, Timestamp,
    WorkerId,
};

use serde::{Deserialize, Serialize};

use crate::Result;
use crate::reply::{GroupInfo, QueueInfo, ScheduleInfo};
use crate::request::WorkerSpec;
use crate::tables::{Counters, InboxRow, ServiceRow, UsageRow};

pub use cache::{Foresight, Overlay};
pub use kept::Places;
pub use news::News;
pub use requests::{Answered, Writer};
pub use store::{Reader, ServerStore};
pub use write_set::{JobWrite, PrunedEvents, WriteSet};
pub use writer::{LARGE, Settings};

pub use crate::tables::LOG_BYTES;

/// Names one commit of one daemon, once and for all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CommitId(pub u128);

/// The place of a ready job in its lane. Smaller is sooner: higher priorities first, then the older job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rank {
    /// The job's priority.
    pub priority: i32,
    /// The job.
    pub seq: Seq,
}

impl Rank {
    /// Behind every job.
    pub const END: Self = Self { priority: i32::MIN, seq: Seq(u64::MAX) };

    /// The place of a job.
    pub fn of(job: &Job) -> Self {
        Self { priority: job.spec.priority, seq: job.seq }
    }
}

impl Ord for Rank {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        other.priority.cmp(&self.priority).then(self.seq.cmp(&other.seq))
    }
}

impl PartialOrd for Rank {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// Lists of jobs by an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Timed {
    /// Delayed jobs (`Wait::Until`) by when their time comes.
    Delayed,
    /// Leased and running jobs by when their lease lapses.
    Lapsing,
    /// Queued jobs that have a deadline (`Life::deadline`), by it.
    Deadline,
}

/// No job of a list has an earlier instant than this; nothing means that the list is empty. A bound may be
/// too early, never too late. It is kept with the revision, so that whoever begins a turn knows without
/// looking whether something is due, and does not read the dead beginning of an index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Earliest {
    /// Of [`Timed::Delayed`].
    pub delayed: Option<Timestamp>,
    /// Of [`Timed::Lapsing`].
    pub lapsing: Option<Timestamp>,
    /// Of [`Timed::Deadline`].
    pub deadline: Option<Timestamp>,
}

impl Earliest {
    /// The bound of a list.
    pub fn get(&self, list: Timed) -> Option<Timestamp> {
        match list {
            Timed::Delayed => self.delayed,
            Timed::Lapsing => self.lapsing,
            Timed::Deadline => self.deadline,
        }
    }

    /// The bound of a list, to be changed.
    pub fn of(&mut self, list: Timed) -> &mut Option<Timestamp> {
        match list {
            Timed::Delayed => &mut self.delayed,
            Timed::Lapsing => &mut self.lapsing,
            Timed::Deadline => &mut self.deadline,
        }
    }
}

/// The numbers that are kept with a revision. A new queue has [`Numbers::default`] and revision 1.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Numbers {
    /// What the machine counts on with.
    pub counters: Counters,
    /// The latest lane.
    pub lane: u64,
    /// The latest chunk of output.
    pub log: u64,
    /// Bounds of the lists by instant.
    pub earliest: Earliest,
}

/// What a turn begins with.
#[derive(Clone, Debug, Default)]
pub struct Opening {
    /// The latest revision; the turn's own will be the next number.
    pub revision: u64,
    /// The server's clock.
    pub now: Timestamp,
    /// The numbers of that revision.
    pub numbers: Numbers,
    /// What has changed since the revision that the daemon knows; nothing if that is the latest.
    pub changed: Option<Changed>,
    /// Answers to the questions that were sent along.
    pub answers: Answers,
}

/// What has changed since a revision.
#[derive(Clone, Debug, Default)]
pub struct Changed {
    /// This is everything, not only what has changed: the daemon knew nothing, is too far behind, or lanes and
    /// groups have gone since ([`WriteSet::dropped_lanes`], [`WriteSet::dropped_groups`]).
    pub whole: bool,
    /// Groups.
    pub groups: Vec<GroupInfo>,
    /// Queues.
    pub queues: Vec<QueueInfo>,
    /// Services, in the order they were first defined.
    pub services: Vec<ServiceRow>,
    /// Lanes that [`WriteSet::touched`] has named since. If whole: lanes that have ready jobs.
    pub lanes: Vec<TouchedLane>,
    /// Schedules, with nothing for one that is gone.
    pub schedules: Vec<(ScheduleName, Option<ScheduleInfo>)>,
    /// Uses of services noted since. If whole: those that the longest window of any service
    /// (`ServiceSpec::memory`) still counts.
    pub usage: Vec<UsageRow>,
    /// Leased and running jobs by lane, as [`WriteSet::held`] has named them since. If whole: all that are
    /// not zero.
    pub held: Vec<(LaneId, u32)>,
    /// Jobs that came, changed or went, as [`WriteSet::changed`] has named them since, in any order, a job once
    /// or more. If whole: nothing.
    pub jobs: Vec<Places>,
}

/// Rows of changes that nobody has asked about, at the most.
const MUCH: usize = 4096;

impl Changed {
    /// Whether it is too much to keep for somebody who may never ask.
    fn is_much(&self) -> bool {
        let few = self.groups.len() + self.queues.len() + self.lanes.len() + self.held.len();
        few + self.usage.len() + self.jobs.len() > MUCH
    }

    /// Adds what has changed after that. Later rows of the same thing count.
    fn go_on(&mut self, later: Self) {
        self.groups.extend(later.groups);
        self.queues.extend(later.queues);
        self.services.extend(later.services);
        self.lanes.extend(later.lanes);
        self.schedules.extend(later.schedules);
        self.usage.extend(later.usage);
        self.held.extend(later.held);
        self.jobs.extend(later.jobs);
    }
}

/// A lane whose ready jobs have changed.
#[derive(Clone, Debug)]
pub struct TouchedLane {
    /// The lane.
    pub lane: LaneId,
    /// Its constraints.
    pub key: LaneKey,
    /// The best place at which a job has become ready since; nothing if jobs only went.
    pub from: Option<Rank>,
}

/// Rows that are asked for together, in one round trip. See [`Answers`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Questions {
    /// Jobs by id.
    pub ids: Vec<JobId>,
    /// Jobs by place.
    pub seqs: Vec<Seq>,
    /// Jobs by place that are ready, as far as the daemon knows. One that is not may be left out: then somebody else has
    /// written.
    pub ready_seqs: Vec<Seq>,
    /// Who has these idempotency keys.
    pub keys: Vec<String>,
    /// The first ready jobs of lanes.
    pub ready: Vec<ReadyQuestion>,
    /// The dependents of these jobs.
    pub dependents: Vec<Seq>,
    /// The prerequisites of these jobs.
    pub prerequisites: Vec<Seq>,
    /// Lanes by their canonical text.
    pub lanes: Vec<String>,
    /// The constraints of these lanes.
    pub lane_keys: Vec<LaneId>,
}

impl Questions {
    /// Whether nothing is asked.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The first ready jobs of a lane, best first.
#[derive(Clone, Debug, PartialEq)]
pub struct ReadyQuestion {
    /// The lane.
    pub lane: LaneId,
    /// No ready job of the lane stands before this place, so a search may begin there. It is a help, not a
    /// condition.
    pub from: Option<Rank>,
    /// Only jobs behind this place: those up to it are known. Never asked of a backend that cannot begin at a place
    /// ([`Backend::begins_behind`]), but by [`Backend::begin_reading`].
    pub behind: Option<Rank>,
    /// How many ready jobs of the lane are known to stand up to that place, when what was decided is written.
    pub known: usize,
    /// Only jobs of no higher priority.
    pub max_priority: Option<i32>,
    /// At most so many.
    pub limit: usize,
}

/// The answers to [`Questions`]. What does not exist is left out.
#[derive(Clone, Debug, Default)]
pub struct Answers {
    /// The jobs named by `ids`, `seqs` and `ready_seqs`, those that have `keys`, and the dependents and prerequisites
    /// asked for: whole, in any order, a job once or more.
    pub jobs: Vec<Job>,
    /// Keys and who has them.
    pub keys: Vec<(String, Seq)>,
    /// Ready jobs, whole: one list per question, in the order of the questions.
    pub ready: Vec<Vec<Job>>,
    /// (prerequisite, dependent) for all that was asked, in any order.
    pub ties: Vec<(Seq, Seq)>,
    /// Lanes by canonical text.
    pub lanes: Vec<(String, LaneId)>,
    /// The constraints of lanes.
    pub lane_keys: Vec<(LaneId, LaneKey)>,
}

/// Jobs that are looked for by more than a key. All answers are in the order of the places, unless said.
#[derive(Clone, Debug)]
pub enum Find<'a> {
    /// Leased and running jobs of a worker instance.
    HeldBy(WorkerId),
    /// The oldest queued jobs of a queue.
    OldestQueued {
        /// The queue.
        queue: &'a QueueName,
        /// At most so many.
        limit: usize,
    },
    /// Jobs that match a filter, after a place.
    Matching {
        /// The filter.
        filter: &'a JobFilter,
        /// Only later ones.
        after: Option<Seq>,
        /// At most so many.
        limit: usize,
    },
    /// Finished jobs of a state in the order of their ends: those that ended before an instant, or that are
    /// more than a count, whichever are more.
    Stale {
        /// The state.
        state: StateWord,
        /// The instant.
        ended_before: Timestamp,
        /// The count.
        keep: u64,
        /// At most so many.
        limit: usize,
    },
}

/// How much a daemon has to do that asks for the turn: who goes first, and nothing else, is decided by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Haste {
    /// Little: it goes before those who have much, and after others of its kind who came before.
    Little,
    /// Much: it goes in the order in which it came.
    Much,
    /// Much, and it has lent the turn ([`WriteSet::lends_turn`]): it goes before others who have much.
    Again,
}

/// What became of a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Committed {
    /// It is written, and as durable as the store's mode says.
    Done {
        /// The server's clock.
        now: Timestamp,
        /// Whether the turn goes on. Not without [`WriteSet::keeps_turn`].
        kept: bool,
        /// Whether somebody with little to do waits for it. Need not be known if it ends.
        hurry: bool,
        /// How many with much to do wait for it, if it is kept and that is known. What was known before counts otherwise.
        line: Option<usize>,
    },
    /// Somebody else has written since the revision it builds on, or the turn was lost: nothing is written.
    Behind,
    /// Jobs that it inserts are there already: nothing is written.
    Known(Vec<JobId>),
}

/// Is told what came of reading jobs: nothing if they cannot be relied on.
pub type OnRead<'a> = dyn FnMut(Option<Vec<Job>>) + 'a;

/// What a server has to offer. See the module's documentation.
///
/// Every call may fail with [`StoreError::Unavailable`](crate::StoreError::Unavailable): then the writer
/// calls [`Backend::connect`], again and again with growing pauses. Any other error says that the connection
/// is good and that nothing was written.
pub trait Backend: Send + 'static {
    /// Connects anew. A turn that was held is lost. Called before anything else.
    fn connect(&mut self) -> Result<()>;

    /// Takes the turn, waiting for others to end theirs, and answers what has happened since a revision
    /// (zero: since ever) together with the answers to some questions, in one round trip if the server can.
    /// `now` is the caller's clock, if that is the one that counts; else the server's does. Where the lanes of
    /// the questions begin is what the daemon knows from that revision.
    ///
    /// Questions after this one see one state until `commit` or `abandon`.
    fn begin(
        &mut self,
        known: u64,
        now: Option<Timestamp>,
        questions: &Questions,
        haste: Haste,
    ) -> Result<Opening>;

    /// The latest revision and the server's clock, without a turn.
    fn look(&mut self) -> Result<(u64, Timestamp)>;

    /// Answers questions, in one round trip. Without a turn the answers may be newer than the revision the
    /// daemon knows; then its commit will be refused.
    fn ask(&mut self, questions: &Questions) -> Result<Answers>;

    /// A secret that is kept with the queue, and that nobody knows who may not write to it. Daemons sign with it what they
    /// tell each other; nothing is told without one.
    fn secret(&mut self) -> Result<Option<Vec<u8>>>;

    /// Whether ready jobs can be read while a commit is carried out.
    fn reads_beside(&self) -> bool {
        false
    }

    /// Has the first ready jobs of a lane read as soon as the turn that is begun next is taken, without anybody waiting for
    /// it. They are taken over by [`Backend::end_reading`]. Answers whether that can be.
    fn read_when_begun(&mut self, _question: &ReadyQuestion) -> bool {
        false
    }

    /// Whether a search for ready jobs can begin behind a place, so that nothing is read twice.
    fn begins_behind(&self) -> bool {
        false
    }

    /// Begins to read ready jobs behind a place, with the next commit or while it is under way. `known` is the latest
    /// revision, which that commit follows. Nothing is read by a server that cannot do both at once.
    fn begin_reading(&mut self, _question: &ReadyQuestion, _known: u64) {}

    /// What came of that, after the commit, and perhaps after another one of this daemon, unless that one has told it: the
    /// jobs as of the revision before it or of its own, or nothing.
    fn end_reading(&mut self) -> Option<Vec<Job>> {
        None
    }

    /// Everything, as for a daemon that knows nothing; in the middle of a turn. Uses of services are counted
    /// for at least so long, because the turn may have lengthened a window.
    fn whole(&mut self, now: Timestamp, memory: Duration) -> Result<Changed>;

    /// The first jobs of a list with their instants, in the order (instant, place), at most so many. None is
    /// before `from`, so a search may begin there.
    fn timed(
        &mut self,
        list: Timed,
        from: Option<Timestamp>,
        limit: usize,
    ) -> Result<Vec<(Timestamp, Seq)>>;

    /// Looks for jobs.
    fn find(&mut self, what: &Find<'_>) -> Result<Vec<Seq>>;

    /// How many ready jobs of a lane stand before a place.
    fn ahead(&mut self, lane: LaneId, place: Rank) -> Result<u64>;

    /// Lanes that no job belongs to, with their canonical text, at most so many; `going` says how many jobs of
    /// which lanes the turn deletes.
    fn idle_lanes(
        &mut self,
        going: &BTreeMap<LaneId, u64>,
        limit: usize,
    ) -> Result<Vec<(LaneId, String)>>;

    /// Worker instances last heard of at an instant or later.
    fn live_workers(&mut self, since: Timestamp) -> Result<Vec<WorkerSpec>>;

    /// Entries of the usage log from before an instant.
    fn count_usage(&mut self, before: Timestamp) -> Result<u64>;

    /// Events that [`WriteSet::prune_events`] would delete.
    fn count_events(&mut self, what: PrunedEvents) -> Result<u64>;

    /// Jobs that were put down beside the queue, to be admitted, after a number, oldest first.
    fn inbox(&mut self, after: u64, limit: usize) -> Result<Vec<InboxRow>>;

    /// Checks that stored data agrees with itself.
    fn check(&mut self) -> Result<Vec<String>>;

    /// Writes a turn whole or not at all, and ends it, unless it is to be kept and that can be. Must answer
    /// [`Committed::Behind`] unless the latest revision is [`WriteSet::follows`] (and, in a turn, the turn is still held).
    /// Afterwards the latest revision is the next number, with the write set's id and numbers. One round trip.
    ///
    /// With an error other than `Unavailable` nothing is written; with that one nobody knows, and `settle`
    /// will be asked.
    ///
    /// If this commit or one before it began to read jobs, `read` is told what came of that, as soon as nobody has to wait
    /// for it, best while the server is busy with this one.
    fn commit_and_tell(&mut self, writes: &WriteSet, read: &mut OnRead<'_>) -> Result<Committed>;

    /// The same where nothing is read.
    fn commit(&mut self, writes: &WriteSet) -> Result<Committed> {
        self.commit_and_tell(writes, &mut drop)
    }

    /// Ends the turn without writing.
    fn abandon(&mut self);

    /// Whether the commit that was to follow a revision went through. If not, it never will: its turn is
    /// over, or the revision it builds on is no longer the latest (a new one with the same numbers is
    /// written). An error if that is too long ago to tell.
    fn settle(&mut self, commit: CommitId, follows: u64) -> Result<bool>;
}
