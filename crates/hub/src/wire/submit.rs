//! A job as it is submitted over HTTP: the documented fields, runcue's own beside them, and no other.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use runcue_core::submission;
use runcue_core::{
    GroupName, JobId, JobSpec, Json, Key, QueueName, Requires, RetryPolicy, ServiceName, TaskName,
    TaskSpec, Timestamp, TraceParent, Use,
};
use serde::Deserialize;

use super::strict::{known, known_if_any};
use crate::error::{Answer, Code, Refusal};
use crate::openapi::{
    Described, Schema, any, count32, count64, either, flag, id_read, instant, list_of, may, must,
    name, named, number, read_as, seconds, signed32, text, word,
};

/// How long an attempt may run if nobody says otherwise, as documented.
const MAX_RUNTIME: Duration = Duration::from_secs(300);

/// A job to be submitted.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewJobBody {
    #[serde(rename = "type")]
    pub task: TaskName,
    pub params: Option<Json>,
    pub priority: Option<i32>,
    pub max_attempts: Option<u32>,
    #[serde(default, deserialize_with = "present")]
    pub max_runtime_ms: Option<Option<u64>>,
    pub solver_url: Option<String>,
    pub solver_checksum: Option<String>,
    pub id: Option<JobId>,
    pub queue: Option<QueueName>,
    pub group: Option<GroupName>,
    pub target: Option<String>,
    #[serde(default)]
    pub labels: BTreeSet<String>,
    pub project: Option<String>,
    #[serde(default)]
    pub depends_on: Vec<JobId>,
    pub dependency_timeout: Option<f64>,
    pub idempotency_key: Option<String>,
    #[serde(default, deserialize_with = "known_if_any")]
    pub retry: Option<RetryPolicy>,
    pub run_at: Option<i64>,
    pub expires_at: Option<i64>,
    #[serde(default, deserialize_with = "known_if_any")]
    pub requires: Option<Requires>,
    pub services: Option<Vec<Used>>,
    pub key: Option<Key>,
    pub traceparent: Option<TraceParent>,
}

/// A service by its name, or with units.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum Used {
    Name(ServiceName),
    Units(#[serde(deserialize_with = "known")] Use),
}

/// Tells `null` from nothing.
fn present<'de, D: serde::Deserializer<'de>, T: Deserialize<'de>>(
    from: D,
) -> Result<Option<Option<T>>, D::Error> {
    Option::<T>::deserialize(from).map(Some)
}

/// Refuses tasks that are runcue's own: whoever could submit or claim their jobs could speak in the hub's name.
pub fn not_ours<'a>(field: &str, tasks: impl IntoIterator<Item = &'a TaskName>) -> Answer<()> {
    match tasks.into_iter().find(|task| task.is_reserved()) {
        Some(task) => Err(Refusal::field(field, format!("jobs of {task} are runcue's own"))),
        None => Ok(()),
    }
}

/// What a job gets unless it says otherwise.
#[derive(Debug)]
pub struct Defaults<'a> {
    /// Definitions stored with the queue.
    pub tasks: &'a HashMap<TaskName, TaskSpec>,
    /// Solvers without a checksum are taken.
    pub unchecked_solvers: bool,
}

impl NewJobBody {
    /// The job as a store takes it; `id` is used unless the job brings its own.
    pub fn into_spec(self, id: JobId, defaults: &Defaults<'_>) -> Answer<JobSpec> {
        self.check_solver(defaults.unchecked_solvers)?;
        not_ours("type", [&self.task])?;
        // Checked before `max_attempts` beside it takes its place and hides it.
        if self.retry.as_ref().is_some_and(|retry| retry.max_attempts == 0) {
            return Err(Refusal::field("retry.max_attempts", "it must be at least 1"));
        }
        let task = defaults.tasks.get(&self.task);
        let mut retry =
            self.retry.or_else(|| task.map(|task| task.retry.clone())).unwrap_or_default();
        retry.max_attempts = self.max_attempts.unwrap_or(retry.max_attempts);
        let timeout = match self.max_runtime_ms {
            Some(Some(millis)) => Some(Duration::from_millis(millis)),
            Some(None) => None,
            None => task.map_or(Some(MAX_RUNTIME), |task| task.timeout),
        };
        let services = match self.services {
            Some(named) => named.into_iter().map(Use::from).collect(),
            None => task.map(|task| task.services.clone()).unwrap_or_default(),
        };
        let dependency_timeout = self
            .dependency_timeout
            .map(Duration::try_from_secs_f64)
            .transpose()
            .map_err(|_| Refusal::field("dependency_timeout", "seconds, zero or more"))?;
        Ok(JobSpec {
            queue: self.queue.unwrap_or_default(),
            target: self.target,
            params: self.params.unwrap_or_default(),
            priority: self.priority.unwrap_or(0),
            group: self.group,
            labels: self.labels,
            project: self.project,
            depends_on: self.depends_on,
            timeout,
            dependency_timeout,
            idempotency_key: self.idempotency_key,
            retry,
            run_at: self.run_at.map(Timestamp::from_millis),
            expires_at: self.expires_at.map(Timestamp::from_millis),
            requires: self.requires.unwrap_or_default(),
            services,
            key: self.key,
            traceparent: self.traceparent,
            solver_url: self.solver_url,
            solver_checksum: self.solver_checksum.map(|text| text.to_ascii_lowercase()),
            ..JobSpec::new(self.id.unwrap_or(id), self.task)
        })
    }

