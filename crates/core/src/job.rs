//! What a job is: [`JobSpec`], what was asked for and never changes, and [`Life`], what has happened to it.
//! How a life changes is [`crate::transition`]'s; which job runs next is [`crate::board`]'s.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::capability::Requires;
use crate::ids::{GroupName, JobId, Key, QueueName, TaskName, Token, WorkerId};
use crate::json::Json;
use crate::lane::LaneId;
use crate::retry::{ErrorKind, RetryPolicy};
use crate::service::Use;
use crate::time::{Timestamp, seconds};
use crate::trace::TraceParent;

/// How many failures a job remembers; the oldest are forgotten first.
pub const FAILURES_KEPT: usize = 20;

/// What there is to do, as it was submitted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobSpec {
    /// Chosen by the submitter, so that a submission repeated after a lost reply is recognised.
    pub id: JobId,
    /// Its kind.
    pub task: TaskName,
    /// The queue it waits in.
    #[serde(default, skip_serializing_if = "is_default")]
    pub queue: QueueName,
    /// What to work on: a path, a record, an address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// Whatever the task needs to know.
    #[serde(default, skip_serializing_if = "is_default")]
    pub params: Json,
    /// Higher runs first inside a group.
    #[serde(default, skip_serializing_if = "is_default")]
    pub priority: i32,
    /// The unit of fairness and of pause; jobs without one share a bucket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<GroupName>,
    /// Words a claim can be filtered by.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub labels: BTreeSet<String>,
    /// The project a claim can be filtered by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// Jobs that must complete first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub depends_on: Vec<JobId>,
    /// How long one attempt may run.
    #[serde(default, with = "seconds::option", skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Duration>,
    /// How long to wait for the prerequisites before giving up.
    #[serde(default, with = "seconds::option", skip_serializing_if = "Option::is_none")]
    pub dependency_timeout: Option<Duration>,
    /// A live or completed job with this key is returned instead of a second one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
    /// When and how often to try again.
    #[serde(default, skip_serializing_if = "is_default")]
    pub retry: RetryPolicy,
    /// Not before this instant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_at: Option<Timestamp>,
    /// Cancelled if not started by this instant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// What a worker must offer.
    #[serde(default, skip_serializing_if = "Requires::is_none")]
    pub requires: Requires,
    /// What it uses while it runs, sorted by service.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub services: Vec<Use>,
    /// The key that per-key limits are counted by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<Key>,
    /// Where an agent downloads the program that does the work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub solver_url: Option<String>,
    /// The sha256 of that program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub solver_checksum: Option<String>,
    /// The trace that its attempts belong to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<TraceParent>,
}

/// What is not written down is the default: a stored job stays small.
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl JobSpec {
    /// A job of a task with every default.
    pub fn new(id: JobId, task: TaskName) -> Self {
        Self {
            id,
            task,
            queue: QueueName::default(),
            target: None,
            params: Json::default(),
            priority: 0,
            group: None,
            labels: BTreeSet::new(),
            project: None,
            depends_on: Vec::new(),
            timeout: None,
            dependency_timeout: None,
            idempotency_key: None,
            retry: RetryPolicy::default(),
            run_at: None,
            expires_at: None,
            requires: Requires::default(),
            services: Vec::new(),
            key: None,
            solver_url: None,
            solver_checksum: None,
            traceparent: None,
        }
    }
}

/// The order of submission on a store. Ties of priority are broken by it.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Seq(pub u64);

/// The exclusive right to run one attempt of a job until an instant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// The job.
    pub job: JobId,
    /// Which attempt this is, counted from one.
    pub attempt: u32,
    /// Who holds it.
    pub worker: WorkerId,
    /// Tells it from every other lease.
    pub token: Token,
    /// When it lapses unless extended.
    pub until: Timestamp,
    /// The job uses a rated service and was counted as starting no later than this; a worker that is
    /// later than that hands it back instead of starting it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_by: Option<Timestamp>,
}

impl Lease {
    /// Whether this is the same right, however often either was extended.
    pub fn same_as(&self, other: &Self) -> bool {
        self.job == other.job
            && self.attempt == other.attempt
            && self.worker == other.worker
            && self.token == other.token
    }
}

/// What a queued job waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Wait {
    /// Nothing of its own: its turn, and room in its services.
    Turn,
    /// An instant: `run_at`, or the next try.
    Until(Timestamp),
    /// So many prerequisites.
    Prerequisites(u32),
}

/// Where a job is in its life.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum State {
    /// Waiting.
    Queued(Wait),
    /// Handed to a worker that has not yet said it started.
    Leased(Lease),
    /// Being worked on.
    Running(Lease),
    /// Done.
    Completed,
    /// Will not be done: a permanent error, or a prerequisite that was not done.
    Failed,
    /// Withdrawn.
    Cancelled,
    /// Set aside after its last attempt, for a person to look at.
    Quarantined,
}

