//! `runcue add`: puts one job in the queue, or many from lines of JSON, and prints their ids.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::PathBuf;
use std::time::Duration;

use runcue_core::{JobId, JobSpec, Timestamp};
use runcue_store::{Store, Submitted};
use serde::Serialize;

use crate::app::App;
use crate::exit::Exit;
use crate::job_args::JobArgs;
use crate::submit::submit;
use crate::trouble::Trouble;
use crate::{clock, job_line, job_ref, value};

/// Flags of `add`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  id=$(runcue add -- make report)
  runcue add --after $id --in 5m -- ./send.sh 'two words'
  runcue add --task resize --target cat.png --param width=300
  generate-jobs | runcue add --from -")]
pub struct Args {
    #[command(flatten)]
    job: JobArgs,
    /// Many jobs at once: one JSON object per line, `-` for standard input; all or none
    #[arg(long, value_name = "FILE", conflicts_with_all = ["command", "task"])]
    from: Option<PathBuf>,
    /// A job that must complete first; may be repeated
    #[arg(long, value_name = "ID", value_delimiter = ',')]
    after: Vec<String>,
    /// A live or completed job with this key is answered instead of a second one
    #[arg(long, value_name = "TEXT")]
    idempotency_key: Option<String>,
    /// Not before so long from now
    #[arg(long = "in", value_name = "DURATION", value_parser = value::duration)]
    delay: Option<Duration>,
    /// How long to wait for the jobs of --after
    #[arg(long, value_name = "DURATION", value_parser = value::duration)]
    dependency_timeout: Option<Duration>,
    /// Cancelled if not started so long from now
    #[arg(long, value_name = "DURATION", value_parser = value::duration)]
    expires_in: Option<Duration>,
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
    if args.job.is_empty() && args.from.is_none() {
        return Err(Trouble::usage("there is nothing to add")
            .help("write `runcue add -- COMMAND ARG…`, or name a stored task with --task"));
    }
    if let Some(from) = args.from.clone() {
        let lines = tokio::task::spawn_blocking(move || read_lines(&from))
            .await
            .map_err(|error| Trouble::failed(format!("reading stopped: {error}")))??;
        // What is wrong with them is told before a queue is made; spans in them count by the queue's clock.
        let jobs = read_jobs(&lines, clock::now())?;
        let store = app.new_store()?;
        let jobs = if clock::is_shifted() { read_jobs(&lines, clock::now())? } else { jobs };
        return add_many(&*store, jobs, app).await;
    }
    let store = app.new_store()?;
    let job = one_job(&args, &*store, clock::now()).await?;
    let added = submit(&*store, vec![job], app).await?;
    tell(&added, args.from.is_some(), app)?;
    Ok(Exit::Ok)
}

async fn add_many(store: &dyn Store, jobs: Vec<JobSpec>, app: &App) -> Result<Exit, Trouble> {
    let added = submit(store, jobs, app).await?;
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
    let mut job = args.job.job(store, now).await?;
    let after = job_ref::many(store, &args.after).await?;
    job.depends_on = after.iter().map(runcue_core::Job::id).collect();
    job.idempotency_key = args.idempotency_key.clone();
    job.run_at = args.delay.map(|delay| now.plus(delay));
    job.expires_at = args.expires_in.map(|span| now.plus(span));
    job.dependency_timeout = args.dependency_timeout;
    Ok(job)
}

/// The lines of a file that are not empty, with their numbers.
fn read_lines(from: &PathBuf) -> Result<Vec<(usize, String)>, Trouble> {
    let cannot =
        |error: io::Error| Trouble::usage(format!("{} cannot be read: {error}", from.display()));
    let reader: Box<dyn BufRead> = if from.as_os_str() == "-" {
        Box::new(io::stdin().lock())
    } else {
        Box::new(BufReader::new(File::open(from).map_err(cannot)?))
    };
    let mut lines = Vec::new();
    for (n, line) in reader.lines().enumerate() {
        let line = line.map_err(cannot)?;
        if !line.trim().is_empty() {
            lines.push((n + 1, line));
        }
    }
    Ok(lines)
}

fn read_jobs(lines: &[(usize, String)], now: Timestamp) -> Result<Vec<JobSpec>, Trouble> {
    lines.iter().map(|(n, line)| job_line::read(line, *n, now)).collect()
}
