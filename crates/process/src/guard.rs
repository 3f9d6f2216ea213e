//! Making sure that nothing we started outlives us, even when we are killed with SIGKILL.
//!
//! ```text
//!   parent ──pipe──▶ guard        the guard reads; only the parent holds the other end
//!     │
//!     └─ children, grandchildren …  all carry RUNCUE_INSTANCE=<id> in their environment
//!
//!   "bye\n", then EOF   the parent leaves in good order: the guard leaves too
//!   EOF alone           the parent is dead: kill whoever carries the mark, until nobody does
//! ```
//!
//! One guard process per parent, and nothing per command but an environment variable. A death signal
//! (`PR_SET_PDEATHSIG`) would reach neither grandchildren nor, without `unsafe`, children.
//!
//! Owns the guard's life and the mark. Who gets the mark is the caller's choice ([`Guard::mark`]); ending commands in
//! good order is `run`'s.
//!
//! What it does not promise: a process that clears its environment *and* leaves its group or leads one of its own is
//! not found, nor is one that became another user's. A parent that forks without executing (Python's
//! `multiprocessing` in fork mode) hands the pipe on: the guard then waits for that copy to end as well. On macOS and
//! Windows nothing is swept ([`SWEEPS`] is false): the environment of another process cannot be read there without
//! `unsafe`.

use std::io::{self, Read, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::command::CommandSpec;

#[cfg(target_os = "linux")]
mod sweep;

/// The environment variable that marks a process as ours.
pub const MARK: &str = "RUNCUE_INSTANCE";

/// Whether a guard on this platform can find and kill what its parent left behind.
pub const SWEEPS: bool = cfg!(target_os = "linux");

const BYE: &[u8] = b"bye\n";

/// How long a dismissed guard may take to leave before we stop waiting for it.
const FAREWELL: Duration = Duration::from_secs(1);

/// Our hold on the guard process. Dropping it dismisses the guard; ending without dropping it (a crash, SIGKILL,
/// `std::process::exit`) makes the guard sweep.
#[derive(Debug)]
pub struct Guard {
    command: Command,
    instance: String,
    process: Child,
}

impl Guard {
    /// Starts a guard with `command`, whose program must call [`watch`] with its last argument, which is `instance`
    /// and is appended here, and its standard input.
    ///
    /// The guard leads a process group of its own, so Ctrl-C does not reach it; it holds none of our streams; it does
    /// not carry the mark of a guard further up, which would otherwise take it down before its time.
    ///
    /// # Errors
    /// `instance` is empty or holds a NUL byte or a line break, or the guard could not be started.
    pub fn start(mut command: Command, instance: impl Into<String>) -> io::Result<Self> {
        let instance = instance.into();
        if instance.is_empty() || instance.contains(['\0', '\n']) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        command
            .arg(&instance)
            .env_remove(MARK)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let process = command.spawn()?;
        Ok(Self { command, instance, process })
    }

    /// The id that marks our processes.
    #[must_use]
    pub fn instance(&self) -> &str {
        &self.instance
    }

    /// The guard's process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Marks a command, so that it and what it starts do not outlive us.
    pub fn mark(&self, spec: &mut CommandSpec) {
        spec.env.push((MARK.to_owned(), self.instance.clone()));
    }

    /// Gives the guard something to keep open until its work is done, by starting it anew: from now on, what
    /// is known by that file being open is known until nothing that we started is left.
    ///
    /// # Errors
    /// The new guard could not be started; [`Guard::ensure`] tries again.
    pub fn keep_open(&mut self, file: std::fs::File) -> io::Result<()> {
        // Its standard output is a place for a file that nothing is ever written to.
        self.command.stdout(file);
        self.dismiss();
        self.process = self.command.spawn()?;
        Ok(())
    }

    fn dismiss(&mut self) {
        if let Some(mut pipe) = self.process.stdin.take() {
            // It may have died before us: then there is nobody to dismiss.
            let _ = pipe.write_all(BYE);
        }
        let deadline = Instant::now() + FAREWELL;
        while matches!(self.process.try_wait(), Ok(None)) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Starts another guard if this one died. Returns whether it had to.
    ///
    /// # Errors
    /// The new guard could not be started; the next call tries again.
    pub fn ensure(&mut self) -> io::Result<bool> {
        if self.process.try_wait()?.is_none() {
            return Ok(false);
        }
        tracing::warn!(pid = self.process.id(), "the guard process died, starting another");
        self.process = self.command.spawn()?;
        Ok(true)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.dismiss();
    }
}

/// Makes us deaf to the signals that end a process politely, for as long as the answer is kept: a guard whose
/// parent dies while it is itself stopped gets a hang-up from the kernel at that very moment.
#[cfg(unix)]
fn deaf() -> Option<(tokio::runtime::Runtime, Vec<tokio::signal::unix::Signal>)> {
    use tokio::signal::unix::{SignalKind, signal};
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().ok()?;
    let kinds = [SignalKind::hangup(), SignalKind::interrupt(), SignalKind::terminate()];
    let signals = {
        let _inside = runtime.enter();
        kinds.into_iter().filter_map(|kind| signal(kind).ok()).collect()
    };
    Some((runtime, signals))
}

/// Nothing of the kind is needed.
#[cfg(not(unix))]
fn deaf() {}

/// How a guard's watch ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watched {
    /// The parent left in good order.
    Dismissed,
    /// The parent died, and so many signals were needed until nothing was left of it.
    Swept {
        /// Processes that were killed; one that showed up in two scans counts twice.
        killed: usize,
    },
    /// The parent died, and something may be left: it cannot be killed, or not be found on this platform.
    Left,
}

/// The guard's main function: waits for the parent to leave or to die, and in the latter case kills every process
/// marked with `instance`. Blocks; the program should exit when it returns.
pub fn watch(instance: &str, mut parent: impl Read) -> Watched {
    let _deaf = deaf();
    let mut last = Vec::new();
    let mut chunk = [0; 64];
    loop {
        match parent.read(&mut chunk) {
            Ok(read @ 1..) => {
                last.extend_from_slice(&chunk[..read]);
                last.drain(..last.len().saturating_sub(BYE.len()));
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // An unreadable pipe is as final as a closed one.
            Ok(0) | Err(_) => break,
        }
    }
    if last == BYE {
        return Watched::Dismissed;
    }
    #[cfg(target_os = "linux")]
    return sweep::until_clean(instance);
    #[cfg(not(target_os = "linux"))]
    {
        let _ = instance;
        Watched::Left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parent_that_says_bye_is_not_swept_after() {
        assert_eq!(watch("nobody", &b"bye\n"[..]), Watched::Dismissed);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_parent_that_just_vanishes_is_swept_after() {
        assert_eq!(watch("nobody", &b""[..]), Watched::Swept { killed: 0 });
        assert_eq!(watch("nobody", &b"by"[..]), Watched::Swept { killed: 0 });
    }

    #[test]
    fn an_instance_has_to_be_one_word() {
        for instance in ["", "a\0b", "a\nb"] {
            assert!(Guard::start(Command::new("true"), instance).is_err());
        }
    }
}
