//! `runcue add`: puts one job in the queue, or many from lines of JSON, and prints their ids.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::PathBuf;
use std::time::Duration;

use runcue_core::{
    GroupName, JobId, JobSpec, Json, Key, QueueName, TaskName, TaskSpec, Timestamp, Use,
};
use runcue_store::{Store, Submitted};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::app::App;
use crate::exit::Exit;
use crate::stored_task::StoredTask;
use crate::submit::submit;
use crate::trouble::{Trouble, bad_json};
use crate::{clock, job_line, job_ref, known, value};

/// The task of a job that is only a command.
pub const COMMAND: &str = "command";

/// Flags of `add`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  id=$(runcue add -- make report)
  runcue add --after $id --in 5m -- ./send.sh 'two words'
  runcue add --task resize --target cat.png --param width=300
  generate-jobs | runcue add --from -")]
pub struct Args {
    /// The command to run and its arguments; no shell sees them
    #[arg(value_name = "COMMAND", trailing_var_arg = true, conflicts_with_all = ["task", "from"])]
    command: Vec<String>,
    /// A task that is stored with the queue, instead of a command
    #[arg(long, value_name = "TASK", conflicts_with = "from")]
    task: Option<String>,
    /// What to work on: a path, a record, an address
    #[arg(long)]
    target: Option<String>,
    /// A value for the task; JSON, or else text
    #[arg(long, value_name = "NAME=VALUE", value_parser = value::pair, requires = "task")]
    param: Vec<(String, String)>,
    /// Many jobs at once: one JSON object per line, `-` for standard input; all or none
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,
    /// The unit of fairness and of pause
    #[arg(long)]
    group: Option<GroupName>,
    /// Higher runs first inside a group: a number, low (0), normal (50), high (100), critical (200)
    #[arg(long, value_name = "N", value_parser = value::priority, allow_hyphen_values = true)]
    priority: Option<i32>,
    /// A job that must complete first; may be repeated
    #[arg(long, value_name = "ID", value_delimiter = ',')]
    after: Vec<String>,
    /// A service it uses, with a number of units if not one; may be repeated
    #[arg(long, value_name = "NAME[=UNITS]", value_parser = value::usage)]
    service: Vec<Use>,
    /// The queue it waits in [default: default]
    #[arg(long)]
    queue: Option<QueueName>,
    /// The key that per-key limits are counted by, for example a customer
    #[arg(long)]
    key: Option<Key>,
    /// A live or completed job with this key is answered instead of a second one
    #[arg(long, value_name = "TEXT")]
    idempotency_key: Option<String>,
    /// Not before so long from now
    #[arg(long = "in", value_name = "DURATION", value_parser = value::duration)]
    delay: Option<Duration>,
    /// How long one attempt may run
    #[arg(long, value_name = "DURATION", value_parser = value::duration)]
    timeout: Option<Duration>,
    /// How long to wait for the jobs of --after
    #[arg(long, value_name = "DURATION", value_parser = value::duration)]
    dependency_timeout: Option<Duration>,
    /// Attempts in all [default: 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_attempts: Option<u32>,
    /// A word that workers can be filtered by; may be repeated
    #[arg(long)]
    label: Vec<String>,
    /// The project that workers can be filtered by
    #[arg(long)]
    project: Option<String>,
    /// Cancelled if not started so long from now
    #[arg(long, value_name = "DURATION", value_parser = value::duration)]
    expires_in: Option<Duration>,
    /// The directory to run in [default: this one]
    #[arg(long, value_name = "DIR", requires = "command")]
    cwd: Option<PathBuf>,
    /// A variable for the command's environment; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = value::pair, requires = "command")]
    env: Vec<(String, String)>,
}

/// What became of one job, as JSON.
#[derive(Debug, Serialize)]
struct Added {
    id: JobId,
    new: bool,
}

/// What became of many.
#[derive(Debug, Serialize)]
struct AddedAll {
    jobs: Vec<Added>,
}

/// Puts jobs in the queue.
pub async fn run(args: Args, app: &App) -> Result<Exit, Trouble> {
    let now = clock::now();
    if args.command.is_empty() && args.task.is_none() && args.from.is_none() {
        return Err(Trouble::usage("there is nothing to add")
            .help("write `runcue add -- COMMAND ARG…`, or name a stored task with --task"));
    }
    if let Some(from) = args.from.clone() {
        let jobs = tokio::task::spawn_blocking(move || read_lines(&from, now))
            .await
            .map_err(|error| Trouble::failed(format!("reading stopped: {error}")))??;
        let store = app.new_store()?;
        return add_many(&*store, jobs, app).await;
    }
    let store = app.new_store()?;
    let job = one_job(&args, &*store, now).await?;
    let added = submit(&*store, vec![job], app.out).await?;
    tell(&added, args.from.is_some(), app)?;
    Ok(Exit::Ok)
}

async fn add_many(store: &dyn Store, jobs: Vec<JobSpec>, app: &App) -> Result<Exit, Trouble> {
    let added = submit(store, jobs, app.out).await?;
    tell(&added, true, app)?;
    Ok(Exit::Ok)
}

