//! Asking and telling processes things by their number, without `unsafe`.
//!
//! Owns the platform difference. Does not know which process belongs to whom; a caller that holds a number after
//! the process was reaped may hit a stranger, and must not.

use std::io;

/// Asks one process to end (SIGTERM).
///
/// # Errors
/// The process is gone, belongs to someone else, or the platform has no signals.
pub fn terminate(pid: u32) -> io::Result<()> {
    imp::send(pid, imp::TERM)
}

/// Ends one process (SIGKILL).
///
/// # Errors
/// As [`terminate`].
pub fn kill(pid: u32) -> io::Result<()> {
    imp::send(pid, imp::KILL)
}

/// Asks a whole process group to end. A stopped process cannot act on SIGTERM, so the group is continued too.
///
/// # Errors
/// As [`terminate`].
pub fn terminate_group(group: u32) -> io::Result<()> {
    imp::send_group(group, imp::TERM)?;
    imp::send_group(group, imp::CONT)
}

/// Ends a whole process group.
///
/// # Errors
/// As [`terminate`].
pub fn kill_group(group: u32) -> io::Result<()> {
    imp::send_group(group, imp::KILL)
}

/// Whether a process has this number. One that ended but was not reaped by its parent still has it.
#[must_use]
pub fn exists(pid: u32) -> bool {
    imp::exists(pid)
}

#[cfg(unix)]
mod imp {
    use std::io;

    use rustix::io::Errno;
    use rustix::process::{Pid, Signal, kill_process, kill_process_group, test_kill_process};

    pub(super) const TERM: Signal = Signal::TERM;
    pub(super) const KILL: Signal = Signal::KILL;
    pub(super) const CONT: Signal = Signal::CONT;

    /// 0 would mean our own group and 1 is init (or, for a group, everybody): neither is ever meant.
    fn pid(raw: u32) -> io::Result<Pid> {
        i32::try_from(raw)
            .ok()
            .filter(|raw| *raw > 1)
            .and_then(Pid::from_raw)
            .ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))
    }

    pub(super) fn send(raw: u32, signal: Signal) -> io::Result<()> {
        Ok(kill_process(pid(raw)?, signal)?)
    }

    pub(super) fn send_group(raw: u32, signal: Signal) -> io::Result<()> {
        Ok(kill_process_group(pid(raw)?, signal)?)
    }

    pub(super) fn exists(raw: u32) -> bool {
        let Some(pid) = i32::try_from(raw).ok().and_then(Pid::from_raw) else {
            return false;
        };
        matches!(test_kill_process(pid), Ok(()) | Err(Errno::PERM))
    }
}

/// Windows has neither signals nor process groups in this sense, and asking about a number needs `unsafe`:
/// nothing is promised here. A child that we hold is ended through its handle (see `group`).
#[cfg(not(unix))]
mod imp {
    use std::io;

    pub(super) const TERM: () = ();
    pub(super) const KILL: () = ();
    pub(super) const CONT: () = ();

    pub(super) fn send(_: u32, (): ()) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(super) fn send_group(_: u32, (): ()) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(super) fn exists(_: u32) -> bool {
        false
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn we_exist() {
        assert!(exists(std::process::id()));
    }

    #[test]
    fn a_number_above_the_kernels_range_does_not_exist() {
        assert!(!exists(i32::MAX as u32));
        assert!(!exists(u32::MAX));
    }

    #[test]
    fn everybody_and_ourselves_are_never_a_target() {
        assert!(kill_group(0).is_err());
        assert!(kill_group(1).is_err());
        assert!(kill(0).is_err());
    }
}
