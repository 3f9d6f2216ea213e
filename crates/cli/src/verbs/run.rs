//! `runcue run`: runs a file of jobs to completion, and goes on where it stopped when run again.

use std::io::{self, BufRead, IsTerminal};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::ValueEnum;
use runcue::Address;
use runcue_core::{ClaimFilter, JobId, Timestamp};
use runcue_store::{Retention, Store};

use crate::app::{App, bad_file};
use crate::exit::Exit;
use crate::news::News;
use crate::plan::{self, Found, Plan, Redo, Source, Step};
use crate::progress::{self, Phase, Show, SummaryView, Tracker};
use crate::runner::{self, Commands, Ended, Runner, Setup, Signal};
use crate::store::{self, Access};
use crate::trouble::Trouble;
use crate::view::ServiceView;
use crate::{clock, out, runfile, value, verbs, words};

/// How many changed jobs are named.
const NAMED: usize = 5;
/// Events and services are looked at no more often than this.
const SHORTEST: Duration = Duration::from_millis(20);
/// And no less often.
const LONGEST: Duration = Duration::from_millis(500);
/// When nothing happened for so long, it is time to ask why.
const STILL: Duration = Duration::from_secs(5);
const PAGE: usize = 1_000;

/// Flags of `run`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Run again, the file goes on where it stopped: completed jobs are skipped, failed ones are tried again.

