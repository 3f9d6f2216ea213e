//! Running one command: within its limits, whatever it does with its output and its children.
//!
//! Owns the time a command takes: reading while it runs, SIGTERM, grace, SIGKILL, and the bounded wait for the
//! output of what it left behind. Decides nothing about trying again. The engine's subprocess executor calls it.
//!
//! Everything happens in the caller's task: no thread, no task and no helper process per command.

use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tokio::time::{sleep_until, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::capture::Captured;
use crate::command::CommandSpec;
use crate::group::Group;
use crate::progress::Line;
use crate::spawn::SpawnError;

use pump::Pump;

mod pump;

/// How long we keep reading after the command ended, when something it left behind holds its output open.
const DRAIN: Duration = Duration::from_millis(250);

/// How long a killed process may take to go. One that hangs in the kernel must not hang us.
const REAP: Duration = Duration::from_secs(5);

/// What a command may use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// How many bytes of each stream are kept: the last ones.
    pub output_bytes: usize,
    /// How long the command may take to end after SIGTERM, before SIGKILL.
    pub grace: Duration,
    /// How long the command may run; for ever if absent.
    pub timeout: Option<Duration>,
}

impl Default for Limits {
    /// 64 KiB of each stream, ten seconds of grace, no timeout.
    fn default() -> Self {
        Self { output_bytes: 64 * 1024, grace: Duration::from_secs(10), timeout: None }
    }
}

/// One of the two streams a command writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// What a running command just wrote.
#[derive(Clone, Debug, PartialEq)]
pub enum Output<'a> {
    /// Some bytes as they came, never ending inside a UTF-8 character.
    Chunk(Stream, &'a [u8]),
    /// A report on standard output (see [`crate::progress`]), after the chunk that completed it.
    Line(Line),
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Exit {
    /// By itself, with this code.
    Code(i32),
    /// By a signal that did not come from us.
    Signal(i32),
    /// It ran longer than it may, and was stopped.
    TimedOut,
    /// It was called off, and was stopped.
    Cancelled,
}

impl Exit {
    /// Whether the command ended by itself with code 0.
    #[must_use]
    pub fn is_success(self) -> bool {
        self == Self::Code(0)
    }
}

impl std::fmt::Display for Exit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exit code {code}"),
            Self::Signal(signal) => write!(f, "killed by signal {signal}"),
            Self::TimedOut => f.write_str("timed out"),
            Self::Cancelled => f.write_str("cancelled"),
        }
    }
}

impl From<ExitStatus> for Exit {
    fn from(status: ExitStatus) -> Self {
        #[cfg(unix)]
        if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
            return Self::Signal(signal);
        }
        Self::Code(status.code().unwrap_or(-1))
    }
}

/// A command that is over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finished {
    /// How it ended.
    pub exit: Exit,
    /// The end of its standard output.
    pub stdout: Captured,
    /// The end of its standard error.
    pub stderr: Captured,
    /// From spawn to reap.
    pub duration: Duration,
}

/// Runs a command to its end, calling `sink` with what it writes while it runs (`|_| {}` to ignore it).
///
/// On timeout or cancellation the whole process group gets SIGTERM, and SIGKILL after the grace. When the command
/// itself has ended, what is left of its group is killed, after a short wait for output that is still to come. A
/// descendant that moved to a session of its own is not in the group; it cannot hold us up, but it lives on until
/// the [`Guard`](crate::Guard) sweeps. Dropping the future kills the group at once.
///
/// # Errors
/// The command could not be started; see [`SpawnError`].
///
/// # Panics
/// Outside of a Tokio runtime with I/O and time enabled.
pub async fn run(
    spec: &CommandSpec,
    limits: &Limits,
    cancel: &CancellationToken,
    mut sink: impl FnMut(Output<'_>),
) -> Result<Finished, SpawnError> {
    let started = Instant::now();
    let stdin = match spec.stdin {
        Some(_) => Stdio::piped(),
        None => Stdio::null(),
    };
    let (mut group, pipes) = Group::spawn(spec, stdin)?;
    let input = spec.stdin.as_deref().unwrap_or_default();
    let mut pump = Pump::new(pipes, input, limits.output_bytes);

    let ending = supervise(&mut group, &mut pump, limits, cancel, &mut sink).await;
    let patience = ending.patience();
    // An elapsed wait is no error: someone else still holds the pipes, and is killed next or out of reach.
    let _ = timeout_at(patience, pump.drain(&mut sink)).await;
    let exit = conclude(group, ending).await;
    let (stdout, stderr) = pump.finish(&mut sink);
    Ok(Finished { exit, stdout, stderr, duration: started.elapsed() })
}

/// Why a command is no longer running, and when its group has to be gone.
struct Ending {
    forced: Option<Exit>,
    kill_at: Option<tokio::time::Instant>,
}

impl Ending {
    /// Until when to read on. What we asked to end may use the rest of its grace.
    fn patience(&self) -> tokio::time::Instant {
        let drained = tokio::time::Instant::now() + DRAIN;
        self.kill_at.map_or(drained, |kill_at| kill_at.max(drained))
    }
}

/// Waits for the command itself to end, and makes it end if it has to.
async fn supervise(
    group: &mut Group,
    pump: &mut Pump<'_>,
    limits: &Limits,
    cancel: &CancellationToken,
    sink: &mut impl FnMut(Output<'_>),
) -> Ending {
    let mut forced = None;
    let mut killed = false;
    let mut alarm = limits.timeout.and_then(after);
    loop {
        let called_off = tokio::select! {
            biased;
            () = group.exited() => break,
            () = cancel.cancelled(), if forced.is_none() => true,
            () = ring(alarm) => false,
            () = pump.step(sink) => continue,
        };
        if killed {
            tracing::warn!(pid = group.pid(), "a killed process does not go away, leaving it");
            break;
        }
        if forced.is_some() {
            group.kill();
            killed = true;
            alarm = after(REAP);
        } else {
            forced = Some(if called_off { Exit::Cancelled } else { Exit::TimedOut });
            group.terminate();
            alarm = after(limits.grace);
        }
    }
    Ending { kill_at: alarm.filter(|_| forced.is_some() && !killed), forced }
}

/// The instant after that much time; never, if that is beyond what a clock can hold.
fn after(delay: Duration) -> Option<tokio::time::Instant> {
    tokio::time::Instant::now().checked_add(delay)
}

async fn ring(alarm: Option<tokio::time::Instant>) {
    match alarm {
        Some(alarm) => sleep_until(alarm).await,
        None => std::future::pending().await,
    }
}

async fn conclude(group: Group, ending: Ending) -> Exit {
    let status = tokio::time::timeout(REAP, group.reap()).await;
    match (ending.forced, status) {
        (Some(exit), _) => exit,
        (None, Ok(Ok(status))) => status.into(),
        // Its status is lost: someone else reaped our child. Nobody can call that a success.
        (None, _) => Exit::Code(-1),
    }
}
