//! Executors that run elsewhere: a command of its own, or a worker process of a pool. Both are handlers like
//! any other; what they add is that they stop in an orderly way by themselves when their time is up.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use runcue_core::Json;
use runcue_process::pool::{FailureKind, Reply, Request};
use runcue_process::{
    CommandSpec, Exit, Finished, Limits, Line, Output, PoolError, ProcessPool, SpawnError, Stream,
};
use runcue_store::LogStream;
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::task::Handler;
use crate::work::Work;

type Answer = Result<Json, Failure>;

/// Beyond its grace, a killed process may take this long to be gone.
const REAP: Duration = Duration::from_secs(6);

/// Builds the command of an attempt.
pub(crate) type Build = Arc<dyn Fn(&Work) -> Result<CommandSpec, Failure> + Send + Sync>;

/// Runs the command that a closure builds for each attempt.
pub(crate) struct CommandHandler {
    build: Build,
    limits: Limits,
}

impl CommandHandler {
    pub(crate) fn new(build: Build, limits: Limits) -> Self {
        Self { build, limits }
    }
}

/// What a command said about itself while it ran.
#[derive(Default)]
struct Said {
    retry_after: Option<(Duration, Option<String>)>,
    result: Option<Value>,
}

#[async_trait]
impl Handler for CommandHandler {
    async fn run(&self, work: Work) -> Answer {
        let spec = (self.build)(&work)?;
        run_command(&work, &spec, &self.limits).await
    }

    fn patience(&self) -> Duration {
        self.limits.grace + REAP
    }
}

/// Runs a command for an attempt, within the attempt's time: its output goes to the job's log, its reports
/// become progress, and how it ended becomes the answer. For handlers that build on it.
pub async fn run_command(work: &Work, spec: &CommandSpec, limits: &Limits) -> Answer {
    let spec = &*in_its_trace(work, spec);
    let limits = Limits { timeout: work.timeout(), ..limits.clone() };
    let mut said = Said::default();
    let finished = runcue_process::run(spec, &limits, work.cancellation(), |output| {
        hear(work, &mut said, output)
    })
    .await
    .map_err(not_started)?;
    conclude(work, finished, said)
}

/// The command with its place in a trace, if there is one, in the variable that programs know it by. A variable of its
/// own comes first.
fn in_its_trace<'a>(work: &Work, spec: &'a CommandSpec) -> Cow<'a, CommandSpec> {
    let Some(place) = work.traceparent() else { return Cow::Borrowed(spec) };
    let mut spec = spec.clone();
    spec.env.insert(0, ("TRACEPARENT".to_owned(), place.to_string()));
    Cow::Owned(spec)
}

fn hear(work: &Work, said: &mut Said, output: Output<'_>) {
    match output {
        Output::Chunk(stream, bytes) => {
            let stream = match stream {
                Stream::Stdout => LogStream::Stdout,
                Stream::Stderr => LogStream::Stderr,
            };
            work.output(stream, String::from_utf8_lossy(bytes));
        }
        Output::Line(Line::Progress { percent, message }) => {
            work.progress(f32::from(percent), message.unwrap_or_default());
        }
        Output::Line(Line::RetryAfter { delay, service }) => {
            said.retry_after = Some((delay, service));
        }
        Output::Line(Line::Result(value)) => said.result = Some(value),
    }
}

fn not_started(error: SpawnError) -> Failure {
    if error.is_transient() { Failure::transient(error) } else { Failure::permanent(error) }
}

fn conclude(work: &Work, finished: Finished, said: Said) -> Answer {
    match finished.exit {
        Exit::Code(0) => {}
        Exit::TimedOut => return Err(Failure::timeout(work.timeout().unwrap_or_default())),
        Exit::Cancelled => return Err(Failure::hand_back()),
        _ if said.retry_after.is_some() => {}
        Exit::Code(code) => {
            let error = format!("exit {code}{}", last_line(&finished.stderr.text));
            return Err(Failure::transient(error).with_code(format!("exit {code}")));
        }
        Exit::Signal(signal) => {
            let error = format!("killed by signal {signal}{}", last_line(&finished.stderr.text));
            return Err(Failure::transient(error).with_code(format!("signal {signal}")));
        }
    }
    if let Some((delay, service)) = said.retry_after {
        return Err(Failure::rate_limited(delay, service.as_deref()));
    }
    let mut result = json!({
        "stdout": finished.stdout.text,
        "stderr": finished.stderr.text,
        "exit_code": 0,
    });
    if let Some(value) = said.result {
        result["result"] = value;
    }
    json_of(&result)
}

/// The last line somebody wrote about what went wrong, for the error.
fn last_line(stderr: &str) -> String {
    let line = stderr.lines().rev().find(|line| !line.trim().is_empty());
    line.map(|line| format!(": {}", line.chars().take(500).collect::<String>())).unwrap_or_default()
}

fn json_of(value: &Value) -> Answer {
    Json::from_value(value)
        .map_err(|error| Failure::permanent(format!("the result is not JSON: {error}")))
}

/// Runs attempts in the worker processes of a pool.
pub(crate) struct PoolHandler {
    pool: Arc<ProcessPool>,
}

impl PoolHandler {
    pub(crate) fn new(pool: Arc<ProcessPool>) -> Self {
        Self { pool }
    }
}

#[async_trait]
impl Handler for PoolHandler {
    async fn run(&self, work: Work) -> Answer {
        let request = Request {
            id: work.id().to_string(),
            task: work.task().to_string(),
            target: work.target().map_or(Value::Null, Value::from),
            params: work.params()?,
            attempt: work.attempt(),
            traceparent: work.traceparent().map(|place| place.to_string()),
        };
        let report = |progress: runcue_process::pool::Progress| {
            work.progress(f32::from(progress.percent), progress.message.unwrap_or_default());
        };
        let answer = self.pool.call(&request, work.timeout(), work.cancellation(), report).await;
        match answer {
            Ok(Reply::Done(value)) => json_of(&value),
            Ok(Reply::Failed { message, kind: FailureKind::Transient }) => {
                Err(Failure::transient(message))
            }
            Ok(Reply::Failed { message, kind: FailureKind::Permanent }) => {
                Err(Failure::permanent(message))
            }
            Err(error) => Err(no_reply(&work, error)),
        }
    }

    fn patience(&self) -> Duration {
        REAP
    }
}

fn no_reply(work: &Work, error: PoolError) -> Failure {
    match error {
        PoolError::TimedOut => Failure::timeout(work.timeout().unwrap_or_default()),
        PoolError::Cancelled | PoolError::Closed => Failure::hand_back(),
        PoolError::Spawn(error) => not_started(error),
        PoolError::TooLarge { .. } | PoolError::Invalid(_) => Failure::permanent(error),
        PoolError::Crashed { stderr, .. } if !stderr.text.trim().is_empty() => {
            Failure::transient(format!("the worker crashed{}", last_line(&stderr.text)))
        }
        PoolError::Crashed { .. } | PoolError::Stuck { .. } | PoolError::Garbage { .. } => {
            Failure::transient(error)
        }
    }
}
