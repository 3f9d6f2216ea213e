//! Running commands: a cue over a store, the guard that outlives us, and the way it all stops.
//!
//! ```text
//! first Ctrl-C:  no more claims ─▶ running jobs may finish, for as long as the grace says
//! second:        the rest is stopped and handed back; its attempts are not counted
//! third:         leave at once; the guard kills what is left
//! ```

mod commands;
mod interrupt;
mod known_tasks;

use std::sync::Arc;
use std::time::Duration;

use runcue_core::{ClaimFilter, TaskName, TaskSpec};
use runcue_engine::{Cue, CueBuilder, Task, Tracer};
use runcue_store::{Keep, Retention, Store};

use crate::config;
use crate::exit::INTERRUPTED;
use crate::job_args::COMMAND;
use crate::out::Out;
use crate::stored_task::StoredTask;
use crate::trouble::Trouble;
use crate::words;

pub use commands::{Commands, guard_main, start_guard};
pub use interrupt::{Interrupt, Signal};
pub use known_tasks::{follow_tasks, is_wanted, runnable};

/// How long running jobs may go on after the first Ctrl-C.
pub const GRACE: Duration = Duration::from_secs(30);

/// How a runner is set up.
#[derive(Debug)]
pub struct Setup {
    /// How many jobs run at once.
    pub slots: usize,
    /// What people call this worker.
    pub name: Option<String>,
    /// Only such jobs.
    pub filter: ClaimFilter,
    /// How long finished jobs are kept.
    pub retention: Option<config::Retention>,
    /// How long running jobs may go on after the first Ctrl-C.
    pub grace: Duration,
    /// How long others wait for us when we are silent, before they take our jobs over.
    pub lease: Duration,
    /// What makes spans of their attempts.
    pub tracer: Tracer,
}

/// Runs jobs until it is stopped.
pub struct Runner {
    /// The engine.
    pub cue: Cue,
    /// What runs their commands.
    pub commands: Arc<Commands>,
    grace: Duration,
    out: Out,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// There was nothing left to do.
    Done,
    /// Somebody stopped it.
    Stopped(Signal),
}

impl Runner {
    /// Makes a runner that knows these tasks; nothing runs before [`Runner::start`].
    pub async fn new(
        store: Arc<dyn Store>,
        commands: Arc<Commands>,
        tasks: Vec<(TaskSpec, Option<StoredTask>)>,
        setup: Setup,
        out: Out,
    ) -> Result<Self, Trouble> {
        let mut builder: CueBuilder = Cue::builder_on(store)
            .slots(setup.slots)
            .filter(setup.filter)
            .lease(setup.lease)
            .heartbeat(setup.lease / 3)
            .tracer(setup.tracer)
            // The waiting is done here, where a second Ctrl-C can end it.
            .stop_grace(Duration::ZERO)
            .retention(Some(retention(setup.retention)));
        if let Some(name) = setup.name {
            builder = builder.worker_name(name);
        }
        for (spec, stored) in tasks {
            builder = builder.task(commands.task(spec, stored));
        }
        let cue = builder.build().await.map_err(trouble)?;
        if let Some(presence) = cue.store().presence(cue.worker()) {
            commands.keep_open(presence);
        }
        Ok(Self { cue, commands, grace: setup.grace, out })
    }

    /// Begins to run jobs.
    pub fn start(&self) {
        self.cue.start();
    }

    /// Goes on until `done` is, or somebody stops it; then stops in good order.
    pub async fn until(
        self,
        done: impl Future<Output = Result<(), Trouble>>,
    ) -> Result<Ended, Trouble> {
        let mut interrupt = Interrupt::new()?;
        let ended = tokio::select! {
            done = done => done.map(|()| Ended::Done),
            signal = interrupt.next() => Ok(Ended::Stopped(signal)),
        };
        self.cue.set_slots(0);
        let running = self.commands.running();
        if matches!(ended, Ok(Ended::Stopped(_))) && running > 0 {
            let jobs = words::count(running as u64, "running job");
            let grace = words::span(self.grace);
            self.out.note(format!(
                "stopping: waiting up to {grace} for {jobs}; Ctrl-C again stops them now"
            ));
        }
        let stopped = tokio::select! {
            () = self.commands.idle() => None,
            () = tokio::time::sleep(self.grace) => None,
            signal = interrupt.next() => Some(signal),
        };
        tokio::select! {
            stopped = self.cue.stop() => stopped.map_err(trouble)?,
            _ = interrupt.next() => leave_at_once(),
        }
        match (ended, stopped) {
            (Ok(Ended::Done), Some(signal)) => Ok(Ended::Stopped(signal)),
            (ended, _) => ended,
        }
    }
}

/// Nothing is dropped, so the guard is not dismissed and kills what we started.
fn leave_at_once() -> ! {
    std::process::exit(i32::from(INTERRUPTED))
}

/// The task of jobs that are only a command.
pub fn command_task() -> Result<TaskSpec, Trouble> {
    Ok(TaskSpec::new(TaskName::new(COMMAND)?))
}

/// A task with what runs it.
pub(crate) fn handled(commands: &Arc<Commands>, spec: TaskSpec, stored: StoredTask) -> Task {
    commands.task(spec, Some(stored))
}

/// How many jobs run at once: as said, or as many as there are processors.
pub fn slots(flag: Option<u32>, file: Option<u32>, config: Option<u32>) -> usize {
    let said = flag.or(file).or(config).and_then(|slots| usize::try_from(slots).ok());
    said.unwrap_or_else(|| std::thread::available_parallelism().map_or(4, usize::from))
}

/// What an engine cannot do, in words.
pub fn trouble(error: runcue_engine::Error) -> Trouble {
    match error {
        runcue_engine::Error::Store(error) => error.into(),
        other => Trouble::failed(other.to_string()),
    }
}

/// How long things are kept, by what the config file says of it.
pub fn retention(said: Option<config::Retention>) -> Retention {
    let plain = Retention::default();
    let Some(said) = said else { return plain };
    let keep = |own: Option<config::Keep>, plain: Keep| {
        let own = own.unwrap_or_default();
        Keep {
            age: own.age.or(said.all.age).unwrap_or(plain.age),
            count: own.count.or(said.all.count).unwrap_or(plain.count),
        }
    };
    Retention {
        completed: keep(said.completed, plain.completed),
        cancelled: keep(said.cancelled, plain.cancelled),
        failed: keep(said.failed, plain.failed),
        events: keep(said.events, plain.events),
        usage: said.usage.unwrap_or(plain.usage),
    }
}
