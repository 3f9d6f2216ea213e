//! What a handler sees of its job. Owns [`Work`]; everything it can decide is what it returns.

use std::sync::Arc;
use std::time::Duration;

use runcue_core::{Job, JobId, Json, Progress, TaskName, TraceParent};
use runcue_store::LogStream;
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;

use crate::failure::Failure;
use crate::logs::Logs;
use crate::running::{Running, RunningJobs};

/// One attempt at one job, as its handler sees it. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Work {
    pub(crate) running: Arc<Running>,
    pub(crate) jobs: Arc<RunningJobs>,
    pub(crate) logs: Arc<Logs>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) traceparent: Option<TraceParent>,
}

impl Work {
    /// The job's id.
    pub fn id(&self) -> JobId {
        self.running.id()
    }

    /// Its task.
    pub fn task(&self) -> &TaskName {
        &self.running.job.spec.task
    }

    /// Which attempt this is, counted from one.
    pub fn attempt(&self) -> u32 {
        self.running.lease.attempt
    }

    /// What to work on.
    pub fn target(&self) -> Option<&str> {
        self.running.job.spec.target.as_deref()
    }

    /// The params, read into a type. What does not fit is a permanent failure, so `work.params()?` is all
    /// a handler needs.
    pub fn params<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        self.params_json()
            .to()
            .map_err(|error| Failure::permanent(format!("params are not what it takes: {error}")))
    }

    /// The params as they were submitted.
    pub fn params_json(&self) -> &Json {
        &self.running.job.spec.params
    }

    /// The whole job, as it was when it was claimed.
    pub fn job(&self) -> &Job {
        &self.running.job
    }

    /// How long the attempt may take.
    pub fn timeout(&self) -> Option<Duration> {
        self.timeout
    }

    /// Its place in the trace of the job: what a handler sends along when it asks others. That of the attempt's own
    /// span, or, if the engine makes none, what the job was submitted with.
    pub fn traceparent(&self) -> Option<TraceParent> {
        self.traceparent
    }

    /// Whether the attempt is asked to stop: the job was cancelled, the lease was lost, or the engine has
    /// no more time. A handler that has seen this and returns has stopped, whatever it returns.
    pub fn cancelled(&self) -> bool {
        self.running.look()
    }

    /// The same, to wait for or to pass on.
    pub fn cancellation(&self) -> &CancellationToken {
        &self.running.cancel
    }

    /// Says how far the job is, from 0 to 100, and in words. Call it as often as you like: the latest
    /// report is sent at most once a second.
    pub fn progress(&self, percent: f32, message: impl Into<String>) {
        let percent = if percent.is_finite() { percent.clamp(0.0, 100.0) } else { 0.0 };
        let progress = Progress { percent, message: message.into() };
        self.jobs.note_progress(&self.running, progress);
    }

    /// Adds a line to the job's log.
    pub fn log(&self, text: impl Into<String>) {
        let mut text = text.into();
        text.push('\n');
        self.logs.add(&self.running.lease, LogStream::Note, text);
    }

    /// Adds output to the job's log, as it came.
    pub fn output(&self, stream: LogStream, text: impl Into<String>) {
        self.logs.add(&self.running.lease, stream, text.into());
    }
}
