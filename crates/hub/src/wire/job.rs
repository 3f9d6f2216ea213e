//! A job as the hub shows it: the documented fields under their documented names, and runcue's own beside them.

use std::collections::BTreeSet;
use std::time::Duration;

use runcue_core::{
    ErrorKind, Failure, GroupName, Job, JobId, Json, Key, Progress, QueueName, Requires,
    RetryPolicy, StateWord, TaskName, TraceParent,
};
use runcue_view::{JobView, ReasonView, UseView, millis};
use serde::Serialize;

use super::LeaseBody;
use crate::names::Names;
use crate::openapi::{
    Described, Schema, an_id, any, both, count, flag, instant, list_of, must, named, number,
    object, seconds, text, word,
};

/// The hub's word for a state.
pub fn status_of(state: StateWord) -> &'static str {
    match state {
        StateWord::Queued => "pending",
        StateWord::Leased => "assigned",
        StateWord::Running => "running",
        StateWord::Completed => "completed",
        // The document knows no cancelled jobs: they have failed, and the reason says why.
        StateWord::Failed | StateWord::Cancelled => "failed",
        StateWord::Quarantined => "quarantined",
    }
}

/// The hub's words for where a job is.
pub fn status() -> Schema {
    word(&["pending", "assigned", "running", "completed", "failed", "quarantined"])
}

/// runcue's words for the same.
pub fn state() -> Schema {
    word(&StateWord::ALL.map(StateWord::as_str))
}

/// A job.
#[derive(Clone, Debug, Serialize)]
pub struct JobBody {
    /// 32 lower-case hexadecimal digits.
    pub id: JobId,
    /// Its kind.
    #[serde(rename = "type")]
    pub task: TaskName,
    /// What the solver is given.
    pub params: Json,
    /// pending, assigned, running, completed, failed or quarantined.
    pub status: &'static str,
    /// Higher runs first.
    pub priority: i32,
    /// The worker that holds it; of one job alone that has ended, the one that ran its last attempt.
    pub worker_id: Option<String>,
    /// What it gave back.
    pub result: Option<Json>,
    /// What a repeated result is recognised by.
    pub result_hash: Option<String>,
    /// When it was submitted.
    pub created_at: i64,
    /// When its latest attempt was handed out.
    pub claimed_at: Option<i64>,
    /// When its worker was last heard of.
    pub heartbeat_at: Option<i64>,
    /// When it ended.
    pub completed_at: Option<i64>,
    /// Attempts begun.
    pub attempts: u32,
    /// Attempts in all.
    pub max_attempts: u32,
    /// How long one attempt may run.
    pub max_runtime_ms: Option<u64>,
    /// Why it failed, or why its latest attempt did.
    pub fail_reason: Option<String>,
    /// The failed attempts, latest last.
    pub fail_history: Vec<FailureBody>,
    /// Where the program that does the work is downloaded from.
    pub solver_url: Option<String>,
    /// The sha256 of that program.
    pub solver_checksum: Option<String>,
    /// runcue's own word for where it is in its life.
    pub state: StateWord,
    /// Its place in the order of submission.
    pub seq: u64,
    /// The queue it waits in.
    pub queue: QueueName,
    /// The unit of fairness and of pause.
    pub group: Option<GroupName>,
    /// What to work on.
    pub target: Option<String>,
    /// Words a claim can be filtered by.
    pub labels: BTreeSet<String>,
    /// The project a claim can be filtered by.
    pub project: Option<String>,
    /// Jobs that must complete first.
    pub depends_on: Vec<JobId>,
    /// Seconds to wait for them.
    pub dependency_timeout: Option<f64>,
    /// What a second submission is recognised by.
    pub idempotency_key: Option<String>,
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
    /// The trace that its attempts belong to.
    pub traceparent: Option<TraceParent>,
    /// Attempts that ended with their worker.
    pub crashes: u32,
    /// When a job that waits for a time may run.
    pub due_at: Option<i64>,
    /// Prerequisites that are not done.
    pub prerequisites_left: u32,
    /// Until when its worker holds it, unless heard of again.
    pub lease_expires_at: Option<i64>,
    /// Somebody wants it stopped while it runs.
    pub cancel_requested: bool,
    /// How far it says it is.
    pub progress: Option<Progress>,
    /// The right to run it, for the worker it was handed to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease: Option<LeaseBody>,
}