Exit codes: 0 all completed, 1 some did not, 2 the file is bad, 130 interrupted.")]
pub struct Args {
    /// The file: YAML, TOML or JSON
    file: PathBuf,
    /// How many jobs run at once [default: the file's max_parallel, else the number of processors]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    jobs: Option<u32>,
    /// Do completed jobs again: changed (those that changed since, and what depends on them) or all
    #[arg(long, value_name = "WHICH", hide_possible_values = true)]
    redo: Option<Which>,
    /// How long running jobs may go on after the first Ctrl-C
    #[arg(long, value_name = "DURATION", value_parser = value::duration, default_value = "30s")]
    grace: Duration,
    /// How long others wait for this process when it is silent, before they take its jobs over
    #[arg(long, value_name = "DURATION", value_parser = value::lease, default_value = "30s")]
    lease: Duration,
    /// Only read the file and say what would be done
    #[arg(long)]
    dry_run: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Which {
    /// Those that changed since.
    Changed,
    /// All.
    All,
}

/// Runs a file.
pub async fn run(args: Args, app: &App) -> Result<Exit, Trouble> {
    let source = read(&args.file).await?;
    let address = app.address_or(anchored(&source)?.as_deref())?;
    let access = if args.dry_run { Access::Existing } else { Access::Create };
    let store = match app.open(&address, access) {
        Err(_) if args.dry_run && !address.exists() => {
            app.open(&Address::memory(), Access::Create)?
        }
        opened => opened?,
    };
    plan::check_tasks(&*store, &source).await?;
    let found = Found::look(&*store, &source).await?;
    let plan = settle(&args, app, &source, &found).await?;
    let forgotten = found.is_empty() && plan::was_run(&*store, &source).await?;
    if forgotten && !agree_to_forgotten(&args, app).await? {
        return Ok(Exit::Failed);
    }
    if !agree_to_partly_forgotten(&args, app, &source, &found, &plan).await? {
        return Ok(Exit::Failed);
    }
    if args.dry_run {
        return rehearse(&plan, &source, app);
    }
    define_services(&*store, &source).await?;
    let before = store.last_event().await?;
    let runner = make_runner(&args, app, &source, &store, &address).await?;
    define_schedules(&*store, &source, app).await?;
    announce(&plan, &source, &address, &args, app);
    let ids = plan.carry_out(&*store, &source.file.jobs, app).await?;
    let mut tracker = track(&*store, &source, &ids).await?;
    let mut show = Show::fitting(app, &tracker, clock::now());
    runner.start();
    let ended = {
        let done = follow(&*store, before, &mut tracker, &mut show);
        runner.until(done).await
    };
    show.end();
    let ended = ended?;
    correct(&*store, &mut tracker).await?;
    let summary = SummaryView::new(&*store, &tracker, clock::now()).await?;
    let again = format!("runcue run {}", args.file.display());
    progress::tell(&summary, &again, app.out)?;
    Ok(exit(ended, &summary))
}

fn exit(ended: Ended, summary: &SummaryView) -> Exit {
    match ended {
        _ if summary.is_good() => Exit::Ok,
        Ended::Stopped(Signal::Interrupt | Signal::Terminate) if summary.unfinished > 0 => {
            Exit::Interrupted
        }
        _ => Exit::Failed,
    }
}

async fn read(path: &Path) -> Result<Source, Trouble> {
    let own = path.to_owned();
    let read = tokio::task::spawn_blocking(move || runfile::load(&own)).await;
    let file = read
        .map_err(|error| Trouble::failed(format!("reading stopped: {error}")))?
        .map_err(|error| bad_file(&error))?;
    Source::new(file, path)
}

/// A store that the file names by a relative path stands beside the file, wherever the file is run from.
fn anchored(source: &Source) -> Result<Option<String>, Trouble> {
    let Some(url) = source.file.store.as_deref() else { return Ok(None) };
    Ok(Some(store::address(url)?.below(&source.directory).url()))
}

/// The plan, after asking about jobs that changed since they were done.
async fn settle(args: &Args, app: &App, source: &Source, found: &Found) -> Result<Plan, Trouble> {
    let redo = match args.redo {
        None => Redo::Nothing,
        Some(Which::Changed) => Redo::Changed,
        Some(Which::All) => Redo::Everything,
    };
    let now = clock::now();
    let plan = Plan::new(source, found, redo, now)?;
    if plan.changed.is_empty() || redo == Redo::Everything {
        return Ok(plan);
    }
    let names = plan.changed.iter().take(NAMED).map(|n| source.file.jobs[*n].id.as_str());
    let mut named = names.collect::<Vec<_>>().join(", ");
    if plan.changed.len() > NAMED {
        named += ", …";
    }
    let jobs = words::count(plan.changed.len() as u64, "job");
    app.out.note(format!("{jobs} changed since the last run: {named}"));
    if redo == Redo::Changed {
        return Ok(plan);
    }
    if !args.dry_run && confirm(app).await? {
        return Plan::new(source, found, Redo::Changed, now);
    }
    app.out.note("they are left as they are; --redo changed does them again");
    Ok(plan)
}

/// The file was run in this queue before, and retention has deleted all it did: its jobs are done again, which
/// nobody should find out afterwards. Where a person is there, they may say no.
async fn agree_to_forgotten(args: &Args, app: &App) -> Result<bool, Trouble> {
    if args.redo.is_some() {
        return Ok(true);
    }
    app.out.note("this file was run here before, and what became of its jobs is no longer kept");
    if args.dry_run || !someone_is_there(app) {
        app.out.note("they are done again; `retention` in the config file keeps jobs longer");
        return Ok(true);
    }
    confirm(app).await
}

/// Some jobs of the file are known here and others are not, and the first of those that are is so old that others
/// may have been deleted since: the unknown ones are new in the file, or are done for a second time.
async fn agree_to_partly_forgotten(
    args: &Args,
    app: &App,
    source: &Source,
    found: &Found,
    plan: &Plan,
) -> Result<bool, Trouble> {
    let kept = runner::retention(app.config.retention).completed;
    let horizon = Retention::horizon(clock::now(), kept);
    let unknown: Vec<&str> = plan
        .jobs
        .iter()
        .filter(|planned| planned.step == Step::Submit)
        .map(|planned| source.file.jobs[planned.index].id.as_str())
        .collect();
    let may_be_gone = found.since().is_some_and(|since| since < horizon);
    if args.redo.is_some() || unknown.is_empty() || !may_be_gone {
        return Ok(true);
    }
    let jobs = words::count(unknown.len() as u64, "job");
    let mut named = unknown.iter().take(NAMED).copied().collect::<Vec<_>>().join(", ");
    if unknown.len() > NAMED {
        named += ", …";
    }
    app.out.note(format!(
        "{jobs} not known here, new in the file or done so long ago that it is no longer kept: {named}"
    ));
    if args.dry_run || !someone_is_there(app) {
        app.out.note("they are done now; `retention` in the config file keeps jobs longer");
        return Ok(true);
    }
    ask("do them now? [y/N]").await
}

fn someone_is_there(app: &App) -> bool {
    let terminal = io::stdin().is_terminal() && out::is_error_terminal();
    terminal && !app.out.quiet && !app.out.json
}

/// Asks a person, if there is one.
async fn confirm(app: &App) -> Result<bool, Trouble> {
    if !someone_is_there(app) {
        return Ok(false);
    }
    ask("do them again, and what depends on them? [y/N]").await
}

async fn ask(question: &str) -> Result<bool, Trouble> {
    out::complain(question);
    let answer = tokio::task::spawn_blocking(|| {
        let mut line = String::new();
        io::stdin().lock().read_line(&mut line).map(|_| line)
    });
    let answer = answer.await.map_err(|error| Trouble::failed(error.to_string()))?;
    let answer = answer.map_err(|error| Trouble::failed(format!("no answer: {error}")))?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

fn rehearse(plan: &Plan, source: &Source, app: &App) -> Result<Exit, Trouble> {
    let parts = plan_parts(plan);
    let jobs = words::count(source.file.jobs.len() as u64, "job");
    if app.out.json {
        let count = |step: fn(&Step) -> bool| plan.count(step);
        app.out.document(&serde_json::json!({
            "jobs": source.file.jobs.len(),
            "submit": count(Step::submits),
            "retry": count(|step| *step == Step::Retry),
            "go_on": count(|step| *step == Step::GoOn),
            "done": count(|step| *step == Step::Done),
            "changed": plan.changed.len(),
            "dry_run": true,
        }))?;
    } else {
        app.out.say(format!("{}: {jobs}: {}", source.key.name(), parts.join(", ")))?;
    }
    Ok(Exit::Ok)
}

fn plan_parts(plan: &Plan) -> Vec<String> {
    let counts: [(u64, &str); 6] = [
        (plan.count(|step| *step == Step::Submit), "new"),
        (plan.count(|step| *step == Step::Done), "completed before"),
        (plan.count(|step| *step == Step::GoOn), "waiting or running already"),
        (plan.count(|step| *step == Step::Retry), "tried again"),
        (
            plan.count(|step| matches!(step, Step::Replace { .. })),
            "replaced by what the file says now",
        ),
        (plan.count(|step| *step == Step::Again), "done again"),
    ];
    counts.iter().filter(|(n, _)| *n > 0).map(|(n, word)| format!("{n} {word}")).collect()
}

fn announce(plan: &Plan, source: &Source, address: &Address, args: &Args, app: &App) {
    let jobs = words::count(source.file.jobs.len() as u64, "job");
    let slots = runner::slots(args.jobs, source.file.max_parallel, app.config.jobs);
    let parts = plan_parts(plan).join(", ");
    let what = format!("{}: {jobs} ({parts}), {slots} at a time", source.key.name());
    let place = format!("in {address}");
    app.out.note(out::fitted(&what, ", ", &place, out::width(out::is_error_terminal())));
}

/// Defines the file's services; a pause that a person set stays.
async fn define_services(store: &dyn Store, source: &Source) -> Result<(), Trouble> {
    let mut services = plan::services(source)?;
    if services.is_empty() {
        return Ok(());
    }
    let now = clock::now();
    let known = store.services(now).await?;
    for service in &mut services {
        let before = known.iter().find(|known| known.spec.name == service.name);
        service.paused = before.is_some_and(|before| before.spec.paused);
    }
    Ok(store.upsert_services(now, services).await?)
}

/// Defines the file's schedules, whose tasks are there by now; a pause that a person set stays.
async fn define_schedules(store: &dyn Store, source: &Source, app: &App) -> Result<(), Trouble> {
    let mut schedules = plan::schedules(source)?;
    if schedules.is_empty() {
        return Ok(());
    }
    let known = store.schedules().await?;
    for schedule in &mut schedules {
        let before = known.iter().find(|known| known.spec.name == schedule.name);
        schedule.paused = before.is_some_and(|before| before.spec.paused);
    }
    let defined = words::count(schedules.len() as u64, "schedule");
    store.upsert_schedules(clock::now(), schedules).await?;
    app.out.note(format!("{defined} defined; they fire as long as somebody works: runcue work"));
    Ok(())
}

async fn make_runner(
    args: &Args,
    app: &App,
    source: &Source,
    store: &Arc<dyn Store>,
    address: &Address,
) -> Result<Runner, Trouble> {
    let commands = Commands::start(address, app.out)?;
    let tasks = plan::tasks(source)?.into_iter().map(|(spec, stored)| (spec, Some(stored)));
    let setup = Setup {
        slots: runner::slots(args.jobs, source.file.max_parallel, app.config.jobs),
        name: None,
        filter: ClaimFilter::default(),
        retention: app.config.retention,
        grace: args.grace,
        lease: args.lease,
        tracer: app.traces.tracer().clone(),
    };
    Runner::new(Arc::clone(store), commands, tasks.collect(), setup, app.out).await
}

/// Where every job is to begin with.
async fn track(store: &dyn Store, source: &Source, ids: &[JobId]) -> Result<Tracker, Trouble> {
    let mut tracker = Tracker::new(clock::now());
    let defs: Vec<_> = ids.iter().zip(&source.file.jobs).collect();
    for page in defs.chunks(PAGE) {
        let jobs = store.get(page.iter().map(|(id, _)| **id).collect()).await?;
        for ((id, def), job) in page.iter().zip(jobs) {
            let phase = job.map_or(Phase::Waiting, |job| Phase::of(job.life.state.word()));
            let task = if def.task.starts_with("run:") { "commands" } else { def.task.as_str() };
            tracker.add(**id, &def.id, task, phase);
        }
    }
    Ok(tracker)
}

/// Follows the jobs until all of them have ended.
async fn follow(
    store: &dyn Store,
    mut after: u64,
    tracker: &mut Tracker,
    show: &mut Show,
) -> Result<(), Trouble> {
    let mut news = News::begin(store).await;
    let mut moved_at = clock::now();
    let mut told: Option<String> = None;
    loop {
        let events = store.events(after, PAGE).await?;
        let more = events.len() == PAGE;
        for event in &events {
            after = event.seq;
            if let Some(name) = tracker.note(event) {
                show.event(event, name)?;
                moved_at = clock::now();
            }
        }
        let now = clock::now();
        show.tick(tracker, &services(store, show, now).await?, now)?;
        if tracker.is_done() {
            return Ok(());
        }
        if more {
            continue;
        }
        if now.since(moved_at) > STILL {
            correct(store, tracker).await?;
            moved_at = now;
            if let Some(why) =
                why_still(store, tracker, now).await?.filter(|why| told.as_ref() != Some(why))
            {
                show.stuck(&why)?;
                told = Some(why);
            }
        }
        tokio::time::sleep(SHORTEST).await;
        news.wait(LONGEST).await;
    }
}

async fn services(
    store: &dyn Store,
    show: &Show,
    now: Timestamp,
) -> Result<Vec<ServiceView>, Trouble> {
    if !matches!(show, Show::Bars(_)) {
        return Ok(Vec::new());
    }
    let services = store.services(now).await?;
    Ok(services.iter().map(|service| ServiceView::new(service, now)).collect())
}

/// Looks at unfinished jobs themselves, should an event have been missed.
async fn correct(store: &dyn Store, tracker: &mut Tracker) -> Result<(), Trouble> {
    let unfinished = tracker.unfinished(PAGE);
    for job in store.get(unfinished).await?.into_iter().flatten() {
        tracker.correct(&job);
    }
    Ok(())
}

/// Why nothing moves, if nothing runs.
async fn why_still(
    store: &dyn Store,
    tracker: &Tracker,
    now: Timestamp,
) -> Result<Option<String>, Trouble> {
    if tracker.counts().running > 0 {
        return Ok(None);
    }
    let Some((id, name)) = tracker.in_phase(Phase::Waiting, 1).pop() else { return Ok(None) };
    let reasons = store.why(now, id).await?;
    let first = reasons.first().map(crate::view::ReasonView::from);
    Ok(first.map(|reason| format!("{name}: {}", verbs::why::words(&reason, now))))
}
