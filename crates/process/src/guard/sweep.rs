//! Finding and killing what a dead parent left behind, through `/proc`.
//!
//! Owns the search for the mark and the order of killing. When to sweep is the guard's.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal, getpgid, pidfd_open, pidfd_send_signal};

use super::{MARK, Watched};

/// Between two scans: long enough for a killed process to be gone and for a fork in flight to show up.
const PAUSE: Duration = Duration::from_millis(20);

/// A process that hangs in the kernel cannot be killed; a guard does not wait for it for ever.
const PATIENCE: Duration = Duration::from_secs(30);

/// Kills until two scans in a row find nobody: a process may fork while we look elsewhere.
pub(super) fn until_clean(instance: &str) -> Watched {
    let mark = format!("{MARK}={instance}");
    let deadline = Instant::now() + PATIENCE;
    let (mut killed, mut clean) = (0, 0);
    while clean < 2 {
        let Some(found) = scan(mark.as_bytes()) else {
            return Watched::Left;
        };
        if found.is_empty() {
            clean += 1;
        } else {
            clean = 0;
            killed += found.len();
            kill(&found, mark.as_bytes());
        }
        if Instant::now() > deadline {
            return Watched::Left;
        }
        if clean < 2 {
            std::thread::sleep(PAUSE);
        }
    }
    Watched::Swept { killed }
}

/// Every process but ourselves that carries the mark. `None`: there is no `/proc`.
fn scan(mark: &[u8]) -> Option<Vec<u32>> {
    let ourselves = std::process::id();
    let entries = fs::read_dir("/proc").ok()?;
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let pids = names.filter_map(|name| name.parse::<u32>().ok());
    Some(pids.filter(|pid| *pid != ourselves && is_marked(*pid, mark) == Some(true)).collect())
}

/// `None`: it cannot be told, because the process is another user's, a zombie or gone.
fn is_marked(pid: u32, mark: &[u8]) -> Option<bool> {
    let environ = fs::read(Path::new("/proc").join(pid.to_string()).join("environ")).ok()?;
    if environ.is_empty() {
        return None;
    }
    Some(environ.split(|byte| *byte == 0).any(|variable| variable == mark))
}

/// Groups first: that takes members along that have no mark or are just being forked.
fn kill(found: &[u32], mark: &[u8]) {
    let groups: BTreeSet<u32> = found.iter().filter_map(|pid| group_of(*pid)).collect();
    let ours = group_of(std::process::id());
    for group in groups {
        if Some(group) != ours && may_kill_group(group, mark) {
            let _ = crate::signal::kill_group(group);
        }
    }
    for pid in found {
        kill_one(*pid, mark);
    }
}

fn group_of(pid: u32) -> Option<u32> {
    let pid = Pid::from_raw(i32::try_from(pid).ok()?)?;
    getpgid(Some(pid)).ok()?.as_raw_nonzero().get().try_into().ok()
}

/// A group led by a living stranger is not ours to kill: a marked process may have joined the user's own shell job.
fn may_kill_group(leader: u32, mark: &[u8]) -> bool {
    match is_marked(leader, mark) {
        Some(marked) => marked,
        None => is_over(leader),
    }
}

/// Whether a process has ended, reaped or not.
fn is_over(pid: u32) -> bool {
    match fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat")) {
        // The state follows the name, which is in parentheses and may contain some.
        Ok(stat) => {
            let state = stat.rsplit_once(") ").map(|(_, rest)| rest.as_bytes().first());
            matches!(state, Some(Some(b'Z' | b'X')))
        }
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    }
}

/// Looks again with the process held, so that a number given away meanwhile hits nobody.
fn kill_one(pid: u32, mark: &[u8]) {
    let Some(target) = i32::try_from(pid).ok().and_then(Pid::from_raw) else {
        return;
    };
    let held = pidfd_open(target, PidfdFlags::empty());
    if is_marked(pid, mark) != Some(true) {
        return;
    }
    let _ = match held {
        Ok(held) => pidfd_send_signal(held, Signal::KILL).map_err(Into::into),
        Err(_) => crate::signal::kill(pid),
    };
}
