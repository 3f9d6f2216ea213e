//! `runcue show`: everything about a job.

use std::fmt::Write;

use runcue_core::{Job, JobId, StateWord, Timestamp};
use runcue_store::Store;

use crate::app::App;
use crate::exit::Exit;
use crate::trouble::Trouble;
use crate::view::{JobDetailView, JobView, ReasonView, RelativeView};
use crate::{clock, job_ref, verbs, words};

/// How many prerequisites or dependents are shown to a person.
const RELATIVES: usize = 10;

/// Flags of `show`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The job: its id, digits from either end of it, or @last
    #[arg(value_name = "ID")]
    id: String,
}

/// Shows a job.
pub async fn run(args: Args, app: &App) -> Result<Exit, Trouble> {
    let store = app.store()?;
    let job = job_ref::one(&*store, &args.id).await?;
    let now = clock::now();
    let detail = detail(&*store, &job, now).await?;
    if app.out.json {
        app.out.document(&detail)?;
    } else {
        app.out.say(describe(&job, &detail, now).trim_end())?;
    }
    Ok(Exit::Ok)
}

/// A job with everything that is known about it.
pub async fn detail(
    store: &dyn Store,
    job: &Job,
    now: Timestamp,
) -> Result<JobDetailView, Trouble> {
    let (prerequisites, dependents) = store.relatives(job.id()).await?;
    let why = match job.life.state.word() {
        StateWord::Queued => store.why(now, job.id()).await?,
        _ => Vec::new(),
    };
    Ok(JobDetailView {
        job: JobView::from(job),
        prerequisites: relatives(store, prerequisites).await?,
        dependents: relatives(store, dependents).await?,
        why: why.iter().map(ReasonView::from).collect(),
    })
}

async fn relatives(store: &dyn Store, ids: Vec<JobId>) -> Result<Vec<RelativeView>, Trouble> {
    let jobs = store.get(ids.clone()).await?;
    let view = |(id, job): (JobId, Option<Job>)| RelativeView {
        id,
        task: job.as_ref().map(|job| job.spec.task.clone()),
        state: job.as_ref().map(|job| job.life.state.word()),
    };
    Ok(ids.into_iter().zip(jobs).map(view).collect())
}

fn describe(job: &Job, detail: &JobDetailView, now: Timestamp) -> String {
    let mut lines = Lines::default();
    identity(&mut lines, job);
    request(&mut lines, job, now);
    life(&mut lines, job, now);
    lines.relatives("waits for", &detail.prerequisites);
    lines.relatives("needed by", &detail.dependents);
    for (n, reason) in detail.why.iter().enumerate() {
        lines.row(if n == 0 { "why" } else { "" }, &verbs::why::words(reason, now));
    }
    history(&mut lines, job, now);
    if let Some(result) = &job.life.result {
        lines.row("result", &pretty(result.as_str()));
    }
    lines.text
}

fn identity(lines: &mut Lines, job: &Job) {
    let (spec, life) = (&job.spec, &job.life);
    lines.row("job", &spec.id.to_string());
    let cancelling = if life.cancel_requested && !life.state.word().is_final() {
        ", being cancelled"
    } else {
        ""
    };
    lines.row("state", &format!("{}{cancelling}", life.state.word()));
    lines.row("task", spec.task.as_str());
    lines.row("queue", spec.queue.as_str());
    lines.maybe("group", spec.group.as_ref());
    lines.maybe("target", spec.target.as_ref());
    if !matches!(spec.params.as_str(), "{}" | "null") {
        lines.row("params", &pretty(spec.params.as_str()));
    }
    lines.row("priority", &spec.priority.to_string());
}

