//! `runcue queues`: every queue with its depth; `runcue queues set` changes its cap while it is in use.

use clap::{Subcommand, ValueEnum};
use comfy_table::{Cell, Color};
use runcue_core::{OnFull, QueueName, QueueSpec};
use runcue_store::QueueInfo;

use crate::app::App;
use crate::exit::Exit;
use crate::trouble::Trouble;
use crate::value::{self, Limit};
use crate::view::{QueueView, QueuesView};
use crate::{clock, table, words};

/// Flags of `queues`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List queues
    List,
    /// Set the cap of a queue, what happens beyond it, or its pause
    Set(SetArgs),
}

#[derive(Debug, clap::Args)]
struct SetArgs {
    /// The queue
    name: QueueName,
    /// The most jobs that may wait in it, or none
    #[arg(long, value_name = "N", value_parser = value::limit::<u64>)]
    max_queued: Option<Limit<u64>>,
    /// What happens to a job beyond that: reject, drop_oldest or block
    #[arg(long, value_name = "RULE", hide_possible_values = true)]
    on_full: Option<Rule>,
    /// Hand nothing of it out
    #[arg(long, conflicts_with = "resume")]
    pause: bool,
    /// Hand its jobs out again
    #[arg(long)]
    resume: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
#[value(rename_all = "snake_case")]
enum Rule {
    /// It is refused.
    Reject,
    /// The oldest waiting jobs are cancelled to make room.
    DropOldest,
    /// The submitter waits for room.
    Block,
}

impl From<Rule> for OnFull {
    fn from(rule: Rule) -> Self {
        match rule {
            Rule::Reject => Self::Reject,
            Rule::DropOldest => Self::DropOldest,
            Rule::Block => Self::Block,
        }
    }
}

/// Lists queues or sets one.
pub async fn run(args: Args, app: &App) -> Result<Exit, Trouble> {
    match args.action {
        None | Some(Action::List) => {
            let queues = app.store()?.queues().await?;
            show(&queues, app)
        }
        Some(Action::Set(args)) => set(args, app).await,
    }
}

async fn set(args: SetArgs, app: &App) -> Result<Exit, Trouble> {
    let store = app.new_store()?;
    let queues = store.queues().await?;
    let known = queues.into_iter().find(|queue| queue.name == args.name);
    let old =
        known.unwrap_or_else(|| QueueInfo { name: args.name.clone(), ..QueueInfo::default() });
    let spec = QueueSpec {
        name: args.name.clone(),
        max_queued: args.max_queued.map_or(old.max_queued, Limit::get),
        on_full: args.on_full.map_or(old.on_full, OnFull::from),
        paused: (old.paused || args.pause) && !args.resume,
    };
    store.upsert_queues(clock::now(), vec![spec]).await?;
    let queues = store.queues().await?;
    let now: Vec<QueueInfo> = queues.into_iter().filter(|queue| queue.name == args.name).collect();
    show(&now, app)
}

fn show(queues: &[QueueInfo], app: &App) -> Result<Exit, Trouble> {
    if app.out.json {
        app.out.document(&QueuesView { queues: queues.iter().map(QueueView::from).collect() })?;
    } else if queues.is_empty() {
        app.out.note("there are no queues yet");
    } else {
        app.out.say(queues_table(queues))?;
    }
    Ok(Exit::Ok)
}

fn queues_table(queues: &[QueueInfo]) -> String {
    let mut table = table::new(&["QUEUE", "", "QUEUED", "CAP", "WHEN FULL"]);
    for queue in queues {
        let rule = match (queue.max_queued, queue.on_full) {
            (None, _) => "",
            (_, OnFull::Reject) => "reject",
            (_, OnFull::DropOldest) => "drop_oldest",
            (_, OnFull::Block) => "block",
        };
        table.add_row(vec![
            Cell::new(words::one_line(queue.name.as_str(), 40)),
            Cell::new(if queue.paused { "paused" } else { "" }).fg(Color::Yellow),
            table::number(queue.queued),
            queue.max_queued.map_or_else(|| table::dim("none"), table::number),
            Cell::new(rule),
        ]);
    }
    table::text(&table)
}
