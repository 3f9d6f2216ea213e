//! One job, from its claim to its end: a flat line of steps. What is decided here is how a program that has ended
//! is reported; whether there is another attempt is the hub's to decide.

use std::sync::Arc;
use std::time::{Duration, Instant};

use runcue_core::TraceParent;
use runcue_process::{CommandSpec, Exit, Finished, Limits, Line, Output, SpawnError, Stream};
use runcue_trace::{Attempt, Details, Outcome, Span};
use serde_json::{Value, json};

use crate::agent::Shared;
use crate::beats::{Held, Stop};
use crate::machine;
use crate::outbox::End;
use crate::solver::SolverTrouble;

/// How often a program is started again that another process had still open for writing.
const BUSY_TRIES: u32 = 10;
const BUSY_PAUSE: Duration = Duration::from_millis(50);
/// What is kept back of the time in which a job may start, for the way of the answer.
const MARGIN: Duration = Duration::from_millis(500);
/// How long the last output may take to be handed over.
const LAST_OUTPUT: Duration = Duration::from_secs(5);
/// How much of what a program writes is kept: a result may be as large as a hub takes.
const OUTPUT: usize = 1024 * 1024;
/// How a job ends that never began.
const UNSTARTED: &str = "unstarted";
/// The task of `runcue add -- CMD`.
const COMMAND: &str = "command";

/// What a program said about itself while it ran.
#[derive(Default)]
struct Said {
    retry_after: Option<(Duration, Option<String>)>,
    result: Option<Value>,
}

/// Runs a job that was claimed at an instant and reports how it ended.
pub async fn run(shared: &Shared, held: &Arc<Held>, claimed: Instant) {
    // A trace that cannot be read is as good as none.
    let parent = held.job.traceparent.as_deref().and_then(|text| text.parse().ok());
    let span = shared.config.tracer.start(parent, machine::now);
    let place = span.as_ref().map(Span::place).or(parent);
    let end = attempt(shared, held, claimed, place).await;
    if let Some(span) = span.filter(|_| end.outcome != UNSTARTED) {
        span.end(machine::now(), || details(shared, held, &end));
    }
    let patience = shared.logs.flush(&shared.hub, &shared.config.worker_id, &held.job.id);
    // Output that cannot be handed over now is not worth holding up the end for.
    let _ = tokio::time::timeout(LAST_OUTPUT, patience).await;
    shared.held.remove(held);
    if held.why() != Stop::Lost {
        shared.outbox.add(end);
    }
}

/// What is told of an attempt in its trace.
fn details(shared: &Shared, held: &Held, end: &End) -> Details {
    let job = &held.job;
    let attempt = Attempt {
        job: &job.id,
        task: &job.task,
        group: job.group.as_deref(),
        number: job.lease.attempt,
        worker: &shared.config.worker_id,
    };
    attempt.details(match end.outcome {
        _ if held.why() == Stop::Lost => Outcome::Lost,
        "failed" if end.retry_after.is_some() => Outcome::RateLimited,
        "failed" => Outcome::Failed(end.reason.clone().unwrap_or_default()),
        "released" => Outcome::HandedBack,
        "stopped" => Outcome::Cancelled,
        _ => Outcome::Completed,
    })
}

async fn attempt(
    shared: &Shared,
    held: &Arc<Held>,
    claimed: Instant,
    trace: Option<TraceParent>,
) -> End {
    let (job, lease) = (&held.job, held.job.lease.clone());
    let failed = |reason: String| End::failed(job.id.clone(), lease.clone(), reason);
    let spec = match command(shared, held, trace).await {
        Ok(spec) => spec,
        Err(SolverTrouble::Later(why)) => return failed(why),
        Err(SolverTrouble::Never(why)) => return End { permanent: true, ..failed(why) },
    };
    let within = lease.start_within_ms.map(Duration::from_millis);
    if within.is_some_and(|within| claimed.elapsed() + MARGIN > within) {
        tracing::info!(job = job.id, "it could not start in time for its rate; handing it back");
        return End::new(job.id.clone(), lease.clone(), UNSTARTED);
    }
    if held.why() != Stop::Not {
        return stopped(held);
    }
    shared.held.begun(held);
    let timeout = job.max_runtime_ms.map(Duration::from_millis);
    let limits = Limits { timeout, output_bytes: OUTPUT, ..Limits::default() };
    let mut said = Said::default();
    let ended = start(shared, held, &spec, &limits, &mut said).await;
    match ended {
        Ok(finished) => conclude(held, finished, said, timeout),
        Err(error) => End { permanent: !error.is_transient(), ..failed(error.to_string()) },
    }
}

/// Starts the program and stays with it. A program that was just written may still be open for writing in a
/// process that another thread is about to start; that passes.
async fn start(
    shared: &Shared,
    held: &Arc<Held>,
    spec: &CommandSpec,
    limits: &Limits,
    said: &mut Said,
) -> Result<Finished, SpawnError> {
    let mut tries = 0;
    loop {
        let hear = |output: Output<'_>| hear(shared, held, said, output);
        let ended = runcue_process::run(spec, limits, &held.cancel, hear).await;
        match ended {
            Err(error) if tries < BUSY_TRIES && error.is_transient() => {
                tries += 1;
                tokio::time::sleep(BUSY_PAUSE).await;
            }
            ended => return ended,
        }
    }
}