/// One failed attempt.
#[derive(Clone, Debug, Serialize)]
pub struct FailureBody {
    /// What went wrong.
    pub reason: String,
    /// Who was at it.
    pub worker_id: Option<String>,
    /// When.
    pub ts: i64,
    /// What sort of error it was.
    pub kind: ErrorKind,
    /// Which attempt.
    pub attempt: u32,
}

impl JobBody {
    /// A job; `lease_span` is how long leases last here, which tells when its worker was last heard of.
    pub fn new(job: &Job, names: &Names, lease_span: Duration) -> Self {
        // What a job is and how it stands is read once for every front; here are only the documented names.
        let (view, life) = (JobView::from(job), &job.life);
        let heard = life.state.lease().map(|lease| millis(lease.until.minus(lease_span)));
        let fail_reason = match view.state {
            StateWord::Cancelled => Some("cancelled".to_owned()),
            _ => view.last_error,
        };
        let timeout = job.spec.timeout.map(|span| span.as_millis());
        Self {
            id: view.id,
            task: view.task,
            params: view.params,
            status: status_of(view.state),
            priority: view.priority,
            worker_id: view.leased_by.map(|worker| names.of(worker)),
            result: view.result,
            result_hash: life.result_key.clone(),
            created_at: view.created_at,
            claimed_at: view.started_at.or(heard),
            heartbeat_at: heard,
            completed_at: view.finished_at,
            attempts: view.attempt,
            max_attempts: view.max_attempts,
            max_runtime_ms: timeout.map(|millis| u64::try_from(millis).unwrap_or(u64::MAX)),
            fail_reason,
            fail_history: life.failures.iter().map(|one| failure(one, names)).collect(),
            solver_url: view.solver_url,
            solver_checksum: view.solver_checksum,
            state: view.state,
            seq: view.seq,
            queue: view.queue,
            group: view.group,
            target: view.target,
            labels: view.labels,
            project: view.project,
            depends_on: view.depends_on,
            dependency_timeout: view.dependency_timeout,
            idempotency_key: view.idempotency_key,
            retry: view.retry,
            run_at: view.run_at,
            expires_at: view.expires_at,
            requires: view.requires,
            services: view.services,
            key: view.key,
            traceparent: view.traceparent,
            crashes: view.crashes,
            due_at: view.due_at,
            prerequisites_left: view.prerequisites_left,
            lease_expires_at: view.lease_expires_at,
            cancel_requested: view.cancel_requested,
            progress: view.progress,
            lease: None,
        }
    }
}

impl JobBody {
    /// A job as it is handed to a worker.
    pub fn claimed() -> Schema {
        both([named::<Self>(), object([must("lease", named::<LeaseBody>())])])
    }
}

impl Described for JobBody {
    const NAME: &'static str = "Job";

