//! The circuit breaker of a service. Closed, it lets everything through; after so many failures in a
//! row it opens and lets nothing through; when its time is up one real job goes first, as the probe.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::ids::JobId;
use crate::time::Timestamp;

/// What the end of an attempt says about the services it used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The service did its part.
    Good,
    /// The service let the attempt down.
    Bad,
    /// Nothing can be said: handed back, cancelled, crashed, or the job's own fault.
    None,
}

/// What a breaker just did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It opened until this instant.
    Opened(Timestamp),
    /// It closed.
    Closed,
}

/// Where a breaker stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Breaker {
    /// Normal operation, after so many failures in a row.
    Closed {
        /// Failures since the last success.
        failures: u32,
    },
    /// Nothing goes through until the instant; from then on one probe may.
    Open {
        /// When a probe may go.
        until: Timestamp,
    },
    /// One job is out as the probe.
    HalfOpen {
        /// The job.
        probe: JobId,
    },
}

impl Default for Breaker {
    fn default() -> Self {
        Self::Closed { failures: 0 }
    }
}

impl Breaker {
    /// Whether a probe may go now.
    pub fn wants_probe(self, now: Timestamp) -> bool {
        matches!(self, Self::Open { until } if until <= now)
    }

    /// Failures in a row so far.
    pub fn failures(self) -> u32 {
        match self {
            Self::Closed { failures } => failures,
            _ => 0,
        }
    }

    /// Sends a job out as the probe.
    pub fn probe(&mut self, job: JobId) {
        *self = Self::HalfOpen { probe: job };
    }

    /// Takes in how an attempt of a job ended.
    pub fn judge(
        &mut self,
        job: JobId,
        verdict: Verdict,
        threshold: u32,
        timeout: Duration,
        now: Timestamp,
    ) -> Option<Change> {
        match (*self, verdict) {
            // A probe that ended without a verdict must not hold the half-open place for ever.
            (Self::HalfOpen { probe }, Verdict::None) if probe == job => {
                *self = Self::Open { until: now };
                None
            }
            (Self::HalfOpen { probe }, Verdict::Good) if probe == job => {
                *self = Self::default();
                Some(Change::Closed)
            }
            (Self::HalfOpen { probe }, Verdict::Bad) if probe == job => {
                Some(self.open(timeout, now))
            }
            (Self::Closed { .. }, Verdict::Good) => {
                *self = Self::default();
                None
            }
            (Self::Closed { .. }, Verdict::Bad) => {
                let failures = self.failures() + 1;
                if failures >= threshold {
                    return Some(self.open(timeout, now));
                }
                *self = Self::Closed { failures };
                None
            }
            // Attempts that began before the breaker opened say nothing new.
            _ => None,
        }
    }

    fn open(&mut self, timeout: Duration, now: Timestamp) -> Change {
        let until = now.plus(timeout);
        *self = Self::Open { until };
        Change::Opened(until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(30);

    fn job(n: u128) -> JobId {
        JobId::from_u128(n)
    }

    fn now(seconds: i64) -> Timestamp {
        Timestamp::from_micros(seconds * 1_000_000)
    }

    fn opened() -> Breaker {
        let mut breaker = Breaker::default();
        for n in 0..3 {
            breaker.judge(job(n), Verdict::Bad, 3, TIMEOUT, now(0));
        }
        breaker
    }

    #[test]
    fn it_opens_after_consecutive_failures_only() {
        let mut breaker = Breaker::default();
        for verdict in [Verdict::Bad, Verdict::Bad, Verdict::Good, Verdict::Bad, Verdict::Bad] {
            assert_eq!(breaker.judge(job(1), verdict, 3, TIMEOUT, now(0)), None);
        }
        let change = breaker.judge(job(1), Verdict::Bad, 3, TIMEOUT, now(0));
        assert_eq!(change, Some(Change::Opened(now(30))));
        assert!(!breaker.wants_probe(now(29)) && breaker.wants_probe(now(30)));
    }

    #[test]
    fn a_good_probe_closes_it_and_a_bad_one_opens_it_again() {
        let mut breaker = opened();
        breaker.probe(job(9));
        assert_eq!(breaker.judge(job(9), Verdict::Good, 3, TIMEOUT, now(40)), Some(Change::Closed));
        let mut breaker = opened();
        breaker.probe(job(9));
        let change = breaker.judge(job(9), Verdict::Bad, 3, TIMEOUT, now(40));
        assert_eq!(change, Some(Change::Opened(now(70))));
    }

    #[test]
    fn a_probe_without_a_verdict_makes_way_for_the_next() {
        let mut breaker = opened();
        breaker.probe(job(9));
        breaker.judge(job(9), Verdict::None, 3, TIMEOUT, now(40));
        assert!(breaker.wants_probe(now(40)));
    }

    #[test]
    fn stragglers_from_before_it_opened_change_nothing() {
        let mut breaker = opened();
        breaker.probe(job(9));
        let before = breaker;
        breaker.judge(job(1), Verdict::Good, 3, TIMEOUT, now(40));
        assert_eq!(breaker, before);
    }
}
