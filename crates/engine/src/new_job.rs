//! What a user writes to submit a job. Owns [`NewJob`]; names are checked and the task's defaults filled in
//! when it is submitted.

use std::collections::BTreeSet;
use std::time::Duration;

use runcue_core::{
    GroupName, JobId, JobSpec, Json, Key, QueueName, Requires, RetryPolicy, ServiceName, TaskName,
    TaskSpec, Timestamp, TraceParent, Use,
};
use serde::Serialize;

use crate::error::{Error, Result};

/// When something is to be, as the submitter says it.
#[derive(Clone, Copy, Debug)]
enum When {
    At(Timestamp),
    In(Duration),
}

impl When {
    fn instant(self, now: Timestamp) -> Timestamp {
        match self {
            Self::At(at) => at,
            Self::In(span) => now.plus(span),
        }
    }
}

/// A job to be submitted. What is not said comes from its task.
#[derive(Clone, Debug)]
pub struct NewJob {
    id: Option<JobId>,
    task: String,
    queue: Option<String>,
    target: Option<String>,
    params: Json,
    priority: i32,
    group: Option<String>,
    labels: BTreeSet<String>,
    project: Option<String>,
    depends_on: Vec<JobId>,
    timeout: Option<Duration>,
    dependency_timeout: Option<Duration>,
    idempotency_key: Option<String>,
    retry: Option<RetryPolicy>,
    run: Option<When>,
    expires: Option<When>,
    requires: Requires,
    services: Option<Vec<(String, u64)>>,
    key: Option<String>,
    solver: Option<(String, Option<String>)>,
    traceparent: Option<TraceParent>,
}

impl NewJob {
    /// A job of a task.
    pub fn of(task: impl Into<String>) -> Self {
        Self {
            id: None,
            task: task.into(),
            queue: None,
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
            retry: None,
            run: None,
            expires: None,
            requires: Requires::default(),
            services: None,
            key: None,
            solver: None,
            traceparent: None,
        }
    }

    /// The id it will have, so that other jobs of the same submission can depend on it.
    #[must_use]
    pub fn id(mut self, id: JobId) -> Self {
        self.id = Some(id);
        self
    }

    /// The queue it waits in.
    #[must_use]
    pub fn queue(mut self, queue: impl Into<String>) -> Self {
        self.queue = Some(queue.into());
        self
    }

    /// What to work on.
    #[must_use]
    pub fn target(mut self, target: impl Into<String>) -> Self {
        self.target = Some(target.into());
        self
    }

    /// Whatever the task needs to know.
    pub fn params<T: Serialize + ?Sized>(mut self, params: &T) -> Result<Self> {
        self.params =
            Json::from_value(params).map_err(|source| Error::Json { what: "params", source })?;
        Ok(self)
    }

    /// The params as JSON that is there already.
    #[must_use]
    pub fn params_json(mut self, params: Json) -> Self {
        self.params = params;
        self
    }

    /// Higher runs first inside a group.
    #[must_use]
    pub fn priority(mut self, priority: i32) -> Self {
        self.priority = priority;
        self
    }

    /// The unit of fairness and of pause.
    #[must_use]
    pub fn group(mut self, group: impl Into<String>) -> Self {
        self.group = Some(group.into());
        self
    }

