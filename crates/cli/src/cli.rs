//! The words: global flags and verbs, as clap reads them. What a verb does is in its file in `verbs`.

use std::path::PathBuf;

use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};

use crate::app::App;
use crate::exit::Exit;
use crate::trouble::Trouble;
use crate::verbs;

const EXAMPLES: &str = "\
Examples:
  runcue add -- convert in.png out.jpg    put a command in the queue, print its id
  runcue work --jobs 4 --drain            run what is there, four at a time, then leave
  runcue run jobs.yaml                    run a file of jobs; again after a crash: it goes on
  runcue why @last                        why the newest job does not run yet

Exit codes: 0 fine, 1 something failed, 2 wrong usage or a bad file, 130 interrupted.
A job is named by its id, by at least four digits from either end of it, or by @last.";

/// One durable work queue that starts as a file and grows into a fleet.
#[derive(Debug, Parser)]
#[command(name = "runcue", version, about, after_help = EXAMPLES, max_term_width = 100)]
#[command(propagate_version = true, subcommand_required = true, arg_required_else_help = true)]
pub struct Cli {
    /// Flags of every verb.
    #[command(flatten)]
    pub globals: Globals,
    /// What to do.
    #[command(subcommand)]
    pub verb: Verb,
}

/// Flags of every verb.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Global options")]
pub struct Globals {
    /// The store: sqlite:PATH, a bare path, lmdb:DIRECTORY, postgres://HOST/DATABASE, redis://HOST or memory: [env:
    /// RUNCUE_STORE] [default: sqlite:.runcue/queue.db]
    #[arg(long, global = true, value_name = "URL")]
    pub store: Option<String>,
    /// Answer in JSON: one document, or one per line for streams
    #[arg(long, global = true)]
    pub json: bool,
    /// The config file, instead of the one that is found
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Say nothing beside the result
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub quiet: bool,
    /// Say more; twice for even more
    #[arg(short, long, global = true, action = ArgAction::Count)]
    pub verbose: u8,
    /// When to use colours: auto, always or never
    #[arg(
        long,
        global = true,
        value_name = "WHEN",
        default_value = "auto",
        hide_default_value = true,
        hide_possible_values = true
    )]
    pub color: Color,
}

/// When to use colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// On a terminal, unless NO_COLOR is set.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

macro_rules! verbs {
    ($($(#[$doc:meta])* $name:ident => $module:ident,)*) => {
        /// What to do.
        #[derive(Debug, Subcommand)]
        pub enum Verb {
            $($(#[$doc])* $name(verbs::$module::Args),)*
        }

        impl Verb {
            /// Does it.
            pub async fn run(self, app: &App) -> Result<Exit, Trouble> {
                match self {
                    $(Self::$name(args) => verbs::$module::run(args, app).await,)*
                }
            }
        }
    };
}

verbs! {
    /// Run a file of jobs to completion; again, it goes on where it stopped
    Run => run,
    /// Put a job in the queue and print its id
    Add => add,
    /// Run what is queued
    Work => work,
    /// Show the queue at a glance
    Status => status,
    /// List jobs, newest first
    #[command(visible_alias = "ls")]
    List => list,
    /// Show everything about a job
    Show => show,
    /// Show what a job wrote
    Logs => logs,
    /// Say why a job waits
    Why => why,
    /// Send failed, cancelled or quarantined jobs round again
    Retry => retry,
    /// Withdraw jobs
    Cancel => cancel,
    /// Pause groups; running jobs finish
    Pause => pause,
    /// Resume paused groups
    Resume => resume,
    /// List groups and their jobs
    Groups => groups,
    /// List queues, or set their caps
    Queues => queues,
    /// List services and their use, or set their limits
    Services => services,
    /// List schedules and their next firings
    Schedules => schedules,
    /// Define, remove, pause or resume schedules
    Schedule => schedule,
    /// Show what happened, and follow what happens
    Events => events,
    /// Watch the queue on a full screen
    Watch => watch,
    /// A hub, a worker and the dashboard at once, for a first look
    Up => up,
    /// Serve the queue over HTTP, with a dashboard
    Serve => serve,
    /// Make, list and revoke the tokens of hubs
    Token => token,
    /// Tell receivers when jobs have ended: add, list and remove webhooks
    Webhook => webhook,
    /// Take jobs from a hub and run them on this machine
    Worker => worker,
    /// Copy a queue to another store and verify the copy; again, it goes on where it stopped
    Move => r#move,
    /// Copy the queue into a new SQLite file
    Backup => backup,
    /// Make the schema of a store, or bring it up to date
    Migrate => migrate,
    /// Look for what is wrong
    Doctor => doctor,
    /// Print a completion script for a shell
    Completions => completions,
    /// Words for a shell's completion
    #[command(name = "__complete", hide = true)]
    Complete => complete,
}
