//! What runs the commands of jobs: each marked for the guard, told which job it is for, and counted while
//! it runs.

use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use runcue::Address;
use runcue_core::{Json, TaskSpec};
use runcue_engine::{Failure, Handler, Task, Work, run_command};
use runcue_process::{CommandSpec, Guard, Limits, guard};
use serde::Deserialize;
use std::collections::BTreeMap;
use tokio::sync::watch;

use crate::clock;
use crate::out::Out;
use crate::stored_task::StoredTask;
use crate::trouble::Trouble;

/// The hidden verb that a guard process is started with.
pub const GUARD_VERB: &str = "__guard";

/// Beyond its grace, a killed process may take this long to be gone.
const REAP: Duration = Duration::from_secs(6);

/// Runs commands.
pub struct Commands {
    guard: Mutex<Option<Guard>>,
    store: String,
    running: watch::Sender<usize>,
    limits: Limits,
    out: Out,
}

impl Commands {
    /// Starts the guard, so that nothing we start outlives us.
    pub fn start(address: &Address, out: Out) -> Result<Arc<Self>, Trouble> {
        let guard = start_guard()?;
        Ok(Arc::new(Self {
            guard: Mutex::new(Some(guard)),
            store: address.clone().absolute().url(),
            running: watch::Sender::new(0),
            limits: Limits::default(),
            out,
        }))
    }

    /// How many run now.
    pub fn running(&self) -> usize {
        *self.running.borrow()
    }

    /// Waits until none runs.
    pub async fn idle(&self) {
        // The sender is ours, so this cannot fail.
        let _ = self.running.subscribe().wait_for(|running| *running == 0).await;
    }

    /// A task with what runs its jobs: its own definition, or the command in their params.
    pub fn task(self: &Arc<Self>, spec: TaskSpec, stored: Option<StoredTask>) -> Task {
        let commands = Arc::clone(self);
        Task::from_spec(spec).handled_by(CommandTask { commands, stored })
    }

    /// Marks a command and tells it which job it is for. A nested `runcue add` reaches the same queue.
    fn prepare(&self, spec: &mut CommandSpec, work: &Work) {
        let told = [
            ("RUNCUE_STORE", self.store.clone()),
            ("RUNCUE_JOB_ID", work.id().to_string()),
            ("RUNCUE_ATTEMPT", work.attempt().to_string()),
        ];
        let told = told.into_iter().map(|(name, value)| (name.to_owned(), value));
        spec.env.splice(0..0, told);
        let mut guard = self.guard.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(guard) = &mut *guard {
            // Without a guard the job still runs; only a SIGKILL of ours would leave it behind.
            if let Err(error) = guard.ensure() {
                self.out.detail(format!("the guard could not be started again: {error}"));
            }
            guard.mark(spec);
        }
    }

    fn enter(&self) -> Running<'_> {
        self.running.send_modify(|running| *running += 1);
        Running(self)
    }
}

impl Commands {
    /// Lets the guard show that we are still there until nothing that we started is left.
    pub fn keep_open(&self, presence: std::fs::File) {
        let mut guard = self.guard.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(guard) = &mut *guard
            && let Err(error) = guard.keep_open(presence)
        {
            self.out.detail(format!("the guard could not be started again: {error}"));
        }
    }
}

/// Counts a command until it is dropped, however that comes.
struct Running<'a>(&'a Commands);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.running.send_modify(|running| *running = running.saturating_sub(1));
    }
}

/// Starts a guard process, so that nothing we start outlives us.
pub fn start_guard() -> Result<Guard, Trouble> {
    let cannot = |error: std::io::Error| {
        Trouble::failed(format!("the guard process cannot be started: {error}"))
    };
    let mut command = Command::new(std::env::current_exe().map_err(cannot)?);
    command.arg(GUARD_VERB);
    let instance = clock::new_id(clock::now())?;
    Guard::start(command, instance.to_string()).map_err(cannot)
}

/// The whole of a guard process, if that is what we are.
pub fn guard_main() -> Option<()> {
    let mut words = std::env::args().skip(1);
    if words.next()? != GUARD_VERB {
        return None;
    }
    guard::watch(&words.next()?, std::io::stdin().lock());
    Some(())
}

struct CommandTask {
    commands: Arc<Commands>,
    stored: Option<StoredTask>,
}

/// The params of a job that is only a command.
#[derive(Deserialize)]
struct CommandParams {
    run: Vec<String>,
    #[serde(default)]
    cwd: Option<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
}

impl CommandTask {
    fn command(&self, work: &Work) -> Result<CommandSpec, Failure> {
        let (argv, env, cwd) = match &self.stored {
            Some(stored) => {
                let filled = stored.invocation(work.job(), work.attempt());
                let filled = filled.map_err(Failure::permanent)?;
                (filled.argv, filled.env, filled.cwd)
            }
            None => {
                let params: CommandParams = work.params()?;
                (params.run, params.env, params.cwd)
            }
        };
        if argv.is_empty() {
            return Err(Failure::permanent("there is no command to run"));
        }
        let cwd = cwd.map(Into::into);
        Ok(CommandSpec { argv, env: env.into_iter().collect(), cwd, stdin: None })
    }

    /// Errors that have a word the task retries on are known by that word.
    fn named(&self, failure: Failure) -> Failure {
        let text = failure.to_string();
        let mut words = self.stored.iter().flat_map(StoredTask::retry_words);
        match words.find(|word| text.contains(*word)) {
            Some(word) => failure.with_code(word),
            None => failure,
        }
    }
}

#[async_trait]
impl Handler for CommandTask {
    async fn run(&self, work: Work) -> Result<Json, Failure> {
        let _running = self.commands.enter();
        let mut spec = self.command(&work)?;
        self.commands.prepare(&mut spec, &work);
        let ended = run_command(&work, &spec, &self.commands.limits).await;
        ended.map_err(|failure| self.named(failure))
    }

    fn patience(&self) -> Duration {
        self.commands.limits.grace + REAP
    }
}