    /// A word a claim can be filtered by.
    #[must_use]
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.labels.insert(label.into());
        self
    }

    /// The project a claim can be filtered by.
    #[must_use]
    pub fn project(mut self, project: impl Into<String>) -> Self {
        self.project = Some(project.into());
        self
    }

    /// Jobs that must complete first.
    #[must_use]
    pub fn depends_on(mut self, jobs: impl IntoIterator<Item = JobId>) -> Self {
        self.depends_on.extend(jobs);
        self
    }

    /// How long one attempt may run.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// How long to wait for the prerequisites before giving up.
    #[must_use]
    pub fn dependency_timeout(mut self, timeout: Duration) -> Self {
        self.dependency_timeout = Some(timeout);
        self
    }

    /// A live or completed job with this key is returned instead of a second one.
    #[must_use]
    pub fn idempotency_key(mut self, key: impl Into<String>) -> Self {
        self.idempotency_key = Some(key.into());
        self
    }

    /// When and how often to try again.
    #[must_use]
    pub fn retry(mut self, retry: RetryPolicy) -> Self {
        self.retry = Some(retry);
        self
    }

    /// Not before this instant.
    #[must_use]
    pub fn run_at(mut self, at: Timestamp) -> Self {
        self.run = Some(When::At(at));
        self
    }

    /// Not before this much later than its submission.
    #[must_use]
    pub fn delay(mut self, delay: Duration) -> Self {
        self.run = Some(When::In(delay));
        self
    }

    /// Cancelled if not started by this instant.
    #[must_use]
    pub fn expires_at(mut self, at: Timestamp) -> Self {
        self.expires = Some(When::At(at));
        self
    }

    /// Cancelled if not started within this much of its submission.
    #[must_use]
    pub fn expires_in(mut self, span: Duration) -> Self {
        self.expires = Some(When::In(span));
        self
    }

    /// What a worker must offer.
    #[must_use]
    pub fn requires(mut self, requires: Requires) -> Self {
        self.requires = requires;
        self
    }

    /// It uses one unit of this service; said once, the task's services no longer count.
    #[must_use]
    pub fn service(self, name: impl Into<String>) -> Self {
        self.service_units(name, 1)
    }

    /// It uses so many units of this service; said once, the task's services no longer count.
    #[must_use]
    pub fn service_units(mut self, name: impl Into<String>, units: u64) -> Self {
        self.services.get_or_insert_default().push((name.into(), units));
        self
    }

    /// The key that per-key limits are counted by.
    #[must_use]
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Where an agent downloads the program that does the work, and that program's sha256.
    #[must_use]
    pub fn solver(mut self, url: impl Into<String>, checksum: Option<String>) -> Self {
        self.solver = Some((url.into(), checksum));
        self
    }

    /// The trace it belongs to. Where the engine traces, what is stored is the span of the submission, below this.
    #[must_use]
    pub fn traceparent(mut self, parent: TraceParent) -> Self {
        self.traceparent = Some(parent);
        self
    }

    pub(crate) fn task(&self) -> &str {
        &self.task
    }

    /// The job as a store takes it.
    pub(crate) fn into_spec(
        self,
        id: JobId,
        now: Timestamp,
        task: Option<&TaskSpec>,
    ) -> Result<JobSpec> {
        let services = match (self.services, task) {
            (Some(own), _) => uses(own)?,
            (None, Some(task)) => task.services.clone(),
            (None, None) => Vec::new(),
        };
        let (solver_url, solver_checksum) = self.solver.map_or((None, None), |(u, c)| (Some(u), c));
        Ok(JobSpec {
            id: self.id.unwrap_or(id),
            task: match task {
                Some(task) => task.name.clone(),
                None => TaskName::new(self.task)?,
            },
            queue: self.queue.map(QueueName::new).transpose()?.unwrap_or_default(),
            target: self.target,
            params: self.params,
            priority: self.priority,
            group: self.group.map(GroupName::new).transpose()?,
            labels: self.labels,
            project: self.project,
            depends_on: self.depends_on,
            timeout: self.timeout.or_else(|| task.and_then(|task| task.timeout)),
            dependency_timeout: self.dependency_timeout,
            idempotency_key: self.idempotency_key,
            retry: self.retry.or_else(|| task.map(|t| t.retry.clone())).unwrap_or_default(),
            run_at: self.run.map(|when| when.instant(now)),
            expires_at: self.expires.map(|when| when.instant(now)),
            requires: self.requires,
            services,
            key: self.key.map(Key::new).transpose()?,
            solver_url,
            solver_checksum,
            traceparent: self.traceparent,
        })
    }
}

fn uses(own: Vec<(String, u64)>) -> Result<Vec<Use>> {
    own.into_iter()
        .map(|(name, units)| Ok(Use { service: ServiceName::new(name)?, units }))
        .collect()
}