/// Only ids on standard output, so that `id=$(runcue add …)` works.
fn tell(added: &[Submitted], many: bool, app: &App) -> Result<(), Trouble> {
    let view = |one: &Submitted| Added { id: one.id(), new: matches!(one, Submitted::New(_)) };
    if app.out.json {
        let views: Vec<Added> = added.iter().map(view).collect();
        return match (many, views.as_slice()) {
            (false, [one]) => app.out.document(one),
            _ => app.out.document(&AddedAll { jobs: views }),
        };
    }
    let known = added.iter().filter(|one| matches!(one, Submitted::Existing(_))).count();
    if known > 0 {
        app.out.note(format!("{known} of {} were there already", added.len()));
    }
    let ids: Vec<String> = added.iter().map(|one| one.id().to_string()).collect();
    if ids.is_empty() { Ok(()) } else { app.out.say(ids.join("\n")) }
}

async fn one_job(args: &Args, store: &dyn Store, now: Timestamp) -> Result<JobSpec, Trouble> {
    let task = match &args.task {
        Some(name) => Some(known::task(store, name).await?),
        None => None,
    };
    let mut job = JobSpec::new(clock::new_id(now)?, TaskName::new(COMMAND)?);
    job.target = args.target.clone();
    job.group = args.group.clone();
    job.priority = args.priority.unwrap_or(0);
    match task {
        Some(task) => {
            job.params = params(&args.param)?;
            of_task(&mut job, task, args)?;
        }
        None => job.params = command(args)?,
    }
    known::services(store, now, &args.service).await?;
    job.services.retain(|used| args.service.iter().all(|own| own.service != used.service));
    job.services.extend(args.service.iter().cloned());
    let after = job_ref::many(store, &args.after).await?;
    job.depends_on = after.iter().map(runcue_core::Job::id).collect();
    job.queue = args.queue.clone().unwrap_or(job.queue);
    job.key = args.key.clone().or(job.key);
    job.idempotency_key = args.idempotency_key.clone();
    job.run_at = args.delay.map(|delay| now.plus(delay));
    job.expires_at = args.expires_in.map(|span| now.plus(span));
    job.timeout = args.timeout.or(job.timeout);
    job.dependency_timeout = args.dependency_timeout;
    job.retry.max_attempts = args.max_attempts.unwrap_or(job.retry.max_attempts);
    job.labels.extend(args.label.iter().cloned());
    job.project = args.project.clone();
    Ok(job)
}

/// What the task says and the flags do not.
fn of_task(job: &mut JobSpec, task: TaskSpec, args: &Args) -> Result<(), Trouble> {
    let stored = StoredTask::read(&task);
    job.task = task.name;
    job.services = task.services;
    job.timeout = task.timeout;
    job.retry = task.retry;
    let Some(stored) = stored else { return Ok(()) };
    let def = &stored.def;
    job.priority = args.priority.or(def.priority).unwrap_or(0);
    if let (None, Some(group)) = (&args.group, &def.group) {
        job.group = Some(GroupName::new(group.as_str())?);
    }
    if let Some(queue) = &def.queue {
        job.queue = QueueName::new(queue.as_str())?;
    }
    job.labels = def.labels.iter().cloned().collect();
    stored.apply(job)
}

/// The params of a task, each JSON or else text.
fn params(pairs: &[(String, String)]) -> Result<Json, Trouble> {
    let value = |text: &String| serde_json::from_str(text).unwrap_or_else(|_| text.clone().into());
    let map: Map<String, Value> =
        pairs.iter().map(|(name, text)| (name.clone(), value(text))).collect();
    Json::from_value(&map).map_err(|error| bad_json("--param", &error))
}

/// The params of a command: what to run, where, and with which variables.
fn command(args: &Args) -> Result<Json, Trouble> {
    #[derive(Serialize)]
    struct Params<'a> {
        run: &'a [String],
        cwd: String,
        #[serde(skip_serializing_if = "BTreeMap::is_empty")]
        env: BTreeMap<&'a str, &'a str>,
    }
    let env = args.env.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let params = Params { run: &args.command, cwd: directory(args.cwd.clone())?, env };
    Json::from_value(&params).map_err(|error| bad_json("the command", &error))
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

fn read_lines(from: &PathBuf, now: Timestamp) -> Result<Vec<JobSpec>, Trouble> {
    let cannot =
        |error: io::Error| Trouble::usage(format!("{} cannot be read: {error}", from.display()));
    let reader: Box<dyn BufRead> = if from.as_os_str() == "-" {
        Box::new(io::stdin().lock())
    } else {
        Box::new(BufReader::new(File::open(from).map_err(cannot)?))
    };
    let mut jobs = Vec::new();
    for (n, line) in reader.lines().enumerate() {
        let line = line.map_err(cannot)?;
        if !line.trim().is_empty() {
            jobs.push(job_line::read(&line, n + 1, now)?);
        }
    }
    Ok(jobs)
}
