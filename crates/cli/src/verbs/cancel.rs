//! `runcue cancel`: withdraws jobs. Queued ones are gone at once, running ones are asked to stop.

use runcue_core::{Job, StateWord};

use crate::app::App;
use crate::chosen::{self, Choice};
use crate::clock;
use crate::exit::Exit;
use crate::trouble::Trouble;

/// States that a job can be cancelled in.
const LIVE: [StateWord; 3] = [StateWord::Queued, StateWord::Leased, StateWord::Running];

/// Flags of `cancel`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    choice: Choice,
    /// Every queued job
    #[arg(long, conflicts_with_all = ["ids", "group", "task"])]
    all: bool,
    /// In bulk: running jobs too, not only queued ones
    #[arg(long, conflicts_with = "ids")]
    running: bool,
    /// Cancel the jobs that wait for them too; otherwise those fail
    #[arg(long)]
    cascade: bool,
}

/// Withdraws jobs.
pub async fn run(args: Args, app: &App) -> Result<Exit, Trouble> {
    args.choice.require(args.all, "--all")?;
    let store = app.store()?;
    let bulk = if args.running { &LIVE[..] } else { &LIVE[..1] };
    let (filter, named) = args.choice.filter(&*store, bulk).await?;
    if args.choice.dry_run {
        let states = if named.is_empty() { bulk } else { &LIVE[..] };
        chosen::rehearse(app, &*store, filter, states, "would cancel").await?;
        return Ok(Exit::Ok);
    }
    let count = store.cancel(clock::now(), filter, args.cascade).await?;
    let ended = |job: &&Job| job.life.state.word().is_final();
    let untouched: Vec<&Job> = named.iter().filter(ended).collect();
    chosen::tell(app, count, "cancelled", &untouched)?;
    if named.iter().any(|job| job.life.state.lease().is_some()) {
        app.out.note("running jobs were asked to stop; `runcue show` tells when they have");
    }
    Ok(Exit::Ok)
}
