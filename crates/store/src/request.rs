//! What callers ask of a store.

use std::time::Duration;

use runcue_core::submission::AfterFailure;
use runcue_core::{
    Capabilities, ClaimFilter, ErrorKind, JobFilter, JobId, JobSpec, Json, Lease, Progress, Seq,
    ServiceName, Timestamp, WorkerId,
};
use serde::{Deserialize, Serialize};

/// Jobs to be accepted together.
#[derive(Clone, Debug, Default)]
pub struct SubmitBatch {
    /// The jobs, in the order they are to run among equals.
    pub jobs: Vec<JobSpec>,
    /// What an idempotency key whose job did not complete means.
    pub after_failure: AfterFailure,
}

impl SubmitBatch {
    /// A batch with the default rule for keys.
    pub fn of(jobs: Vec<JobSpec>) -> Self {
        Self { jobs, after_failure: AfterFailure::default() }
    }
}

/// What a worker wants to take.
#[derive(Clone, Debug)]
pub struct ClaimRequest {
    /// Who asks.
    pub worker: WorkerId,
    /// At most so many jobs.
    pub max: usize,
    /// How long each lease lasts unless extended.
    pub lease: Duration,
    /// The jobs begin at once; otherwise the first heartbeat says so.
    pub start: bool,
    /// A job of a rated service is counted as starting this much later than now, and must not start later
    /// than that. It covers the time between the claim and the start.
    pub start_within: Duration,
    /// Only such jobs.
    pub filter: ClaimFilter,
    /// What the worker offers; nothing means everything.
    pub offers: Option<Capabilities>,
    /// Only these jobs, in this order, as far as they may run now.
    pub only: Option<Vec<JobId>>,
    /// If there are fewer than wanted, the worker asks again as soon as there is news, in the same words and for at least
    /// as many as were missing. A store may then claim before it is asked, and hands back what is not asked for.
    pub again: bool,
}

impl ClaimRequest {
    /// A claim of up to so many jobs of any kind that begin at once, on leases of 30 seconds.
    pub fn new(worker: WorkerId, max: usize) -> Self {
        Self {
            worker,
            max,
            lease: Duration::from_secs(30),
            start: true,
            start_within: Duration::ZERO,
            filter: ClaimFilter::default(),
            offers: None,
            only: None,
            again: false,
        }
    }
}

/// A heartbeat for one job.
#[derive(Clone, Debug)]
pub struct Extend {
    /// The lease held.
    pub lease: Lease,
    /// How much longer, from now.
    pub lease_for: Duration,
    /// How far the job is.
    pub progress: Option<Progress>,
}

/// The end of one attempt.
#[derive(Clone, Debug)]
pub struct Finish {
    /// The lease held.
    pub lease: Lease,
    /// How it ended.
    pub outcome: Outcome,
}

/// How an attempt ended.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// Done.
    Done {
        /// What came of it.
        result: Option<Json>,
        /// What a repeated submission of this result is recognised by.
        result_key: Option<String>,
    },
    /// It failed.
    Failed {
        /// What went wrong.
        error: String,
        /// What sort of error.
        kind: ErrorKind,
        /// A finer word that `retry_on` may name.
        code: Option<String>,
        /// The service at fault, if only one was.
        service: Option<ServiceName>,
    },
    /// A service said to come back later. The service waits; the attempt is not counted.
    RateLimited {
        /// How long.
        retry_after: Duration,
        /// Which service, if the job uses several; nothing means all of them.
        service: Option<ServiceName>,
    },
    /// Given back undone. The attempt is not counted.
    HandBack,
    /// Given back, and surely never begun. The attempt is not counted, and neither is its start: its places in
    /// the windows of rated services are free again.
    Unstarted,
    /// Stopped because somebody withdrew the job.
    Stopped,
}

/// A page of jobs.
#[derive(Clone, Debug, Default)]
pub struct ListRequest {
    /// Which jobs.
    pub filter: JobFilter,
    /// Only jobs submitted before this one.
    pub before: Option<Seq>,
    /// At most so many.
    pub limit: usize,
}

/// A worker instance: one start of one process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkerSpec {
    /// Its identity.
    pub id: WorkerId,
    /// What people call it.
    pub name: String,
    /// The machine it runs on.
    pub host: String,
    /// Its process there.
    pub pid: u32,
    /// How many jobs it runs at once.
    pub slots: u32,
    /// What it offers.
    #[serde(default)]
    pub offers: Capabilities,
}

/// How much finished work of one state is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keep {
    /// At most this old.
    pub age: Duration,
    /// At most so many.
    pub count: u64,
}

/// What is kept, and for how long. Live jobs are never pruned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Completed jobs.
    pub completed: Keep,
    /// Cancelled jobs.
    pub cancelled: Keep,
    /// Failed and quarantined jobs.
    pub failed: Keep,
    /// Events.
    pub events: Keep,
    /// The log of service use; never shorter than the longest window.
    pub usage: Duration,
}

const DAY: Duration = Duration::from_secs(24 * 3600);

impl Default for Retention {
    fn default() -> Self {
        Self {
            completed: Keep { age: DAY * 7, count: 1_000_000 },
            cancelled: Keep { age: DAY * 7, count: 1_000_000 },
            failed: Keep { age: DAY * 30, count: 1_000_000 },
            events: Keep { age: DAY * 7, count: 2_000_000 },
            usage: DAY,
        }
    }
}

impl Retention {
    /// The instant before which something with this rule is too old.
    pub fn horizon(now: Timestamp, keep: Keep) -> Timestamp {
        now.minus(keep.age)
    }
}