    fn schema() -> Schema {
        object([
            must("id", an_id()),
            must("type", text().says("Its kind.")),
            must("params", any().says("What the solver is given.")),
            must("status", status().says("The hub's word; a cancelled job has failed.")),
            must("priority", number().with("type", "integer").says("Higher runs first.")),
            must(
                "worker_id",
                text().or_null().says("The worker that holds it, or ran its last attempt."),
            ),
            must("result", any().says("What it gave back.")),
            must("result_hash", text().or_null().says("What a repeated result is recognised by.")),
            must("created_at", instant().says("When it was submitted.")),
            must("claimed_at", instant().or_null().says("When its latest attempt was handed out.")),
            must("heartbeat_at", instant().or_null().says("When its worker was last heard of.")),
            must("completed_at", instant().or_null().says("When it ended.")),
            must("attempts", count().says("Attempts begun.")),
            must("max_attempts", count().says("Attempts in all.")),
            must("max_runtime_ms", count().or_null().says("How long one attempt may run.")),
            must("fail_reason", text().or_null().says("Why it, or its latest attempt, failed.")),
            must("fail_history", list_of(named::<FailureBody>()).says("Latest last.")),
            must("solver_url", text().or_null()),
            must("solver_checksum", text().or_null()),
            must("state", state().says("runcue's own word for where it is.")),
            must("seq", count().says("Its place in the order of submission.")),
            must("queue", text()),
            must("group", text().or_null()),
            must("target", text().or_null()),
            must("labels", list_of(text())),
            must("project", text().or_null()),
            must("depends_on", list_of(an_id())),
            must("dependency_timeout", seconds().or_null()),
            must("idempotency_key", text().or_null()),
            must("retry", named::<RetryPolicy>()),
            must("run_at", instant().or_null()),
            must("expires_at", instant().or_null()),
            must("requires", named::<Requires>()),
            must("services", list_of(named::<UseView>())),
            must("key", text().or_null()),
            must("traceparent", text().or_null().says("The trace its attempts belong to.")),
            must("crashes", count().says("Attempts that ended with their worker.")),
            must("due_at", instant().or_null().says("When a job that waits for a time may run.")),
            must("prerequisites_left", count()),
            must("lease_expires_at", instant().or_null()),
            must("cancel_requested", flag().says("Somebody wants it stopped while it runs.")),
            must("progress", named::<Progress>().or_null()),
        ])
    }
}

impl Described for FailureBody {
    const NAME: &'static str = "Failure";

    fn schema() -> Schema {
        object([
            must("reason", text()),
            must("worker_id", text().or_null()),
            must("ts", instant()),
            must("kind", word(&["transient", "permanent", "timeout", "crash"])),
            must("attempt", count()),
        ])
    }
}

fn failure(failure: &Failure, names: &Names) -> FailureBody {
    FailureBody {
        reason: failure.reason.clone(),
        worker_id: failure.worker_id.map(|id| names.of(id)),
        ts: millis(failure.ts),
        kind: failure.kind,
        attempt: failure.attempt,
    }
}

/// A job that another waits for, or that waits for another.
#[derive(Clone, Debug, Serialize)]
pub struct Relative {
    /// Its identity.
    pub id: JobId,
    /// Its kind; nothing when it is no longer kept.
    #[serde(rename = "type")]
    pub task: Option<TaskName>,
    /// Where it is in its life.
    pub state: Option<StateWord>,
    /// The same in the hub's word.
    pub status: Option<&'static str>,
}

/// A job with everything that is known about it.
#[derive(Clone, Debug, Serialize)]
pub struct JobDetail {
    /// The job itself.
    #[serde(flatten)]
    pub job: JobBody,
    /// The jobs it waits for, or waited for.
    pub prerequisites: Vec<Relative>,
    /// The jobs that wait for it.
    pub dependents: Vec<Relative>,
    /// Why it waits, most important first; empty unless it does.
    pub why: Vec<ReasonView>,
}

impl Described for Relative {
    const NAME: &'static str = "Relative";

    fn schema() -> Schema {
        object([
            must("id", an_id()),
            must("type", text().or_null().says("`null` when the job is no longer kept.")),
            must("state", state().or_null()),
            must("status", status().or_null()),
        ])
    }
}

impl Described for JobDetail {
    const NAME: &'static str = "JobDetail";

    fn schema() -> Schema {
        let beside = object([
            must("prerequisites", list_of(named::<Relative>())),
            must("dependents", list_of(named::<Relative>())),
            must("why", list_of(named::<ReasonView>()).says("Why it waits, most important first.")),
        ]);
        both([named::<JobBody>(), beside])
    }
}
