//! The flags that say what a job is, for every verb that takes one: a command or a task, what it uses and
//! how it is run. When it runs is each verb's own.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use runcue_core::{GroupName, JobSpec, Json, Key, QueueName, TaskName, TaskSpec, Timestamp, Use};
use runcue_store::Store;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::stored_task::StoredTask;
use crate::trouble::{Trouble, bad_json};
use crate::{clock, known, value};

/// The task of a job that is only a command.
pub const COMMAND: &str = "command";

/// What a job is.
#[derive(Debug, clap::Args)]
pub struct JobArgs {
    /// The command to run and its arguments; no shell sees them
    #[arg(value_name = "COMMAND", trailing_var_arg = true, conflicts_with = "task")]
    pub command: Vec<String>,
    /// A task that is stored with the queue, instead of a command
    #[arg(long, value_name = "TASK")]
    pub task: Option<String>,
    /// What to work on: a path, a record, an address
    #[arg(long)]
    pub target: Option<String>,
    /// A value for the task; JSON, or else text
    #[arg(long, value_name = "NAME=VALUE", value_parser = value::pair, requires = "task")]
    pub param: Vec<(String, String)>,
    /// The unit of fairness and of pause
    #[arg(long)]
    pub group: Option<GroupName>,
    /// Higher runs first inside a group: a number, low (0), normal (50), high (100), critical (200)
    #[arg(long, value_name = "N", value_parser = value::priority, allow_hyphen_values = true)]
    pub priority: Option<i32>,
    /// A service it uses, with a number of units if not one; may be repeated
    #[arg(long, value_name = "NAME[=UNITS]", value_parser = value::usage)]
    pub service: Vec<Use>,
    /// The queue it waits in [default: default]
    #[arg(long)]
    pub queue: Option<QueueName>,
    /// The key that per-key limits are counted by, for example a customer
    #[arg(long)]
    pub key: Option<Key>,
    /// How long one attempt may run
    #[arg(long, value_name = "DURATION", value_parser = value::duration)]
    pub timeout: Option<Duration>,
    /// Attempts in all [default: 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub max_attempts: Option<u32>,
    /// A word that workers can be filtered by; may be repeated
    #[arg(long)]
    pub label: Vec<String>,
    /// The project that workers can be filtered by
    #[arg(long)]
    pub project: Option<String>,
    /// The directory to run in [default: this one]
    #[arg(long, value_name = "DIR", requires = "command")]
    pub cwd: Option<PathBuf>,
    /// A variable for the command's environment; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = value::pair, requires = "command")]
    pub env: Vec<(String, String)>,
}

impl JobArgs {
    /// Whether neither a command nor a task was given.
    pub fn is_empty(&self) -> bool {
        self.command.is_empty() && self.task.is_none()
    }

    /// The job they describe, with an id of its own.
    pub async fn job(&self, store: &dyn Store, now: Timestamp) -> Result<JobSpec, Trouble> {
        let task = match &self.task {
            Some(name) => Some(known::task(store, name).await?),
            None => None,
        };
        let mut job = JobSpec::new(clock::new_id(now)?, TaskName::new(COMMAND)?);
        job.target = self.target.clone();
        job.group = self.group.clone();
        job.priority = self.priority.unwrap_or(0);
        match task {
            Some(task) => {
                job.params = params(&self.param)?;
                self.apply_task(&mut job, task)?;
            }
            None => job.params = self.command_params()?,
        }
        known::services(store, now, &self.service).await?;
        job.services.retain(|used| self.service.iter().all(|own| own.service != used.service));
        job.services.extend(self.service.iter().cloned());
        job.queue = self.queue.clone().unwrap_or(job.queue);
        job.key = self.key.clone().or(job.key);
        job.timeout = self.timeout.or(job.timeout);
        job.retry.max_attempts = self.max_attempts.unwrap_or(job.retry.max_attempts);
        job.labels.extend(self.label.iter().cloned());
        job.project = self.project.clone();
        Ok(job)
    }

    /// What the task says and the flags do not.
    fn apply_task(&self, job: &mut JobSpec, task: TaskSpec) -> Result<(), Trouble> {
        let stored = StoredTask::read(&task);
        job.task = task.name;
        job.services = task.services;
        job.timeout = task.timeout;
        job.retry = task.retry;
        let Some(stored) = stored else { return Ok(()) };
        let def = &stored.def;
        job.priority = self.priority.or(def.priority).unwrap_or(0);
        if let (None, Some(group)) = (&self.group, &def.group) {
            job.group = Some(GroupName::new(group.as_str())?);
        }
        if let Some(queue) = &def.queue {
            job.queue = QueueName::new(queue.as_str())?;
        }
        job.labels = def.labels.iter().cloned().collect();
        stored.apply(job)
    }

    /// The params of a command: what to run, where, and with which variables.
    fn command_params(&self) -> Result<Json, Trouble> {
        #[derive(Serialize)]
        struct Params<'a> {
            run: &'a [String],
            cwd: String,
            #[serde(skip_serializing_if = "BTreeMap::is_empty")]
            env: BTreeMap<&'a str, &'a str>,
        }
        let env = self.env.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let params = Params { run: &self.command, cwd: directory(self.cwd.clone())?, env };
        Json::from_value(&params).map_err(|error| bad_json("the command", &error))
    }
}

/// The params of a task, each JSON or else text.
fn params(pairs: &[(String, String)]) -> Result<Json, Trouble> {
    let value = |text: &String| serde_json::from_str(text).unwrap_or_else(|_| text.clone().into());
    let map: Map<String, Value> =
        pairs.iter().map(|(name, text)| (name.clone(), value(text))).collect();
    Json::from_value(&map).map_err(|error| bad_json("--param", &error))
}

/// The whole path of the directory, because whoever runs the job stands elsewhere.
fn directory(named: Option<PathBuf>) -> Result<String, Trouble> {
    let path = named.unwrap_or_else(|| PathBuf::from("."));
    let whole = path.canonicalize().map_err(|error| {
        let says = format!("the directory {} cannot be used: {error}", path.display());
        Trouble::usage(says).help("name one that is there with --cwd")
    })?;
    whole.into_os_string().into_string().map_err(|path| {
        Trouble::usage(format!("the directory {} is not UTF-8", path.display()))
            .help("name another with --cwd")
    })
}