fn request(lines: &mut Lines, job: &Job, now: Timestamp) {
    let spec = &job.spec;
    let labels: Vec<&str> = spec.labels.iter().map(String::as_str).collect();
    lines.list("labels", &labels);
    lines.maybe("project", spec.project.as_ref());
    let services: Vec<String> = spec
        .services
        .iter()
        .map(|used| match used.units {
            1 => used.service.to_string(),
            units => format!("{} ({units} units)", used.service),
        })
        .collect();
    lines.list("services", &services.iter().map(String::as_str).collect::<Vec<_>>());
    lines.maybe("key", spec.key.as_ref());
    lines.maybe("idempotency_key", spec.idempotency_key.as_ref());
    lines.maybe("timeout", spec.timeout.map(words::span).as_ref());
    lines.maybe("dependency_timeout", spec.dependency_timeout.map(words::span).as_ref());
    lines.maybe("run_at", spec.run_at.map(|at| words::instant(now, at)).as_ref());
    lines.maybe("expires_at", spec.expires_at.map(|at| words::instant(now, at)).as_ref());
    if !spec.requires.is_none() {
        let requires = serde_json::to_string(&spec.requires).unwrap_or_default();
        lines.row("requires", &requires);
    }
    lines.maybe("solver_url", spec.solver_url.as_ref());
    lines.maybe("solver_checksum", spec.solver_checksum.as_ref());
    lines.maybe("traceparent", spec.traceparent.as_ref());
}

fn life(lines: &mut Lines, job: &Job, now: Timestamp) {
    let (spec, life) = (&job.spec, &job.life);
    let crashes = match life.crashes {
        0 => String::new(),
        n => format!(", {n} ended with their worker"),
    };
    let since = life.attempt - life.earlier_attempts.min(life.attempt);
    lines.row("attempts", &format!("{since} of {}{crashes}", spec.retry.max_attempts));
    lines.row("created_at", &words::instant(now, life.created_at));
    lines.maybe("started_at", life.started_at.map(|at| words::instant(now, at)).as_ref());
    let finished = life.finished_at.map(|at| match life.started_at {
        Some(start) if start <= at => {
            format!("{}, took {}", words::instant(now, at), words::span(at.since(start)))
        }
        _ => words::instant(now, at),
    });
    lines.maybe("finished_at", finished.as_ref());
    if let Some(lease) = life.state.lease() {
        lines.row("leased_by", &lease.worker.to_string());
        lines.row("lease_expires_at", &words::instant(now, lease.until));
    }
    if let Some(progress) = &life.progress {
        lines.row("progress", &format!("{:.0} % {}", progress.percent, progress.message));
    }
}

fn history(lines: &mut Lines, job: &Job, now: Timestamp) {
    let failures = &job.life.failures;
    for (n, failure) in failures.iter().enumerate() {
        let head = if n == 0 { "fail_history" } else { "" };
        let told = format!(
            "attempt {}, {}, {}: {}",
            failure.attempt,
            failure.kind.as_str(),
            words::relative(now, failure.ts),
            failure.reason
        );
        lines.row(head, &told);
    }
    if failures.is_empty() {
        lines.maybe("last_error", job.life.last_error.as_ref());
    }
}

fn pretty(json: &str) -> String {
    let value: Option<serde_json::Value> = serde_json::from_str(json).ok();
    let short = json.len() <= 100;
    match value {
        Some(value) if !short => serde_json::to_string_pretty(&value).unwrap_or_default(),
        _ => json.to_owned(),
    }
}

/// Rows of a name and a text, the texts aligned.
#[derive(Default)]
struct Lines {
    text: String,
}

impl Lines {
    const WIDTH: usize = 20;

    fn row(&mut self, name: &str, text: &str) {
        let dim = anstyle::Style::new().dimmed();
        let indent = format!("\n{:width$}", "", width = Self::WIDTH);
        let text = words::plain(text).trim_end().replace('\n', &indent);
        let _ = writeln!(self.text, "{dim}{name:width$}{dim:#}{text}", width = Self::WIDTH);
    }

    fn maybe(&mut self, name: &str, text: Option<&impl ToString>) {
        if let Some(text) = text {
            self.row(name, &text.to_string());
        }
    }

    fn list(&mut self, name: &str, words: &[&str]) {
        if !words.is_empty() {
            self.row(name, &words.join(", "));
        }
    }

    fn relatives(&mut self, name: &str, relatives: &[RelativeView]) {
        let state = |r: &RelativeView| r.state.map_or("no longer kept", StateWord::as_str);
        for (n, relative) in relatives.iter().take(RELATIVES).enumerate() {
            let task = relative.task.as_ref().map(ToString::to_string).unwrap_or_default();
            let told = format!("{} {} {task}", words::short(relative.id), state(relative));
            self.row(if n == 0 { name } else { "" }, &told);
        }
        if relatives.len() > RELATIVES {
            self.row("", &format!("and {} more", relatives.len() - RELATIVES));
        }
    }
}
