//! What a person reads when something does not work: one line that says what, and one that says what to
//! do about it. Every error of a verb ends as a [`Trouble`].

use std::io;

use runcue_core::{JobId, NameError};
use runcue_store::StoreError;

use crate::exit::Exit;

/// Why a verb did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum Trouble {
    /// To be told.
    #[error("{says}")]
    Told {
        /// What is wrong.
        says: String,
        /// The fix.
        help: Option<String>,
        /// How the process ends.
        exit: Exit,
    },
    /// Whoever read our output has had enough; nothing to tell.
    #[error("the reader of the output is gone")]
    ReaderGone,
}

impl Trouble {
    /// It was understood but did not work out.
    pub fn failed(says: impl Into<String>) -> Self {
        Self::Told { says: says.into(), help: None, exit: Exit::Failed }
    }

    /// It was not understood.
    pub fn usage(says: impl Into<String>) -> Self {
        Self::Told { says: says.into(), help: None, exit: Exit::Usage }
    }

    /// The same, with the fix.
    #[must_use]
    pub fn help(self, fix: impl Into<String>) -> Self {
        match self {
            Self::Told { says, exit, .. } => Self::Told { says, help: Some(fix.into()), exit },
            gone => gone,
        }
    }

    /// How the process ends.
    pub fn exit(&self) -> Exit {
        match self {
            Self::Told { exit, .. } => *exit,
            Self::ReaderGone => Exit::Ok,
        }
    }

    /// There is no such job.
    pub fn no_job(id: JobId) -> Self {
        StoreError::NotFound(id).into()
    }
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::ReaderGone,
            _ => Self::failed(format!("the output cannot be written: {error}")),
        }
    }
}

impl From<NameError> for Trouble {
    fn from(error: NameError) -> Self {
        Self::usage(error.to_string())
    }
}

impl From<StoreError> for Trouble {
    fn from(error: StoreError) -> Self {
        let says = error.to_string();
        let help = match &error {
            StoreError::Unavailable(_) => {
                "try again in a moment; `runcue doctor` looks closer".into()
            }
            StoreError::UnknownService { service, .. } => {
                format!("define it first: runcue services set {service} --max-concurrent 5")
            }
            StoreError::NeverFits { service, units, .. } => format!(
                "raise the limit with `runcue services set {service} --rate {units}/min`, or ask for less"
            ),
            StoreError::UnknownPrerequisite { .. } | StoreError::NotFound(_) => {
                "`runcue list` shows the jobs that are there".into()
            }
            StoreError::KeyTaken { existing, .. } => {
                format!("send that job round again: runcue retry {existing}")
            }
            StoreError::Full { queue, max, .. } => format!(
                "wait, or raise its cap: runcue queues set {queue} --max-queued {}",
                max.saturating_mul(2)
            ),
            StoreError::Corrupt { .. } => {
                "stop the workers, keep a copy of the file and run `runcue doctor`".into()
            }
            StoreError::ReadOnly { .. } => {
                "check who owns the file and its directory, or name another with --store".into()
            }
            _ => return Self::failed(says),
        };
        Self::failed(says).help(help)
    }
}

/// A text that should have been JSON.
pub fn bad_json(what: &str, error: &serde_json::Error) -> Trouble {
    Trouble::usage(format!("{what} is not valid JSON: {error}"))
}
