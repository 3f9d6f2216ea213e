//! `runcue schedule`: defines, removes, pauses and resumes schedules. `runcue schedules` lists them.

use clap::{Subcommand, ValueEnum};
use runcue_core::{Missed, Overlap, ScheduleName, ScheduleSpec, Timetable};
use runcue_store::{ScheduleInfo, Store};

use super::schedules::show;
use crate::app::App;
use crate::exit::Exit;
use crate::job_args::JobArgs;
use crate::trouble::Trouble;
use crate::{clock, known};

/// How many firings are shown of a schedule that was just defined.
const SHOWN: usize = 3;

/// Flags of `schedule`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
#[expect(clippy::large_enum_variant, reason = "one is made per process")]
enum Action {
    /// Define a schedule, or define it anew
    Add(AddArgs),
    /// Remove schedules; jobs they have submitted stay
    #[command(visible_alias = "rm")]
    Remove(NamesArgs),
    /// Let schedules not fire; what they would have done meanwhile is not made up for
    Pause(NamesArgs),
    /// Let schedules fire again, from their next instant on
    Resume(NamesArgs),
}

#[derive(Debug, clap::Args)]
struct NamesArgs {
    /// The schedules
    #[arg(value_name = "NAME", required = true)]
    names: Vec<String>,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  runcue schedule add backup --cron '0 3 * * *' --zone Europe/Berlin -- ./backup.sh
  runcue schedule add poll --cron '*/5 * * * *' --overlap skip --timeout 4m -- ./poll.sh
  runcue schedule add report --cron '@weekly' --task report --missed once

A schedule fires while somebody works on the queue: runcue work.")]
struct AddArgs {
    /// What it is called
    name: ScheduleName,
    /// When: minute hour day-of-month month day-of-week, with seconds in front if there are six; or @hourly,
    /// @daily, @weekly, @monthly, @yearly
    #[arg(long, value_name = "EXPRESSION")]
    cron: String,
    /// The time zone, by its IANA name
    #[arg(long, value_name = "ZONE", default_value = "UTC")]
    zone: String,
    /// Firings that nobody was there for: skip them, make up for them once, or for all
    #[arg(long, value_name = "RULE", default_value = "skip", hide_possible_values = true)]
    missed: MissedWord,
    /// While the last job is not finished: allow another, or skip the firing
    #[arg(long, value_name = "RULE", default_value = "allow", hide_possible_values = true)]
    overlap: OverlapWord,
    /// Do not let it fire yet
    #[arg(long)]
    paused: bool,
    #[command(flatten)]
    job: JobArgs,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum MissedWord {
    /// Nothing.
    Skip,
    /// One firing for all of them.
    Once,
    /// Each of them.
    All,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum OverlapWord {
    /// Another job.
    Allow,
    /// None.
    Skip,
}

/// Changes schedules.
pub async fn run(args: Args, app: &App) -> Result<Exit, Trouble> {
    match args.action {
        Action::Add(args) => add(args, app).await,
        Action::Remove(args) => remove(&args, app).await,
        Action::Pause(args) => set_paused(&args, true, app).await,
        Action::Resume(args) => set_paused(&args, false, app).await,
    }
}

async fn add(args: AddArgs, app: &App) -> Result<Exit, Trouble> {
    if args.job.is_empty() {
        return Err(Trouble::usage("there is nothing to schedule")
            .help("end with `-- COMMAND ARG…`, or name a stored task with --task"));
    }
    // Before a store is made for it.
    Timetable::parse(&args.cron, &args.zone).map_err(|error| Trouble::usage(error.to_string()))?;
    let store = app.new_store()?;
    let now = clock::now();
    let job = args.job.job(&*store, now).await?;
    let missed = match args.missed {
        MissedWord::Skip => Missed::Skip,
        MissedWord::Once => Missed::Once,
        MissedWord::All => Missed::All,
    };
    let overlap = match args.overlap {
        OverlapWord::Allow => Overlap::Allow,
        OverlapWord::Skip => Overlap::Skip,
    };
    let spec = ScheduleSpec {
        zone: args.zone,
        missed,
        overlap,
        paused: args.paused,
        ..ScheduleSpec::new(args.name.clone(), args.cron, job)
    };
    store.upsert_schedules(now, vec![spec]).await?;
    let now: Vec<ScheduleInfo> = named(&*store, &[args.name.to_string()]).await?;
    show(&now, SHOWN, app)
}

async fn remove(args: &NamesArgs, app: &App) -> Result<Exit, Trouble> {
    let store = app.store()?;
    let schedules = named(&*store, &args.names).await?;
    for schedule in &schedules {
        store.remove_schedule(clock::now(), schedule.spec.name.clone()).await?;
    }
    if app.out.json {
        return show(&schedules, 0, app);
    }
    for schedule in &schedules {
        app.out.say(format!("schedule {} is removed; its jobs stay", schedule.spec.name))?;
    }
    Ok(Exit::Ok)
}

async fn set_paused(args: &NamesArgs, paused: bool, app: &App) -> Result<Exit, Trouble> {
    let store = app.store()?;
    let schedules = named(&*store, &args.names).await?;
    let change = |info: ScheduleInfo| ScheduleSpec { paused, ..info.spec };
    store.upsert_schedules(clock::now(), schedules.into_iter().map(change).collect()).await?;
    show(&named(&*store, &args.names).await?, SHOWN, app)
}

/// The schedules of these names, all of which must be there.
async fn named(store: &dyn Store, names: &[String]) -> Result<Vec<ScheduleInfo>, Trouble> {
    let all = store.schedules().await?;
    let known: Vec<&str> = all.iter().map(|info| info.spec.name.as_str()).collect();
    if let Some(missing) = names.iter().find(|name| !known.contains(&name.as_str())) {
        return Err(known::missing("schedule", missing, &known));
    }
    let wanted = |info: &ScheduleInfo| names.iter().any(|name| name == info.spec.name.as_str());
    Ok(all.into_iter().filter(wanted).collect())
}
