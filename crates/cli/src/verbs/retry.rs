//! `runcue retry`: sends jobs that ended badly round again.

use runcue_core::{Job, StateWord};

use crate::app::App;
use crate::chosen::{self, Choice};
use crate::clock;
use crate::exit::Exit;
use crate::trouble::Trouble;

/// States that a named job can be retried from.
const ENDED: [StateWord; 3] = [StateWord::Failed, StateWord::Quarantined, StateWord::Cancelled];

/// Flags of `retry`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    choice: Choice,
    /// All jobs that failed or were quarantined
    #[arg(long, conflicts_with = "ids")]
    failed: bool,
    /// In bulk: cancelled jobs too, not only failed and quarantined ones
    #[arg(long, conflicts_with = "ids")]
    cancelled: bool,
}

/// Sends jobs round again.
pub async fn run(args: Args, app: &App) -> Result<Exit, Trouble> {
    args.choice.require(args.failed, "--failed")?;
    let store = app.store()?;
    let bulk = if args.cancelled { &ENDED[..] } else { &ENDED[..2] };
    let (filter, named) = args.choice.filter(&*store, bulk).await?;
    if args.choice.dry_run {
        let states = if named.is_empty() { bulk } else { &ENDED[..] };
        chosen::rehearse(app, &*store, filter, states, "would retry").await?;
        return Ok(Exit::Ok);
    }
    let count = store.retry(clock::now(), filter).await?;
    let can = |job: &&Job| !ENDED.contains(&job.life.state.word());
    let untouched: Vec<&Job> = named.iter().filter(can).collect();
    chosen::tell(app, count, "retrying", &untouched)?;
    Ok(Exit::Ok)
}
