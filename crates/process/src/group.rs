//! One child and everything in its process group, from spawn to reap.
//!
//! Owns the rule that a group is signalled only while its number is ours: the leader is reaped last, so the number
//! cannot have gone to a stranger. Dropping it kills the whole group. `run` and the pool decide when to signal.

use std::io;
use std::process::{ExitStatus, Stdio};

use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout};

use crate::command::CommandSpec;
use crate::spawn::{SpawnError, explain, prepare};

#[derive(Debug)]
pub(crate) struct Group {
    child: Child,
    pid: u32,
    exit: watch::ExitWatch,
    reaped: bool,
}

/// Our ends of a child's pipes.
#[derive(Debug)]
pub(crate) struct Pipes {
    pub(crate) stdin: Option<ChildStdin>,
    pub(crate) stdout: Option<ChildStdout>,
    pub(crate) stderr: Option<ChildStderr>,
}

impl Group {
    pub(crate) fn spawn(spec: &CommandSpec, stdin: Stdio) -> Result<(Self, Pipes), SpawnError> {
        let spawned = prepare(spec, stdin)?.spawn();
        let mut child = spawned.map_err(|error| explain(spec, error))?;
        let pipes = Pipes {
            stdin: child.stdin.take(),
            stdout: child.stdout.take(),
            stderr: child.stderr.take(),
        };
        // A child that was never waited for has a number.
        let pid = child.id().unwrap_or_default();
        let group = Self { exit: watch::ExitWatch::new(pid), child, pid, reaped: false };
        Ok((group, pipes))
    }

    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    /// Waits until the child itself has ended. Cancel safe; its group may live on.
    pub(crate) async fn exited(&mut self) {
        if !self.exit.seen().await {
            // An error here means that there is no child any more, which is as good.
            let _ = self.child.wait().await;
        }
    }

    /// Whether the child has ended, without waiting and without reaping it.
    pub(crate) fn is_gone(&mut self) -> bool {
        #[cfg(unix)]
        {
            use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
            let peek = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
            let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw);
            pid.is_none_or(|pid| !matches!(waitid(WaitId::Pid(pid), peek), Ok(None)))
        }
        #[cfg(not(unix))]
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Asks the whole group to end. There is no gentle way on Windows, where only the child itself is ended.
    pub(crate) fn terminate(&mut self) {
        if cfg!(unix) {
            let _ = crate::signal::terminate_group(self.pid);
        } else {
            let _ = self.child.start_kill();
        }
    }

    /// Ends the whole group. On Windows only the child itself: its descendants are not promised to go with it.
    pub(crate) fn kill(&mut self) {
        if cfg!(unix) {
            let _ = crate::signal::kill_group(self.pid);
        } else {
            let _ = self.child.start_kill();
        }
    }

    /// Ends what is left of the group and takes the child's status.
    pub(crate) async fn reap(mut self) -> io::Result<ExitStatus> {
        self.kill();
        let status = self.child.wait().await;
        self.reaped = true;
        status
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if !self.reaped {
            // Tokio takes the status of a dropped child later, so no zombie stays.
            self.kill();
        }
    }
}

#[cfg(target_os = "linux")]
mod watch {
    use std::os::fd::OwnedFd;

    use rustix::process::{Pid, PidfdFlags, pidfd_open};
    use tokio::io::{Interest, unix::AsyncFd};

    #[expect(
        deprecated,
        reason = "unsound only for a type that closes or swaps its descriptor; this one owns it, and the replacement is unsafe"
    )]
    fn register(pidfd: OwnedFd) -> std::io::Result<AsyncFd<OwnedFd>> {
        AsyncFd::with_interest(pidfd, Interest::READABLE)
    }

    /// Sees a child end without reaping it, which Tokio's own `wait` cannot.
    #[derive(Debug)]
    pub(super) struct ExitWatch(Option<AsyncFd<OwnedFd>>);

    impl ExitWatch {
        pub(super) fn new(pid: u32) -> Self {
            let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
            // Kernels before 5.3 have no such thing: then `wait` has to do.
            let pidfd = pid.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
            let watched = pidfd.map(register);
            Self(watched.and_then(Result::ok))
        }

        /// True once the child has ended; false at once if this cannot be seen.
        pub(super) async fn seen(&self) -> bool {
            match &self.0 {
                Some(fd) => fd.readable().await.is_ok(),
                None => false,
            }
        }
    }
}

/// Elsewhere the child is reaped as soon as it ends. Between that and the last signal to its group the number could
/// in theory be given to a stranger: a window of microseconds against a counter that has to wrap around first.
#[cfg(not(target_os = "linux"))]
mod watch {
    #[derive(Debug)]
    pub(super) struct ExitWatch;

    impl ExitWatch {
        pub(super) fn new(_: u32) -> Self {
            Self
        }

        pub(super) async fn seen(&self) -> bool {
            false
        }
    }
}
