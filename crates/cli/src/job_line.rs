//! One line of `runcue add --from`: a job as a JSON object, in the words of the contract. Instants are
//! milliseconds, spans are seconds or texts such as `5m`, and what is left out has its default.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use runcue_core::{
    GroupName, JobId, JobSpec, Json, Key, QueueName, Requires, RetryPolicy, ServiceName, TaskName,
    Timestamp, TraceParent, Use,
};
use serde::Deserialize;

use crate::job_args::COMMAND;
use crate::trouble::Trouble;
use crate::{clock, nearest, value};

/// The fields of a line.
pub const FIELDS: [&str; 25] = [
    "id",
    "task",
    "run",
    "cwd",
    "env",
    "queue",
    "target",
    "params",
    "priority",
    "group",
    "labels",
    "project",
    "depends_on",
    "timeout",
    "dependency_timeout",
    "idempotency_key",
    "max_attempts",
    "retry",
    "run_at",
    "in",
    "expires_at",
    "expires_in",
    "requires",
    "services",
    "key",
];

#[derive(Deserialize)]
struct Line {
    id: Option<JobId>,
    task: Option<TaskName>,
    run: Option<Vec<String>>,
    cwd: Option<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    #[serde(default)]
    queue: QueueName,
    target: Option<String>,
    params: Option<Json>,
    priority: Option<Priority>,
    group: Option<GroupName>,
    #[serde(default)]
    labels: BTreeSet<String>,
    project: Option<String>,
    #[serde(default)]
    depends_on: Vec<JobId>,
    timeout: Option<Span>,
    dependency_timeout: Option<Span>,
    idempotency_key: Option<String>,
    max_attempts: Option<u32>,
    #[serde(default)]
    retry: RetryPolicy,
    run_at: Option<i64>,
    r#in: Option<Span>,
    expires_at: Option<i64>,
    expires_in: Option<Span>,
    #[serde(default)]
    requires: Requires,
    #[serde(default)]
    services: Vec<Used>,
    key: Option<Key>,
    solver_url: Option<String>,
    solver_checksum: Option<String>,
    traceparent: Option<TraceParent>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Priority {
    Number(i32),
    Word(String),
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Span {
    Seconds(f64),
    Text(String),
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Used {
    Name(ServiceName),
    Units(Use),
}

/// Reads a line into a job; what is wrong names the line and the field.
pub fn read(text: &str, number: usize, now: Timestamp) -> Result<JobSpec, Trouble> {
    let at_line = |says: String| Trouble::usage(format!("line {number}: {says}"));
    let fields: BTreeMap<String, serde::de::IgnoredAny> =
        serde_json::from_str(text).map_err(|error| {
            at_line(format!("it is not a JSON object: {error}"))
                .help("write one object per line, for example {\"run\": [\"echo\", \"hi\"]}")
        })?;
    if let Some(field) = fields.keys().find(|field| !is_field(field)) {
        let trouble = at_line(format!("there is no field {field}"));
        return Err(match nearest::advice(field, FIELDS) {
            Some(advice) => trouble.help(advice),
            None => trouble,
        });
    }
    let line: Line = serde_json::from_str(text).map_err(|error| at_line(error.to_string()))?;
    job(line, now).map_err(|error| match error {
        Trouble::Told { says, help, exit } => {
            Trouble::Told { says: format!("line {number}: {says}"), help, exit }
        }
        gone => gone,
    })
}

fn is_field(name: &str) -> bool {
    FIELDS.contains(&name) || ["solver_url", "solver_checksum", "traceparent"].contains(&name)
}

fn job(line: Line, now: Timestamp) -> Result<JobSpec, Trouble> {
    let id = match line.id {
        Some(id) => id,
        None => clock::new_id(now)?,
    };
    let (task, params) = work(&line)?;
    let mut retry = line.retry;
    retry.max_attempts = line.max_attempts.unwrap_or(retry.max_attempts);
    let delayed = span("in", line.r#in)?.map(|delay| now.plus(delay));
    let expiring = span("expires_in", line.expires_in)?.map(|span| now.plus(span));
    Ok(JobSpec {
        queue: line.queue,
        target: line.target,
        params,
        priority: priority(line.priority)?,
        group: line.group,
        labels: line.labels,
        project: line.project,
        depends_on: line.depends_on,
        timeout: span("timeout", line.timeout)?,
        dependency_timeout: span("dependency_timeout", line.dependency_timeout)?,
        idempotency_key: line.idempotency_key,
        retry,
        run_at: line.run_at.map(Timestamp::from_millis).or(delayed),
        expires_at: line.expires_at.map(Timestamp::from_millis).or(expiring),
        requires: line.requires,
        services: line.services.into_iter().map(Use::from).collect(),
        key: line.key,
        solver_url: line.solver_url,
        solver_checksum: line.solver_checksum,
        traceparent: line.traceparent,
        ..JobSpec::new(id, task)
    })
}

impl From<Used> for Use {
    fn from(used: Used) -> Self {
        match used {
            Used::Name(service) => Self::one(service),
            Used::Units(used) => used,
        }
    }
}

/// The task and its params: a command with `run`, or any task with `params`.
fn work(line: &Line) -> Result<(TaskName, Json), Trouble> {
    match (&line.task, &line.run) {
        (Some(task), None) => Ok((task.clone(), line.params.clone().unwrap_or_default())),
        (None, Some(run)) if line.params.is_none() && !run.is_empty() => {
            let cwd = match &line.cwd {
                Some(cwd) => cwd.clone(),
                None => here()?,
            };
            let params = serde_json::json!({ "run": run, "cwd": cwd, "env": line.env });
            let params = Json::from_value(&params)
                .map_err(|error| Trouble::usage(format!("run: {error}")))?;
            Ok((TaskName::new(COMMAND)?, params))
        }
        (None, Some(run)) if run.is_empty() => Err(Trouble::usage("run is empty")
            .help("name the program and its arguments: \"run\": [\"echo\", \"hi\"]")),
        (None, Some(_)) => Err(Trouble::usage("run and params cannot both be there")),
        (None, None) => Err(Trouble::usage("it has neither task nor run")
            .help("write \"task\": \"NAME\", or a command as \"run\": [\"echo\", \"hi\"]")),
        (Some(_), Some(_)) => Err(Trouble::usage("task and run cannot both be there")),
    }
}

fn here() -> Result<String, Trouble> {
    let here = std::env::current_dir().map(std::path::PathBuf::into_os_string);
    here.ok().and_then(|path| path.into_string().ok()).ok_or_else(|| {
        Trouble::usage("the current directory has no usable name").help("give a cwd")
    })
}

fn priority(written: Option<Priority>) -> Result<i32, Trouble> {
    match written {
        None => Ok(0),
        Some(Priority::Number(number)) => Ok(number),
        Some(Priority::Word(word)) => {
            value::priority(&word).map_err(|says| Trouble::usage(format!("priority: {says}")))
        }
    }
}

fn span(field: &str, written: Option<Span>) -> Result<Option<Duration>, Trouble> {
    let refused = |says: String| Trouble::usage(format!("{field}: {says}"));
    match written {
        None => Ok(None),
        Some(Span::Text(text)) => value::duration(&text).map(Some).map_err(refused),
        Some(Span::Seconds(seconds)) => Duration::try_from_secs_f64(seconds)
            .map(Some)
            .map_err(|_| refused("a span is a number of seconds, zero or more".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_000);

    fn refused(text: &str) -> String {
        match read(text, 7, NOW).unwrap_err() {
            Trouble::Told { says, help, .. } => format!("{says} | {}", help.unwrap_or_default()),
            Trouble::ReaderGone => unreachable!("nothing was written"),
        }
    }

    #[test]
    fn a_line_says_what_a_job_is_and_the_rest_is_default() {
        let text = r#"{"task": "resize", "target": "cat.png", "priority": "high", "timeout": "5m",
            "max_attempts": 5, "in": 2.5, "services": ["api", {"service": "llm", "units": 300}]}"#;
        let job = read(text, 1, NOW).unwrap();
        assert_eq!(job.task.as_str(), "resize");
        assert_eq!(job.priority, 100);
        assert_eq!(job.timeout, Some(Duration::from_secs(300)));
        assert_eq!(job.retry.max_attempts, 5);
        assert_eq!(job.run_at, Some(Timestamp::from_millis(3_500)));
        assert_eq!(job.services[1].units, 300);
        assert_eq!(job.queue, QueueName::default());
    }

    #[test]
    fn a_command_needs_no_task() {
        let job = read(r#"{"run": ["echo", "hi"], "cwd": "/tmp"}"#, 1, NOW).unwrap();
        assert_eq!(job.task.as_str(), COMMAND);
        assert_eq!(job.params.as_str(), r#"{"cwd":"/tmp","env":{},"run":["echo","hi"]}"#);
    }

    #[test]
    fn a_bad_line_is_refused_with_its_number_and_the_field() {
        assert!(refused("[1]").starts_with("line 7: it is not a JSON object"));
        assert!(refused(r#"{"task": "x", "pririty": 3}"#).contains("did you mean priority?"));
        assert!(refused(r#"{"target": "x"}"#).contains("neither task nor run"));
        assert!(refused(r#"{"task": "x", "timeout": -1}"#).contains("line 7: timeout:"));
        assert!(refused(r#"{"task": "x", "depends_on": ["abc"]}"#).contains("32 hexadecimal"));
    }
}
