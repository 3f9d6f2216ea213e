//! What can go wrong when a `Cue` is used. A variant tells the caller what to do.

use std::time::Duration;

use runcue_core::{JobId, NameError, StateWord, TaskName};
use runcue_store::StoreError;

/// Why a call did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The store refused or could not; its error says what to do.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A name is not acceptable.
    #[error(transparent)]
    Name(#[from] NameError),
    /// A value could not be written as JSON, or JSON could not be read into a type.
    #[error("{what}: {source}")]
    Json {
        /// Which value.
        what: &'static str,
        /// What was found.
        source: serde_json::Error,
    },
    /// A task has nothing that runs it.
    #[error("task {task} has no handler; give it one with Task::handler or Task::command")]
    NoHandler {
        /// The task.
        task: TaskName,
    },
    /// Two tasks have the same name.
    #[error("task {task} is defined twice")]
    TwiceDefined {
        /// The task.
        task: TaskName,
    },
    /// The result of a job that did not complete was asked for.
    #[error("job {id} is {state}, it has no result{}", because(.error))]
    NotCompleted {
        /// The job.
        id: JobId,
        /// Where it is.
        state: StateWord,
        /// Its latest error.
        error: Option<String>,
    },
    /// There was no room in the queue for as long as the caller would wait.
    #[error("the queue had no room for {0:?}; nothing was submitted")]
    NoRoom(Duration),
    /// A setting makes no sense.
    #[error("{setting}: {why}")]
    Setting {
        /// Which one.
        setting: &'static str,
        /// What is wrong with it, and the fix.
        why: String,
    },
    /// The cue was stopped; build a new one.
    #[error("the cue was stopped")]
    Stopped,
}

fn because(error: &Option<String>) -> String {
    error.as_ref().map(|error| format!(": {error}")).unwrap_or_default()
}

/// What every call answers.
pub type Result<T> = std::result::Result<T, Error>;
