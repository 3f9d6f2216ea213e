//! Waiting for what can be seen, and for no longer than anything healthy takes.

use std::time::{Duration, Instant};

/// Nothing here takes this long unless it hangs. Twice a lease, because one test waits for one to lapse.
const PATIENCE: Duration = Duration::from_secs(90);

/// Looks until there is something to see.
#[track_caller]
pub fn until<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    until_within(what, PATIENCE, look)
}

/// The same for what takes its time by its nature.
#[track_caller]
pub fn until_within<T>(what: &str, span: Duration, look: impl FnMut() -> Option<T>) -> T {
    no_longer_than(what, span.max(PATIENCE), look)
}

/// The same for what is promised to take no longer than that.
#[track_caller]
pub fn no_longer_than<T>(what: &str, span: Duration, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + span;
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(Instant::now() < deadline, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}
