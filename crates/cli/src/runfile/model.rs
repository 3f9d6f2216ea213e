//! What a run file says once it is read, expanded and checked: services, tasks and jobs.
//!
//! Nothing here knows a store or an engine. A [`TaskDef`] goes to JSON and back, so that it can be
//! kept with the queue and run later by another process.

use std::collections::BTreeMap;
use std::time::Duration;

use runcue_core::{Missed, Overlap};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::duration;
use super::rate::Rate;
use super::template::{ShellTemplate, Template};

/// A whole run file.
#[derive(Debug, Clone, PartialEq)]
pub struct RunFile {
    /// What the file calls itself.
    pub name: Option<String>,
    /// The store URL the file asks for.
    pub store: Option<String>,
    /// The queue of every job that names none.
    pub queue: Option<String>,
    /// How many jobs may run at once.
    pub max_parallel: Option<u32>,
    /// The services by name.
    pub services: BTreeMap<String, ServiceDef>,
    /// The tasks by name. An inline `run` of a job is here too, as `run:<job id>`.
    pub tasks: BTreeMap<String, TaskDef>,
    /// The schedules, in the order of the file.
    pub schedules: Vec<ScheduleDef>,
    /// The jobs, expanded, in the order of the file.
    pub jobs: Vec<JobDef>,
}

/// A job that is submitted again and again, by the clock.
#[derive(Debug, Clone, PartialEq)]
pub struct ScheduleDef {
    /// When, as a cron expression.
    pub cron: String,
    /// The time zone that is read in.
    pub zone: String,
    /// What becomes of firings that nobody was there for.
    pub missed: Missed,
    /// What happens while the job of the firing before is not finished.
    pub overlap: Overlap,
    /// The job of every firing; its id is the schedule's name.
    pub job: JobDef,
}

/// A limited resource. What is `None` or empty is not limited or has the engine's default.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceDef {
    /// How many jobs may use it at once.
    pub max_concurrent: Option<u32>,
    /// How much may start in a window; all of them hold.
    pub limits: Vec<Rate>,
    /// Consecutive failures that open the circuit.
    pub circuit_threshold: Option<u32>,
    /// How long an open circuit waits before a probe.
    #[serde(with = "duration::seconds", default)]
    pub circuit_timeout: Option<Duration>,
    /// Limits for each key by itself.
    pub per_key: Option<KeyLimits>,
}

/// The limits that each key of a service has for itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyLimits {
    /// How many jobs of one key may run at once.
    pub max_concurrent: Option<u32>,
    /// How much of one key may start in a window.
    pub limits: Vec<Rate>,
}

/// A kind of job: the command and what its jobs have in common.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TaskDef {
    /// What to run.
    pub run: Command,
    /// How long one attempt may take.
    #[serde(with = "duration::seconds", default)]
    pub timeout: Option<Duration>,
    /// When to try again.
    pub retry: Option<RetryDef>,
    /// The services used and the units each attempt costs.
    pub services: BTreeMap<String, Cost>,
    /// The key for limits per key.
    pub key: Option<Template>,
    /// Variables added to the environment.
    pub env: BTreeMap<String, Template>,
    /// The working directory, as written.
    pub cwd: Option<Template>,
    /// The priority of jobs that name none.
    pub priority: Option<i32>,
    /// The group of jobs that name none.
    pub group: Option<String>,
    /// The queue of jobs that name none.
    pub queue: Option<String>,
    /// Labels of every job of the task.
    pub labels: Vec<String>,
    /// What a worker must have.
    pub requires: Option<Requires>,
}

impl TaskDef {
    /// A task that is only a command.
    #[must_use]
    pub fn inline(run: Command) -> Self {
        Self {
            run,
            timeout: None,
            retry: None,
            services: BTreeMap::new(),
            key: None,
            env: BTreeMap::new(),
            cwd: None,
            priority: None,
            group: None,
            queue: None,
            labels: Vec::new(),
            requires: None,
        }
    }
}

