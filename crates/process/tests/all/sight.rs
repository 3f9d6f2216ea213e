//! Looking at processes, and waiting for them to be seen.

use std::time::{Duration, Instant};

/// Nothing in these tests takes this long unless it is broken.
pub const LONG: Duration = Duration::from_secs(20);

/// Whether a process runs. One that nobody reaped has ended all the same.
pub fn runs(pid: u32) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else {
        return false;
    };
    let state = stat.rsplit_once(") ").map(|(_, rest)| rest.as_bytes()[0]);
    if !matches!(state, Some(b'Z' | b'X') | None) {
        return true;
    }
    // The main thread may have ended before the others, and the process ends with the last of them.
    std::fs::read_dir(format!("/proc/{pid}/task")).is_ok_and(|threads| threads.count() > 1)
}

/// Looks until it is so, or fails the test.
pub fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + LONG;
    while !is_so() {
        assert!(Instant::now() < deadline, "never seen: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

pub fn assert_all_end(pids: &[u32]) {
    assert!(!pids.is_empty());
    eventually(&format!("the end of {pids:?}"), || !pids.iter().any(|pid| runs(*pid)));
}

/// The numbers on the lines that start with `pid `.
pub fn pids(text: &str) -> Vec<u32> {
    let lines = text.lines().filter_map(|line| line.strip_prefix("pid "));
    lines.map(|pid| pid.trim().parse().expect("a number after pid")).collect()
}
