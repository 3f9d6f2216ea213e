//! `runcue list`: jobs, newest first, page by page.

use comfy_table::Cell;
use runcue_core::{Job, JobFilter, QueueName, State, StateWord, TaskName, Timestamp, Wait};
use runcue_store::{ListRequest, Store};

use crate::app::App;
use crate::exit::Exit;
use crate::trouble::Trouble;
use crate::view::{JobPageView, JobView};
use crate::{clock, job_ref, known, nearest, table, value, words};

/// Flags of `list`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Only in these states: queued, leased, running, completed, failed, cancelled, quarantined
    #[arg(long, value_name = "STATE", value_parser = value::state, value_delimiter = ',')]
    state: Vec<StateWord>,
    /// Only of this group
    #[arg(long)]
    group: Option<String>,
    /// Only of this task
    #[arg(long)]
    task: Option<TaskName>,
    /// Only of this queue
    #[arg(long)]
    queue: Option<QueueName>,
    /// Only of this project
    #[arg(long)]
    project: Option<String>,
    /// Only with this label
    #[arg(long)]
    label: Option<String>,
    /// At most so many
    #[arg(long, value_name = "N", default_value = "50", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    limit: u64,
    /// Only jobs submitted before this one: the next page
    #[arg(long, value_name = "ID")]
    before: Option<String>,
}

/// Lists jobs.
pub async fn run(args: Args, app: &App) -> Result<Exit, Trouble> {
    let store = app.store()?;
    let before = match &args.before {
        Some(text) => Some(job_ref::one(&*store, text).await?.seq),
        None => None,
    };
    let filter = filter(&args, &*store).await?;
    let limit = usize::try_from(args.limit).unwrap_or(usize::MAX);
    let page = store.list(ListRequest { filter, before, limit }).await?;
    let next_before = page.next.and(page.rows.last().map(Job::id));
    if app.out.json {
        let jobs = page.rows.iter().map(JobView::from).collect();
        app.out.document(&JobPageView { jobs, next_before })?;
        return Ok(Exit::Ok);
    }
    if page.rows.is_empty() {
        app.out.note(nothing(&args, &*store).await?);
        return Ok(Exit::Ok);
    }
    app.out.say(jobs_table(&page.rows, clock::now()))?;
    if let Some(id) = next_before {
        app.out.note(format!("there are more: add --before {}", words::short(id)));
    }
    Ok(Exit::Ok)
}

async fn filter(args: &Args, store: &dyn Store) -> Result<JobFilter, Trouble> {
    let group = match &args.group {
        Some(name) => Some(known::group(store, name).await?),
        None => None,
    };
    Ok(JobFilter {
        states: args.state.iter().copied().collect(),
        group,
        task: args.task.clone(),
        queue: args.queue.clone(),
        project: args.project.clone(),
        label: args.label.clone(),
        ..JobFilter::default()
    })
}

/// What to say of an empty list: perhaps the task is misspelt.
async fn nothing(args: &Args, store: &dyn Store) -> Result<String, Trouble> {
    if let Some(task) = &args.task {
        let tasks = store.tasks().await?;
        let names = tasks.iter().map(|task| task.name.as_str());
        let near = nearest::nearest(task.as_str(), names).filter(|near| *near != task.as_str());
        if let Some(near) = near {
            return Ok(format!("no such jobs; did you mean --task {near}?"));
        }
    }
    Ok("no such jobs".to_owned())
}

/// Jobs as a table.
pub fn jobs_table(jobs: &[Job], now: Timestamp) -> String {
    let mut table =
        table::new(&["ID", "STATE", "TASK", "ABOUT", "GROUP", "PRI", "TRY", "AGE", "NOTE"]);
    for job in jobs {
        let (spec, life) = (&job.spec, &job.life);
        let tries = match life.attempt {
            0 => Cell::new("·"),
            attempt => Cell::new(attempt),
        };
        table.add_row(vec![
            Cell::new(words::short(spec.id)),
            table::state(life.state.word()),
            Cell::new(words::one_line(spec.task.as_str(), 20)),
            Cell::new(words::about(job, 40)),
            Cell::new(
                spec.group.as_ref().map_or_else(String::new, |g| words::one_line(g.as_str(), 20)),
            ),
            Cell::new(spec.priority),
            tries,
            Cell::new(words::span(now.since(life.created_at))),
            table::dim(note(job, now)),
        ]);
    }
    table::text(&table)
}

/// What matters most about a job just now.
fn note(job: &Job, now: Timestamp) -> String {
    let life = &job.life;
    let error = || life.last_error.as_deref().map(|e| words::one_line(e, 50)).unwrap_or_default();
    match &life.state {
        State::Queued(Wait::Until(at)) if life.attempt > 0 => {
            format!("retry {}: {}", words::relative(now, *at), error())
        }
        State::Queued(Wait::Until(at)) => words::relative(now, *at),
        State::Queued(Wait::Prerequisites(left)) => {
            format!("waits for {}", words::count(u64::from(*left), "job"))
        }
        State::Queued(Wait::Turn) => String::new(),
        State::Leased(_) | State::Running(_) if life.cancel_requested => {
            "being cancelled".to_owned()
        }
        State::Leased(_) | State::Running(_) => progress(job, now),
        State::Completed => took(job),
        State::Failed | State::Quarantined => error(),
        State::Cancelled => String::new(),
    }
}

fn progress(job: &Job, now: Timestamp) -> String {
    let since = job.life.started_at.map(|at| words::span(now.since(at))).unwrap_or_default();
    match &job.life.progress {
        Some(progress) => {
            format!("{since} {:.0} % {}", progress.percent, words::one_line(&progress.message, 30))
        }
        None => since,
    }
}

fn took(job: &Job) -> String {
    match (job.life.started_at, job.life.finished_at) {
        (Some(start), Some(end)) => format!("took {}", words::span(end.since(start))),
        _ => String::new(),
    }
}