/// A command: arguments as a list, or one string for the shell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Command {
    /// Run as it is; no shell sees it.
    Args(Vec<Template>),
    /// Run with `sh -c`; values go in quoted.
    Shell(ShellTemplate),
}

/// Units of a service that one attempt uses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Cost {
    /// A fixed number.
    Units(u64),
    /// Taken from the job, for example `{params.tokens}`.
    From(Template),
}

/// When a failed attempt is tried again. `None` is the engine's default.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RetryDef {
    /// Attempts in all, the first included.
    pub max_attempts: Option<u32>,
    /// Crashes of its worker after which a job is set aside.
    pub max_crashes: Option<u32>,
    /// How the delay grows.
    pub backoff: Option<Backoff>,
    /// The first delay.
    #[serde(with = "duration::seconds", default)]
    pub base_delay: Option<Duration>,
    /// The longest delay.
    #[serde(with = "duration::seconds", default)]
    pub max_delay: Option<Duration>,
    /// Whether delays vary at random.
    pub jitter: Option<bool>,
    /// Which failures are worth another attempt; `None` means all transient ones.
    pub retry_on: Option<Vec<RetryOn>>,
}

/// How the delay between attempts grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Backoff {
    /// Always `base_delay`.
    Fixed,
    /// `base_delay` times the attempt.
    Linear,
    /// Doubles each time.
    Exponential,
}

/// A failure that is worth another attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RetryOn {
    /// The attempt took too long.
    Timeout,
    /// The worker or the process died.
    Crash,
    /// The command ended with this exit code.
    ExitCode(i32),
    /// The error text has this word.
    Word(String),
}

/// What a worker must have to run a job.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Requires {
    /// Processor cores.
    pub cores: Option<u32>,
    /// Memory in gigabytes.
    pub ram_gb: Option<f64>,
    /// Tags the worker must advertise.
    pub tags: Vec<String>,
}

/// One job, expanded, with the defaults of its task applied.
#[derive(Debug, Clone, PartialEq)]
pub struct JobDef {
    /// Unique in the file.
    pub id: String,
    /// Which element of `jobs` it comes from, from 0.
    pub entry: usize,
    /// Its task, a key of [`RunFile::tasks`].
    pub task: String,
    /// What it is about.
    pub target: Option<String>,
    /// Its data, always an object; what it was expanded over is in here too.
    pub params: Value,
    /// The ids, in this file, of the jobs that come first.
    pub depends_on: Vec<String>,
    /// Unit of fairness and of pause.
    pub group: Option<String>,
    /// Named queue.
    pub queue: Option<String>,
    /// Higher first.
    pub priority: i32,
    /// Free labels, the task's first.
    pub labels: Vec<String>,
    /// Project.
    pub project: Option<String>,
    /// How long one attempt may take.
    pub timeout: Option<Duration>,
    /// How long to wait for `depends_on`.
    pub dependency_timeout: Option<Duration>,
    /// Not before this instant.
    pub run_at: Option<jiff::Timestamp>,
    /// Not before so long after submission (`in` in the file).
    pub delay: Option<Duration>,
    /// Cancelled when not started so long after submission.
    pub expires_in: Option<Duration>,
    /// Idempotency key.
    pub idempotency_key: Option<String>,
    /// Attempts in all.
    pub max_attempts: Option<u32>,
    /// When to try again.
    pub retry: Option<RetryDef>,
    /// The services used and the units each attempt costs.
    pub services: BTreeMap<String, u64>,
    /// The key for limits per key.
    pub key: Option<String>,
    /// What a worker must have.
    pub requires: Option<Requires>,
    pub(crate) fingerprint: u128,
}

impl JobDef {
    /// A stable hash of what the job does: command, environment, target, params, services and key.
    /// How it is scheduled (priority, retries, timeouts, dependencies) is not part of it.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        format!("{:032x}", self.fingerprint)
    }
}