    /// A program nobody vouches for is not run, unless the operator wants that.
    fn check_solver(&self, unchecked: bool) -> Answer<()> {
        if let Some(url) = &self.solver_url
            && !(url.starts_with("https://") || url.starts_with("http://"))
        {
            return Err(Refusal::field("solver_url", "an http or https address is expected"));
        }
        match (&self.solver_url, &self.solver_checksum) {
            (Some(_), None) if !unchecked => Err(Refusal::new(
                Code::Invalid,
                "solver_checksum: a solver without a checksum is refused",
            )
            .help("send its sha256, or start the hub with --allow-unchecked-solvers")),
            (_, Some(sum)) if sum.len() != 64 || !sum.bytes().all(|b| b.is_ascii_hexdigit()) => {
                Err(Refusal::field("solver_checksum", "64 hexadecimal digits are expected"))
            }
            _ => Ok(()),
        }
    }
}

impl From<Used> for Use {
    fn from(used: Used) -> Self {
        match used {
            Used::Name(service) => Self::one(service),
            Used::Units(used) => used,
        }
    }
}

/// As much as a job may have of it; the core counts bytes and entries.
fn bounded_text() -> Schema {
    text().up_to(submission::MAX_TEXT)
}

/// The form of W3C Trace Context, version 00.
fn traceparent() -> Schema {
    let pattern = "^00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$";
    text().with("pattern", pattern)
}

impl Described for NewJobBody {
    const NAME: &'static str = "NewJob";

    fn schema() -> Schema {
        let checksum = text().with("pattern", "^[0-9a-fA-F]{64}$");
        read_as::<Self>([
            must("type", name().says("Its kind.")),
            may("params", any().says("What the solver is given; `{}` unless it says.")),
            may("priority", signed32().or_null().says("Higher runs first inside a group.")),
            may("max_attempts", count32().with("minimum", 1).or_null().says("Attempts in all.")),
            may(
                "max_runtime_ms",
                count64().or_null().says("How long one attempt may run; `null` means for ever."),
            ),
            may(
                "solver_url",
                text().with("pattern", "^https?://").up_to(submission::MAX_TARGET).or_null(),
            ),
            may("solver_checksum", checksum.or_null().says("The sha256 of the solver.")),
            may("id", id_read().or_null().says("Chosen here unless it says.")),
            may("queue", name().or_null().says("The queue it waits in.")),
            may("group", name().or_null().says("The unit of fairness and of pause.")),
            may("target", text().up_to(submission::MAX_TARGET).or_null().says("What to work on.")),
            may("labels", list_of(bounded_text()).up_to(submission::MAX_WORDS)),
            may("project", bounded_text().or_null()),
            may("depends_on", list_of(id_read()).up_to(submission::MAX_PREREQUISITES)),
            may("dependency_timeout", seconds().or_null().says("Seconds to wait for them.")),
            may(
                "idempotency_key",
                bounded_text().or_null().says("What a second submission is recognised by."),
            ),
            may("retry", named::<RetryPolicy>().or_null()),
            may("run_at", instant().or_null().says("Not before this instant.")),
            may("expires_at", instant().or_null().says("Cancelled if not started by then.")),
            may("requires", named::<Requires>().or_null()),
            may("services", list_of(named::<Used>()).up_to(submission::MAX_WORDS).or_null()),
            may("key", name().or_null().says("What limits per key are counted by.")),
            may("traceparent", traceparent().or_null().says("The trace it belongs to.")),
        ])
    }
}

impl Described for Used {
    const NAME: &'static str = "Used";

    fn schema() -> Schema {
        let units = count64().with("minimum", 1).says("Units of its rates that one attempt uses.");
        let with_units = read_as::<Use>([must("service", name()), may("units", units)]);
        either([name(), with_units]).says("A service by its name, or with units.")
    }
}

impl Described for RetryPolicy {
    const NAME: &'static str = "RetryPolicy";

    fn schema() -> Schema {
        read_as::<Self>([
            may("max_attempts", count32().with("minimum", 1)),
            may("max_crashes", count32()),
            may("backoff", word(&["fixed", "linear", "exponential"])),
            may("base_delay", seconds()),
            may("max_delay", seconds()),
            may("jitter", flag()),
            may("retry_on", list_of(text()).says("Kinds or codes of error; none means all.")),
        ])
    }
}

impl Described for Requires {
    const NAME: &'static str = "Requires";

    fn schema() -> Schema {
        read_as::<Self>([
            may("cores", count32().or_null()),
            may("ram_gb", number().or_null()),
            may("tags", list_of(bounded_text()).up_to(submission::MAX_WORDS)),
        ])
        .says("What a worker must offer.")
    }
}
