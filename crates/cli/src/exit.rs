//! Exit codes: what a script may rely on. They do not change between releases.

use std::process::ExitCode;

/// Everything asked for was done, or there was nothing to do.
pub const OK: u8 = 0;
/// It was understood but did not work out: a job failed, there is no such job, the store refused.
pub const FAILED: u8 = 1;
/// It was not understood: wrong usage, a word that means nothing here, or a bad file.
pub const USAGE: u8 = 2;
/// Stopped by Ctrl-C or a signal before it was done. What was running is back in the queue.
pub const INTERRUPTED: u8 = 130;

/// How a verb ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// [`OK`]
    Ok,
    /// [`FAILED`]
    Failed,
    /// [`USAGE`]
    Usage,
    /// [`INTERRUPTED`]
    Interrupted,
}

impl Exit {
    /// Its number.
    pub fn code(self) -> u8 {
        match self {
            Self::Ok => OK,
            Self::Failed => FAILED,
            Self::Usage => USAGE,
            Self::Interrupted => INTERRUPTED,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}
