//! A task of a run file as it is kept with the queue, so that any worker can run its jobs: the definition,
//! the directory it is run in and the file it comes from.

use std::path::{Path, PathBuf};
use std::time::Duration;

use runcue_core::{
    Backoff, Job, JobSpec, Json, Requires, RetryPolicy, ServiceName, TaskName, TaskSpec, Use,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::runfile::{self, Cost, Invocation, JobView, RetryDef, RetryOn, TaskDef};
use crate::trouble::{Trouble, bad_json};

/// The param in which a run file's job remembers where it comes from. Commands do not see it.
pub const ORIGIN: &str = "runcue";

/// Which job of which file a job is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// The file, by its name or path.
    pub file: String,
    /// The job's id in the file.
    pub id: String,
    /// What the job did when it was submitted, as a hash.
    pub fingerprint: String,
}

impl Origin {
    /// Where a job comes from, if from a run file.
    pub fn of(job: &JobSpec) -> Option<Self> {
        #[derive(Deserialize)]
        struct Params {
            runcue: Origin,
        }
        if !job.params.as_str().contains(ORIGIN) {
            return None;
        }
        job.params.to::<Params>().ok().map(|params| params.runcue)
    }
}

/// A task as it is kept with the queue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StoredTask {
    /// The file it comes from, by its name or path.
    pub file: String,
    /// The directory that `cwd` is relative to.
    pub directory: PathBuf,
    /// The task as the file has it.
    #[serde(flatten)]
    pub def: TaskDef,
}

impl StoredTask {
    /// The task that a stored definition holds, if it is one of a run file.
    pub fn read(spec: &TaskSpec) -> Option<Self> {
        spec.definition.to().ok()
    }

    /// The definition to be stored.
    pub fn spec(&self, name: TaskName) -> Result<TaskSpec, Trouble> {
        let definition =
            Json::from_value(self).map_err(|error| bad_json("the task's definition", &error))?;
        let fixed = self.def.services.iter().filter_map(|(service, cost)| match cost {
            Cost::Units(units) => Some((service, *units)),
            // What depends on the job is worked out when there is one.
            Cost::From(_) => None,
        });
        let services = fixed
            .map(|(service, units)| Ok(Use { service: ServiceName::new(service.as_str())?, units }))
            .collect::<Result<_, Trouble>>()?;
        Ok(TaskSpec {
            name,
            services,
            timeout: self.def.timeout,
            retry: policy(self.def.retry.as_ref(), None),
            definition,
        })
    }

    /// The command for one attempt of a job.
    pub fn invocation(&self, job: &Job, attempt: u32) -> Result<Invocation, String> {
        let (id, params) = identity(&job.spec)?;
        let view = view(&job.spec, &id, &params, attempt);
        let mut invocation = self.def.invocation(&view).map_err(|error| error.to_string())?;
        let inside = Path::new(invocation.cwd.as_deref().unwrap_or("."));
        let cwd = if inside == Path::new(".") {
            self.directory.clone()
        } else {
            self.directory.join(inside)
        };
        invocation.cwd = Some(cwd.to_string_lossy().into_owned());
        Ok(invocation)
    }

    /// Fills a job that was added by hand with what its task says and it does not.
    pub fn apply(&self, job: &mut JobSpec) -> Result<(), Trouble> {
        let refused = |says: String| Trouble::usage(format!("task {}: {says}", job.task));
        let (id, params) = identity(job).map_err(refused)?;
        let view = view(job, &id, &params, 1);
        let value = |name: &str| view.value(name);
        let mut services = Vec::new();
        for (service, cost) in &self.def.services {
            let units = match cost {
                Cost::Units(units) => *units,
                Cost::From(template) => {
                    let text = template.fill(&value).map_err(|error| refused(error.to_string()))?;
                    text.trim().parse().map_err(|_| {
                        refused(format!(
                            "its cost of {service} comes out as {text:?}, not a number"
                        ))
                    })?
                }
            };
            services.push(Use { service: ServiceName::new(service.as_str())?, units });
        }
        let key = self.def.key.as_ref().map(|key| key.fill(&value)).transpose();
        let key = key.map_err(|error| refused(error.to_string()))?;
        job.services = services;
        job.key = key.map(runcue_core::Key::new).transpose()?;
        job.timeout = self.def.timeout;
        job.retry = policy(self.def.retry.as_ref(), None);
        job.requires = requires(self.def.requires.as_ref());
        Ok(())
    }

    /// The words that make an error worth another attempt.
    pub fn retry_words(&self) -> impl Iterator<Item = &str> {
        let retry_on = self.def.retry.iter().flat_map(|retry| &retry.retry_on).flatten();
        retry_on.filter_map(|on| match on {
            RetryOn::Word(word) => Some(word.as_str()),
            _ => None,
        })
    }
}

/// What templates see of a job: its id in the file and its own params.
fn identity(job: &JobSpec) -> Result<(String, Value), String> {
    let mut params: Value =
        job.params.to().map_err(|error| format!("its params cannot be read: {error}"))?;
    if let Some(map) = params.as_object_mut() {
        map.remove(ORIGIN);
    }
    let id = Origin::of(job).map_or_else(|| job.id.to_string(), |origin| origin.id);
    Ok((id, params))
}

fn view<'a>(job: &'a JobSpec, id: &'a str, params: &'a Value, attempt: u32) -> JobView<'a> {
    JobView {
        id,
        task: job.task.as_str(),
        queue: Some(job.queue.as_str()),
        group: job.group.as_ref().map(|group| group.as_str()),
        target: job.target.as_deref(),
        attempt,
        params,
    }
}

/// A retry policy from what a file says; the rest is default.
pub fn policy(def: Option<&RetryDef>, max_attempts: Option<u32>) -> RetryPolicy {
    let plain = RetryPolicy::default();
    let Some(def) = def else {
        return RetryPolicy { max_attempts: max_attempts.unwrap_or(plain.max_attempts), ..plain };
    };
    let backoff = def.backoff.map(|backoff| match backoff {
        runfile::Backoff::Fixed => Backoff::Fixed,
        runfile::Backoff::Linear => Backoff::Linear,
        runfile::Backoff::Exponential => Backoff::Exponential,
    });
    let word = |on: &RetryOn| match on {
        RetryOn::Timeout => "timeout".to_owned(),
        RetryOn::Crash => "crash".to_owned(),
        RetryOn::ExitCode(code) => format!("exit {code}"),
        RetryOn::Word(word) => word.clone(),
    };
    let span = |written: Option<Duration>, default| written.unwrap_or(default);
    RetryPolicy {
        max_attempts: max_attempts.or(def.max_attempts).unwrap_or(plain.max_attempts),
        max_crashes: def.max_crashes.unwrap_or(plain.max_crashes),
        backoff: backoff.unwrap_or(plain.backoff),
        base_delay: span(def.base_delay, plain.base_delay),
        max_delay: span(def.max_delay, plain.max_delay),
        jitter: def.jitter.unwrap_or(plain.jitter),
        retry_on: def.retry_on.iter().flatten().map(word).collect(),
    }
}

/// What a worker must offer, from what a file says.
pub fn requires(def: Option<&runfile::Requires>) -> Requires {
    def.map_or_else(Requires::default, |def| Requires {
        cores: def.cores,
        ram_gb: def.ram_gb,
        tags: def.tags.iter().cloned().collect(),
    })
}
