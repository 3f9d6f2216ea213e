//! Tasks: how the jobs of a kind are run, and what they get unless they say otherwise.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use runcue_core::{Json, RetryPolicy, ServiceName, TaskName, TaskSpec, Use};
use runcue_process::{CommandSpec, Limits, ProcessPool};
use serde::Serialize;

use crate::command::{Build, CommandHandler, PoolHandler};
use crate::error::{Error, Result};
use crate::failure::Failure;
use crate::work::Work;

/// Runs attempts. Most users write a closure instead, see [`Task::handler`].
#[async_trait]
pub trait Handler: Send + Sync + 'static {
    /// Runs one attempt. When its time is up, or it was asked to stop and did not, the future is dropped.
    async fn run(&self, work: Work) -> std::result::Result<Json, Failure>;

    /// How much longer than the timeout this may take, because it watches the time itself and needs some
    /// to stop in an orderly way. Nothing for most.
    fn patience(&self) -> Duration {
        Duration::ZERO
    }
}

/// A kind of job: its name, its defaults, and what runs it.
#[derive(Clone)]
pub struct Task {
    pub(crate) spec: TaskSpec,
    pub(crate) handler: Option<Arc<dyn Handler>>,
    /// What builds the commands, if that is how its jobs are run.
    build: Option<Build>,
    limits: Limits,
}

impl fmt::Debug for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Task").field("spec", &self.spec).finish_non_exhaustive()
    }
}

impl Task {
    /// A task with every default and nothing that runs it yet.
    pub fn new(name: &str) -> Result<Self> {
        Ok(Self::from_spec(TaskSpec::new(TaskName::new(name)?)))
    }

    /// A task from a definition, such as one that the store keeps.
    pub fn from_spec(spec: TaskSpec) -> Self {
        Self { spec, handler: None, build: None, limits: Limits::default() }
    }

    /// Its jobs use one unit of this service.
    pub fn service(self, name: &str) -> Result<Self> {
        self.service_units(name, 1)
    }

    /// Its jobs use so many units of this service.
    pub fn service_units(mut self, name: &str, units: u64) -> Result<Self> {
        self.spec.services.push(Use { service: ServiceName::new(name)?, units });
        Ok(self)
    }

    /// How long one attempt may run.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.spec.timeout = Some(timeout);
        self
    }

    /// When and how often to try again.
    #[must_use]
    pub fn retry(mut self, retry: RetryPolicy) -> Self {
        self.spec.retry = retry;
        self
    }

    /// Keeps something with the stored definition that a front needs; the engine does not look inside.
    #[must_use]
    pub fn definition(mut self, definition: Json) -> Self {
        self.spec.definition = definition;
        self
    }

    /// Runs its jobs by an async function or closure.
    #[must_use]
    pub fn handler<F, Fut, T>(self, handler: F) -> Self
    where
        F: Fn(Work) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = std::result::Result<T, Failure>> + Send + 'static,
        T: Serialize + 'static,
    {
        self.handled_by(from_fn(handler))
    }

    /// Runs its jobs by a [`Handler`].
    #[must_use]
    pub fn handled_by(mut self, handler: impl Handler) -> Self {
        self.handler = Some(Arc::new(handler));
        self.build = None;
        self
    }

    /// Runs its jobs by the command that the closure builds. The result is `{stdout, stderr, exit_code}`; a
    /// code other than 0 is a transient failure with the code `exit N`.
    #[must_use]
    pub fn command<F>(mut self, build: F) -> Self
    where
        F: Fn(&Work) -> std::result::Result<CommandSpec, Failure> + Send + Sync + 'static,
    {
        self.build = Some(Arc::new(build));
        self.with_limits()
    }

    /// How many bytes of each stream of a [`Task::command`] are kept in its result, the last ones; 64 KiB unless
    /// said otherwise.
    #[must_use]
    pub fn output_bytes(mut self, most: usize) -> Self {
        self.limits.output_bytes = most;
        self.with_limits()
    }

    /// How long a [`Task::command`] has to end after SIGTERM, before SIGKILL; ten seconds unless said otherwise.
    #[must_use]
    pub fn kill_grace(mut self, grace: Duration) -> Self {
        self.limits.grace = grace;
        self.with_limits()
    }

    fn with_limits(mut self) -> Self {
        if let Some(build) = &self.build {
            let handler = CommandHandler::new(Arc::clone(build), self.limits.clone());
            self.handler = Some(Arc::new(handler));
        }
        self
    }

    /// Runs its jobs in worker processes, which a crash does not take the engine down with.
    #[must_use]
    pub fn pool(self, pool: Arc<ProcessPool>) -> Self {
        self.handled_by(PoolHandler::new(pool))
    }

    /// Its name.
    pub fn name(&self) -> &TaskName {
        &self.spec.name
    }

    pub(crate) fn runner(&self) -> Result<Arc<dyn Handler>> {
        self.handler.clone().ok_or_else(|| Error::NoHandler { task: self.spec.name.clone() })
    }
}

/// A [`Handler`] from an async function or closure.
pub fn from_fn<F, Fut, T>(handler: F) -> impl Handler
where
    F: Fn(Work) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = std::result::Result<T, Failure>> + Send + 'static,
    T: Serialize + 'static,
{
    FnHandler(handler)
}

struct FnHandler<F>(F);

#[async_trait]
impl<F, Fut, T> Handler for FnHandler<F>
where
    F: Fn(Work) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = std::result::Result<T, Failure>> + Send + 'static,
    T: Serialize + 'static,
{
    async fn run(&self, work: Work) -> std::result::Result<Json, Failure> {
        let value = (self.0)(work).await?;
        Json::from_value(&value)
            .map_err(|error| Failure::permanent(format!("the result is not JSON: {error}")))
    }
}