impl State {
    /// Its word.
    pub fn word(&self) -> StateWord {
        match self {
            Self::Queued(_) => StateWord::Queued,
            Self::Leased(_) => StateWord::Leased,
            Self::Running(_) => StateWord::Running,
            Self::Completed => StateWord::Completed,
            Self::Failed => StateWord::Failed,
            Self::Cancelled => StateWord::Cancelled,
            Self::Quarantined => StateWord::Quarantined,
        }
    }

    /// The lease, while somebody holds one.
    pub fn lease(&self) -> Option<&Lease> {
        match self {
            Self::Leased(lease) | Self::Running(lease) => Some(lease),
            _ => None,
        }
    }
}

/// The seven words for a state, without their data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StateWord {
    /// Waiting.
    Queued,
    /// Handed to a worker.
    Leased,
    /// Being worked on.
    Running,
    /// Done.
    Completed,
    /// Not done, for good.
    Failed,
    /// Withdrawn.
    Cancelled,
    /// Set aside after its last attempt.
    Quarantined,
}

impl StateWord {
    /// Every word, in the order of a life.
    pub const ALL: [Self; 7] = [
        Self::Queued,
        Self::Leased,
        Self::Running,
        Self::Completed,
        Self::Failed,
        Self::Cancelled,
        Self::Quarantined,
    ];

    /// The word as users write it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Leased => "leased",
            Self::Running => "running",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Quarantined => "quarantined",
        }
    }

    /// From the word users write.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == word)
    }

    /// Whether nothing more will happen by itself.
    pub fn is_final(self) -> bool {
        !matches!(self, Self::Queued | Self::Leased | Self::Running)
    }
}

impl fmt::Display for StateWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// One failed attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// What went wrong, in words.
    pub reason: String,
    /// What sort of error it was.
    pub kind: ErrorKind,
    /// Which attempt.
    pub attempt: u32,
    /// Who was at it.
    pub worker_id: Option<WorkerId>,
    /// When.
    pub ts: Timestamp,
}

/// How far a running job says it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// 0 to 100.
    pub percent: f32,
    /// In its own words.
    #[serde(default)]
    pub message: String,
}

/// What has happened to a job so far.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Life {
    /// Where it is now.
    pub state: State,
    /// Attempts begun, ever.
    pub attempt: u32,
    /// Attempts begun before a person last asked for another round.
    pub earlier_attempts: u32,
    /// Attempts of this round that ended with their worker.
    pub crashes: u32,
    /// When it was submitted.
    pub created_at: Timestamp,
    /// When it last joined the queue: when it was submitted, or sent round again by a person.
    pub queued_at: Timestamp,
    /// When the latest attempt started.
    pub started_at: Option<Timestamp>,
    /// When it reached its final state.
    pub finished_at: Option<Timestamp>,
    /// The latest error.
    pub last_error: Option<String>,
    /// The failed attempts, latest last, at most [`FAILURES_KEPT`].
    pub failures: Vec<Failure>,
    /// Somebody wants it stopped while it runs.
    pub cancel_requested: bool,
    /// What it gave back.
    pub result: Option<Json>,
    /// What a repeated result submission is recognised by.
    pub result_key: Option<String>,
    /// How far it says it is.
    pub progress: Option<Progress>,
}

impl Life {
    /// A life that begins now with something to wait for.
    pub fn begin(now: Timestamp, wait: Wait) -> Self {
        Self {
            state: State::Queued(wait),
            attempt: 0,
            earlier_attempts: 0,
            crashes: 0,
            created_at: now,
            queued_at: now,
            started_at: None,
            finished_at: None,
            last_error: None,
            failures: Vec::new(),
            cancel_requested: false,
            result: None,
            result_key: None,
            progress: None,
        }
    }
}

impl Life {
    /// The instant at which the job, if it still waits then, is given up.
    pub fn deadline(&self, spec: &JobSpec) -> Option<Timestamp> {
        let State::Queued(wait) = self.state else { return None };
        let unmet = match wait {
            Wait::Prerequisites(_) => spec.dependency_timeout.map(|span| self.queued_at.plus(span)),
            _ => None,
        };
        let unstarted = if self.attempt == 0 { spec.expires_at } else { None };
        unmet.into_iter().chain(unstarted).min()
    }
}

/// A job as a store holds it.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// Its place in the order of submission.
    pub seq: Seq,
    /// The lane it waits in.
    pub lane: LaneId,
    /// What was asked for.
    pub spec: Arc<JobSpec>,
    /// What has happened.
    pub life: Life,
    /// Other jobs wait, or have waited, for this one.
    pub has_dependents: bool,
}

impl Job {
    /// Its identity.
    pub fn id(&self) -> JobId {
        self.spec.id
    }
}