fn hear(shared: &Shared, held: &Held, said: &mut Said, output: Output<'_>) {
    match output {
        Output::Chunk(stream, bytes) => {
            let stream = match stream {
                Stream::Stdout => "stdout",
                Stream::Stderr => "stderr",
            };
            let text = String::from_utf8_lossy(bytes);
            shared.logs.add(&held.job.id, &held.job.lease, stream, &text);
        }
        Output::Line(Line::Progress { percent, message }) => {
            shared.held.progress(held, f32::from(percent), message.unwrap_or_default());
        }
        Output::Line(Line::RetryAfter { delay, service }) => {
            said.retry_after = Some((delay, service));
        }
        Output::Line(Line::Result(value)) => said.result = Some(value),
    }
}

/// What is to be run: the solver the job brings, a program of this machine for its type, or its own command.
async fn command(
    shared: &Shared,
    held: &Held,
    trace: Option<TraceParent>,
) -> Result<CommandSpec, SolverTrouble> {
    let (config, job) = (&shared.config, &held.job);
    let params = job.params.to_string();
    let mut spec = match (&job.solver_url, config.programs.get(&job.task)) {
        (Some(url), _) => {
            let fetched = shared.solvers.get(url, job.solver_checksum.as_deref());
            let path = tokio::select! {
                path = fetched => path?,
                () = held.cancel.cancelled() => {
                    return Err(SolverTrouble::Later("stopped while its solver was fetched".to_owned()));
                }
            };
            CommandSpec::new([path.display().to_string(), "--params".to_owned(), params])
        }
        (None, Some(program)) => {
            let own = program.iter().cloned();
            CommandSpec::new(own.chain(["--params".to_owned(), params]))
        }
        (None, None) if config.commands && job.task == COMMAND => own_command(&job.params)?,
        (None, None) => {
            return Err(SolverTrouble::Never(format!(
                "nothing here runs jobs of type {}: the job has no solver_url, and the agent was started \
                 without --program {}=PATH",
                job.task, job.task
            )));
        }
    };
    let told = [
        ("RUNCUE_JOB_ID", job.id.clone()),
        ("RUNCUE_ATTEMPT", job.lease.attempt.to_string()),
        ("RUNCUE_TYPE", job.task.clone()),
        ("RUNCUE_TARGET", job.target.clone().unwrap_or_default()),
        ("NODE_ID", config.worker_id.clone()),
    ];
    let trace = trace.map(|place| ("TRACEPARENT", place.to_string()));
    let told = told.into_iter().chain(trace);
    spec.env.splice(0..0, told.map(|(name, value)| (name.to_owned(), value)));
    if let Some(prepare) = &config.prepare {
        prepare(&mut spec);
    }
    Ok(spec)
}

fn own_command(params: &Value) -> Result<CommandSpec, SolverTrouble> {
    let texts = |value: &Value| -> Option<Vec<String>> {
        value.as_array()?.iter().map(|text| text.as_str().map(str::to_owned)).collect()
    };
    let argv = params.get("run").and_then(texts).filter(|argv| !argv.is_empty());
    let argv = argv.ok_or_else(|| {
        SolverTrouble::Never("params.run: a program and its arguments are expected".to_owned())
    })?;
    let mut spec = CommandSpec::new(argv);
    if let Some(cwd) = params.get("cwd").and_then(Value::as_str) {
        spec = spec.with_cwd(cwd);
    }
    for (name, value) in params.get("env").and_then(Value::as_object).into_iter().flatten() {
        spec = spec.with_env(name, value.as_str().unwrap_or_default());
    }
    Ok(spec)
}

fn stopped(held: &Held) -> End {
    let outcome = match held.why() {
        Stop::Cancelled => "stopped",
        _ => "released",
    };
    End::new(held.job.id.clone(), held.job.lease.clone(), outcome)
}

fn conclude(held: &Held, finished: Finished, said: Said, timeout: Option<Duration>) -> End {
    let job = &held.job;
    let failed = |reason: String| End::failed(job.id.clone(), job.lease.clone(), reason);
    match finished.exit {
        Exit::Code(0) => {}
        Exit::Cancelled => return stopped(held),
        Exit::TimedOut => {
            let after = timeout.unwrap_or_default();
            let reason = format!("max_runtime_exceeded: it ran longer than {after:?}");
            return End { timeout: true, ..failed(reason) };
        }
        _ if said.retry_after.is_some() => {}
        Exit::Code(code) => {
            let reason = format!("exit {code}{}", last_line(&finished.stderr.text));
            return End { code: Some(format!("exit {code}")), ..failed(reason) };
        }
        Exit::Signal(signal) => {
            let reason = format!("killed by signal {signal}{}", last_line(&finished.stderr.text));
            return End { code: Some(format!("signal {signal}")), ..failed(reason) };
        }
    }
    if let Some((delay, service)) = said.retry_after {
        let reason = "rate limited".to_owned();
        return End { retry_after: Some(delay.as_secs_f64()), service, ..failed(reason) };
    }
    let result = said.result.unwrap_or_else(|| result_of(&finished));
    End { result: Some(result), ..End::new(job.id.clone(), job.lease.clone(), "completed") }
}

/// What a program gave back: what it wrote, if that is JSON; else what it wrote, as text.
fn result_of(finished: &Finished) -> Value {
    let text = finished.stdout.text.trim();
    match serde_json::from_str(text) {
        Ok(value) if finished.stdout.dropped == 0 => value,
        _ => {
            json!({ "stdout": finished.stdout.text, "stderr": finished.stderr.text, "exit_code": 0 })
        }
    }
}

/// The last line somebody wrote about what went wrong, for the reason.
fn last_line(stderr: &str) -> String {
    let line = stderr.lines().rev().find(|line| !line.trim().is_empty());
    line.map(|line| format!(": {}", line.chars().take(500).collect::<String>())).unwrap_or_default()
}
