//! Where the engine's `now` comes from. Owns [`Clock`] and its two kinds; sleeping is Tokio's, and both
//! kinds agree with it. Nothing else in the engine reads a clock.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use runcue_core::Timestamp;

/// How far the machine's clock may be from ours before we follow it.
const JUMP: Duration = Duration::from_secs(1);

/// Tells the time.
pub trait Clock: Send + Sync + 'static {
    /// The present instant.
    fn now(&self) -> Timestamp;

    /// Whether time moves only while everybody waits, as in tests and in the simulator.
    fn is_virtual(&self) -> bool {
        false
    }
}

/// The machine's clock, which does not run backwards by itself: it goes with the monotonic clock and
/// follows the wall clock only when that has jumped.
#[derive(Debug)]
pub struct SystemClock {
    anchor: Mutex<Anchor>,
}

#[derive(Clone, Copy, Debug)]
struct Anchor {
    wall: Timestamp,
    instant: Instant,
}

impl Default for SystemClock {
    fn default() -> Self {
        Self { anchor: Mutex::new(Anchor { wall: wall(), instant: Instant::now() }) }
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let mut anchor = self.anchor.lock().unwrap_or_else(PoisonError::into_inner);
        let instant = Instant::now();
        let steady = anchor.wall.plus(instant.duration_since(anchor.instant));
        let (now, jumped) = follow(steady, wall());
        if jumped {
            tracing::warn!(from = %steady, to = %now, "the machine's clock has jumped");
            *anchor = Anchor { wall: now, instant };
        }
        now
    }
}

/// The time to go by, and whether that is a new one.
fn follow(steady: Timestamp, wall: Timestamp) -> (Timestamp, bool) {
    let apart = steady.since(wall).max(wall.since(steady));
    if apart > JUMP { (wall, true) } else { (steady, false) }
}

#[expect(clippy::disallowed_methods, reason = "this is the one place that asks the machine")]
fn wall() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::ZERO.plus(since)
}

/// A clock that goes with Tokio's, so that in a runtime whose time is paused an hour passes in no time.
#[derive(Clone, Copy, Debug)]
pub struct VirtualClock {
    epoch: Timestamp,
    start: tokio::time::Instant,
}

impl VirtualClock {
    /// A clock that shows this instant now.
    pub fn starting_at(epoch: Timestamp) -> Self {
        Self { epoch, start: tokio::time::Instant::now() }
    }
}

impl Default for VirtualClock {
    /// A clock that shows 2026-01-01 00:00:00 UTC now.
    fn default() -> Self {
        Self::starting_at(Timestamp::from_millis(1_767_225_600_000))
    }
}

impl Clock for VirtualClock {
    fn now(&self) -> Timestamp {
        self.epoch.plus(self.start.elapsed())
    }

    fn is_virtual(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_differences_are_ignored_and_jumps_followed() {
        let at = |millis| Timestamp::from_millis(millis);
        assert_eq!(follow(at(10_000), at(9_100)), (at(10_000), false));
        assert_eq!(follow(at(10_000), at(10_900)), (at(10_000), false));
        assert_eq!(follow(at(10_000), at(3_000)), (at(3_000), true));
        assert_eq!(follow(at(10_000), at(90_000)), (at(90_000), true));
    }

    #[test]
    fn the_system_clock_never_goes_back() {
        let clock = SystemClock::default();
        let mut last = clock.now();
        for _ in 0..1_000 {
            let now = clock.now();
            assert!(now >= last);
            last = now;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_hour_of_virtual_time_is_an_hour_on_the_clock() {
        let clock = VirtualClock::default();
        let start = clock.now();
        tokio::time::sleep(Duration::from_secs(3600)).await;
        assert_eq!(clock.now().since(start), Duration::from_secs(3600));
    }
}
