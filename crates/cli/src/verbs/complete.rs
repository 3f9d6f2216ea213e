//! `runcue __complete`: words for the shell's completion, within a tenth of a second or not at all.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use clap::ValueEnum;
use runcue_core::{Job, JobFilter};
use runcue_store::{ListRequest, Store};

use crate::app::App;
use crate::exit::Exit;
use crate::trouble::Trouble;
use crate::words;

/// A person waits for the shell; later than this nothing is better than something.
const BUDGET: Duration = Duration::from_millis(100);
const JOBS: usize = 200;

/// Flags of `__complete`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    kind: Kind,
    #[arg(default_value = "", allow_hyphen_values = true)]
    prefix: String,
    /// After a tab, what each word is about
    #[arg(long)]
    describe: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Kind {
    Ids,
    Groups,
    Tasks,
    Services,
}

/// Prints words that begin with what was typed.
pub async fn run(args: Args, app: &App) -> Result<Exit, Trouble> {
    let Ok(address) = app.address() else { return Ok(Exit::Ok) };
    let (answer, answered) = mpsc::channel();
    // A thread of its own: opening a store may block, and the budget holds for that as well.
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let Ok(runtime) = runtime else { return };
        let found = runtime.block_on(async {
            let store = crate::store::open(&address, crate::store::Access::Existing)?;
            find(&*store, &args).await
        });
        let _ = answer.send(found);
    });
    if let Ok(Ok(lines)) = answered.recv_timeout(BUDGET)
        && !lines.is_empty()
    {
        app.out.say(lines.join("\n"))?;
    }
    Ok(Exit::Ok)
}

async fn find(store: &dyn Store, args: &Args) -> Result<Vec<String>, Trouble> {
    let names: Vec<String> = match args.kind {
        Kind::Ids => return ids(store, args).await,
        Kind::Groups => {
            let groups = store.groups().await?;
            groups.into_iter().filter_map(|group| group.name).map(|name| name.to_string()).collect()
        }
        Kind::Tasks => store.tasks().await?.into_iter().map(|task| task.name.to_string()).collect(),
        Kind::Services => {
            let services = store.services(crate::clock::now()).await?;
            services.into_iter().map(|service| service.spec.name.to_string()).collect()
        }
    };
    Ok(names.into_iter().filter(|name| name.starts_with(&args.prefix)).collect())
}

/// The short form where it fits what was typed, else the whole id.
async fn ids(store: &dyn Store, args: &Args) -> Result<Vec<String>, Trouble> {
    let request = ListRequest { filter: JobFilter::default(), before: None, limit: JOBS };
    let jobs = store.list(request).await?.rows;
    let word = |job: &Job| {
        let short = words::short(job.id());
        let whole = job.id().to_string();
        [short, whole].into_iter().find(|form| form.starts_with(&args.prefix))
    };
    let line = |job: &Job| {
        let word = word(job)?;
        Some(match args.describe {
            true => format!("{word}\t{} {}", job.life.state.word(), words::about(job, 40)),
            false => word,
        })
    };
    Ok(jobs.iter().filter_map(line).collect())
}
