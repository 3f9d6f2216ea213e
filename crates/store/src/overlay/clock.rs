//! The server's clock as the writer's thread knows it.

use std::time::{Duration, Instant};

use runcue_core::Timestamp;

/// How far the server's clock may be set back before it is followed.
const STEP: Duration = Duration::from_secs(1);

/// Never later than the server's clock, as far as its replies tell: it said so when the reply came in at the
/// latest.
pub(super) struct Clock {
    reported: Option<(Timestamp, Instant)>,
    latest: Timestamp,
}

impl Clock {
    pub fn new() -> Self {
        Self { reported: None, latest: Timestamp::ZERO }
    }

    pub fn note(&mut self, reported: Timestamp) {
        if self.latest.since(reported) > STEP {
            self.latest = reported;
        }
        self.reported = Some((reported, Instant::now()));
    }

    pub fn now(&mut self) -> Timestamp {
        if let Some((reported, at)) = self.reported {
            self.latest = self.latest.max(reported.plus(at.elapsed()));
        }
        self.latest
    }
}
