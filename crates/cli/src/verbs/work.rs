//! `runcue work`: runs what is queued: commands, and jobs of the tasks that are stored with the queue.

use std::sync::Arc;
use std::time::Duration;

use runcue_core::{ClaimFilter, Event, EventKind, QueueName, WorkerId};
use runcue_engine::{Cue, Error};
use runcue_store::{Store, StoreError};
use serde::Serialize;

use crate::app::App;
use crate::exit::Exit;
use crate::job_args::COMMAND;
use crate::news::News;
use crate::runner::{self, Commands, Ended, Runner, Setup, follow_tasks, is_wanted, runnable};
use crate::trouble::Trouble;
use crate::verbs::events;
use crate::view::EventView;
use crate::{clock, value, words};

const PAGE: usize = 1_000;
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Flags of `work`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Any number of workers may run on one queue, in as many terminals as you like.
Ctrl-C once: finish what runs; twice: stop it and put it back; three times: leave at once.")]
pub struct Args {
    /// How many jobs run at once [default: the number of processors]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    jobs: Option<u32>,
    /// Leave when nothing is left that can make progress by itself
    #[arg(long)]
    drain: bool,
    /// Only jobs of this queue; may be repeated
    #[arg(long)]
    queue: Vec<QueueName>,
    /// Only jobs of this task; may be repeated
    #[arg(long)]
    task: Vec<String>,
    /// Only jobs of this project
    #[arg(long)]
    project: Option<String>,
    /// Only jobs with this label; with all of them, if repeated
    #[arg(long)]
    label: Vec<String>,
    /// What this worker is called [default: the name of the machine]
    #[arg(long)]
    name: Option<String>,
    /// How long running jobs may go on after the first Ctrl-C
    #[arg(long, value_name = "DURATION", value_parser = value::duration, default_value = "30s")]
    grace: Duration,
    /// How long others wait for this process when it is silent, before they take its jobs over
    #[arg(long, value_name = "DURATION", value_parser = value::lease, default_value = "30s")]
    lease: Duration,
}

/// What a worker did.
#[derive(Debug, Default, Serialize)]
struct Done {
    #[serde(rename = "type")]
    kind: &'static str,
    completed: u64,
    failed: u64,
    left: u64,
}

/// Runs what is queued.
pub async fn run(args: Args, app: &App) -> Result<Exit, Trouble> {
    let address = app.address()?;
    let store = app.new_store()?;
    let commands = Commands::start(&address, app.out)?;
    let known = runnable(&*store, &args.task).await?;
    let runner = make_runner(&args, app, &store, &commands, known.clone()).await?;
    let cue = runner.cue.clone();
    let mut diary = Diary {
        after: store.last_event().await?,
        worker: cue.worker(),
        app,
        done: Done::default(),
    };
    runner.start();
    let slots = runner::slots(args.jobs, None, app.config.jobs);
    app.out.note(format!("working on {address}, {slots} at a time; Ctrl-C stops"));
    let ended = {
        let done = async {
            tokio::select! {
                ended = follow_tasks(&*store, &cue, &commands, &args.task, known) => ended,
                ended = diary.follow(&*store) => ended,
                ended = drained(&cue), if args.drain => ended,
            }
        };
        runner.until(done).await?
    };
    diary.read(&*store).await?;
    let mut done = diary.done;
    done.kind = "summary";
    done.left = store.stats(clock::now()).await?.counts.live();
    tell(&done, &args, app)?;
    Ok(match ended {
        Ended::Stopped(signal) => signal.exit(),
        Ended::Done if done.failed > 0 => Exit::Failed,
        Ended::Done => Exit::Ok,
    })
}

async fn drained(cue: &Cue) -> Result<(), Trouble> {
    loop {
        match cue.drain().await {
            Err(Error::Store(StoreError::Unavailable(_))) => tokio::time::sleep(LOOK_AGAIN).await,
            ended => return ended.map_err(runner::trouble),
        }
    }
}

async fn make_runner(
    args: &Args,
    app: &App,
    store: &Arc<dyn Store>,
    commands: &Arc<Commands>,
    known: Vec<(runcue_core::TaskSpec, crate::stored_task::StoredTask)>,
) -> Result<Runner, Trouble> {
    let mut tasks: Vec<_> = known.into_iter().map(|(spec, stored)| (spec, Some(stored))).collect();
    if is_wanted(COMMAND, &args.task) {
        tasks.push((runner::command_task()?, None));
    }
    let filter = ClaimFilter {
        queues: args.queue.iter().cloned().collect(),
        project: args.project.clone(),
        labels: args.label.iter().cloned().collect(),
        ..ClaimFilter::default()
    };
    let setup = Setup {
        slots: runner::slots(args.jobs, None, app.config.jobs),
        name: args.name.clone(),
        filter,
        retention: app.config.retention,
        grace: args.grace,
        lease: args.lease,
        tracer: app.traces.tracer().clone(),
    };
    Runner::new(Arc::clone(store), Arc::clone(commands), tasks, setup, app.out).await
}

fn tell(done: &Done, args: &Args, app: &App) -> Result<(), Trouble> {
    if app.out.json {
        return app.out.record(done);
    }
    let failed = if done.failed > 0 { format!(", {} failed", done.failed) } else { String::new() };
    app.out.note(format!("{} completed{failed}", words::count(done.completed, "job")));
    if args.drain && done.left > 0 {
        let left = words::count(done.left, "job");
        app.out
            .note(format!("{left} left that cannot run here and now; ask one: runcue why @last"));
    }
    Ok(())
}

/// Why the diary could not be kept.
enum Unread {
    Store(StoreError),
    Output(Trouble),
}

impl From<StoreError> for Unread {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<Trouble> for Unread {
    fn from(trouble: Trouble) -> Self {
        Self::Output(trouble)
    }
}

impl From<Unread> for Trouble {
    fn from(unread: Unread) -> Self {
        match unread {
            Unread::Store(error) => error.into(),
            Unread::Output(trouble) => trouble,
        }
    }
}

/// What this worker did, as it happens.
struct Diary<'a> {
    after: u64,
    worker: WorkerId,
    app: &'a App,
    done: Done,
}

impl Diary<'_> {
    async fn follow(&mut self, store: &dyn Store) -> Result<(), Trouble> {
        let mut news = News::begin(store).await;
        loop {
            match self.read(store).await {
                // The engine keeps trying, and says so; what is missed here is read afterwards.
                Err(Unread::Store(StoreError::Unavailable(_))) => {}
                read => read?,
            }
            news.wait(LOOK_AGAIN).await;
        }
    }

    async fn read(&mut self, store: &dyn Store) -> Result<(), Unread> {
        loop {
            let events = store.events(self.after, PAGE).await?;
            let Some(last) = events.last() else { return Ok(()) };
            self.after = last.seq;
            let worker = self.worker;
            for event in events.iter().filter(|event| event.worker == Some(worker)) {
                self.note(event)?;
            }
        }
    }

    fn note(&mut self, event: &Event) -> Result<(), Trouble> {
        match event.kind {
            EventKind::Completed => self.done.completed += 1,
            EventKind::Failed => self.done.failed += 1,
            _ => {}
        }
        let out = self.app.out;
        if out.json {
            return out.record(&EventView::from(event));
        }
        let told = match event.kind {
            EventKind::Completed | EventKind::Failed | EventKind::Retrying => !out.quiet,
            _ => out.verbose > 0,
        };
        if told { out.say(events::line(event)) } else { Ok(()) }
    }
}
