//! A job: what was asked for and what has happened to it, in one flat object.

use std::collections::BTreeSet;

use runcue_core::{
    ErrorKind, Failure, GroupName, Job, JobId, Json, Key, Progress, QueueName, Requires,
    RetryPolicy, ServiceName, State, StateWord, TaskName, TraceParent, Use, Wait, WorkerId,
};
use serde::Serialize;

use crate::millis;
use crate::reason::ReasonView;

/// A job.
#[derive(Clone, Debug, Serialize)]
pub struct JobView {
    /// Its identity, 32 hexadecimal digits.
    pub id: JobId,
    /// Its place in the order of submission.
    pub seq: u64,
    /// Where it is in its life.
    pub state: StateWord,
    /// Its kind.
    pub task: TaskName,
    /// The queue it waits in.
    pub queue: QueueName,
    /// The unit of fairness and of pause.
    pub group: Option<GroupName>,
    /// What to work on.
    pub target: Option<String>,
    /// What the task needs to know.
    pub params: Json,
    /// Higher runs first inside a group.
    pub priority: i32,
    /// Words a claim can be filtered by.
    pub labels: BTreeSet<String>,
    /// The project a claim can be filtered by.
    pub project: Option<String>,
    /// Jobs that must complete first.
    pub depends_on: Vec<JobId>,
    /// Seconds one attempt may run.
    pub timeout: Option<f64>,
    /// Seconds to wait for the prerequisites.
    pub dependency_timeout: Option<f64>,
    /// What a second submission is recognised by.
    pub idempotency_key: Option<String>,
    /// Attempts in all.
    pub max_attempts: u32,
    /// When to try again.
    pub retry: RetryPolicy,
    /// Not before this instant.
    pub run_at: Option<i64>,
    /// Cancelled if not started by this instant.
    pub expires_at: Option<i64>,
    /// What a worker must offer.
    pub requires: Requires,
    /// What it uses while it runs.
    pub services: Vec<UseView>,
    /// The key that per-key limits are counted by.
    pub key: Option<Key>,
    /// Where an agent downloads the program that does the work.
    pub solver_url: Option<String>,
    /// The sha256 of that program.
    pub solver_checksum: Option<String>,
    /// The trace that its attempts belong to.
    pub traceparent: Option<TraceParent>,
    /// Attempts begun.
    pub attempt: u32,
    /// Attempts that ended with their worker.
    pub crashes: u32,
    /// When it was submitted.
    pub created_at: i64,
    /// When the latest attempt started.
    pub started_at: Option<i64>,
    /// When it reached its final state.
    pub finished_at: Option<i64>,
    /// When a job that waits for a time may run.
    pub due_at: Option<i64>,
    /// Prerequisites that are not done.
    pub prerequisites_left: u32,
    /// Who holds it.
    pub leased_by: Option<WorkerId>,
    /// Until when, unless extended.
    pub lease_expires_at: Option<i64>,
    /// Somebody wants it stopped while it runs.
    pub cancel_requested: bool,
    /// How far it says it is.
    pub progress: Option<Progress>,
    /// What it gave back.
    pub result: Option<Json>,
    /// The latest error.
    pub last_error: Option<String>,
    /// The failed attempts, latest last.
    pub fail_history: Vec<FailureView>,
}

/// A service that a job uses.
#[derive(Clone, Debug, Serialize)]
pub struct UseView {
    /// The service.
    pub service: ServiceName,
    /// How many units of its rates one attempt uses.
    pub units: u64,
}

impl From<&Use> for UseView {
    fn from(used: &Use) -> Self {
        Self { service: used.service.clone(), units: used.units }
    }
}

/// One failed attempt.
#[derive(Clone, Debug, Serialize)]
pub struct FailureView {
    /// What went wrong.
    pub reason: String,
    /// What sort of error it was.
    pub kind: ErrorKind,
    /// Which attempt.
    pub attempt: u32,
    /// Who was at it.
    pub worker_id: Option<WorkerId>,
    /// When.
    pub ts: i64,
}

impl From<&Failure> for FailureView {
    fn from(failure: &Failure) -> Self {
        Self {
            reason: failure.reason.clone(),
            kind: failure.kind,
            attempt: failure.attempt,
            worker_id: failure.worker_id,
            ts: millis(failure.ts),
        }
    }
}

impl From<&Job> for JobView {
    fn from(job: &Job) -> Self {
        let (spec, life) = (&*job.spec, &job.life);
        let (due_at, prerequisites_left) = match life.state {
            State::Queued(Wait::Until(at)) => (Some(millis(at)), 0),
            State::Queued(Wait::Prerequisites(left)) => (None, left),
            _ => (None, 0),
        };
        let lease = life.state.lease();
        Self {
            id: spec.id,
            seq: job.seq.0,
            state: life.state.word(),
            task: spec.task.clone(),
            queue: spec.queue.clone(),
            group: spec.group.clone(),
            target: spec.target.clone(),
            params: spec.params.clone(),
            priority: spec.priority,
            labels: spec.labels.clone(),
            project: spec.project.clone(),
            depends_on: spec.depends_on.clone(),
            timeout: spec.timeout.map(|span| span.as_secs_f64()),
            dependency_timeout: spec.dependency_timeout.map(|span| span.as_secs_f64()),
            idempotency_key: spec.idempotency_key.clone(),
            max_attempts: spec.retry.max_attempts,
            retry: spec.retry.clone(),
            run_at: spec.run_at.map(millis),
            expires_at: spec.expires_at.map(millis),
            requires: spec.requires.clone(),
            services: spec.services.iter().map(UseView::from).collect(),
            key: spec.key.clone(),
            solver_url: spec.solver_url.clone(),
            solver_checksum: spec.solver_checksum.clone(),
            traceparent: spec.traceparent,
            attempt: life.attempt,
            crashes: life.crashes,
            created_at: millis(life.created_at),
            started_at: life.started_at.map(millis),
            finished_at: life.finished_at.map(millis),
            due_at,
            prerequisites_left,
            leased_by: lease.map(|lease| lease.worker),
            lease_expires_at: lease.map(|lease| millis(lease.until)),
            cancel_requested: life.cancel_requested,
            progress: life.progress.clone(),
            result: life.result.clone(),
            last_error: life.last_error.clone(),
            fail_history: life.failures.iter().map(FailureView::from).collect(),
        }
    }
}

/// A page of jobs, newest first.
#[derive(Clone, Debug, Serialize)]
pub struct JobPageView {
    /// The jobs.
    pub jobs: Vec<JobView>,
    /// The job that the next page comes before; `null` on the last page.
    pub next_before: Option<JobId>,
}

/// A job that another waits for, or that waits for another.
#[derive(Clone, Debug, Serialize)]
pub struct RelativeView {
    /// Its identity.
    pub id: JobId,
    /// Its kind; `null` when the job is no longer kept.
    pub task: Option<TaskName>,
    /// Where it is in its life.
    pub state: Option<StateWord>,
}

/// A job with everything that is known about it.
#[derive(Clone, Debug, Serialize)]
pub struct JobDetailView {
    /// The job itself; its fields stand beside the following ones.
    #[serde(flatten)]
    pub job: JobView,
    /// The jobs it waits for, or waited for.
    pub prerequisites: Vec<RelativeView>,
    /// The jobs that wait for it.
    pub dependents: Vec<RelativeView>,
    /// Why it waits, most important first; empty unless it does.
    pub why: Vec<ReasonView>,
}
