//! When a failed attempt is tried again. Pure: the jitter's randomness is a number the caller passes in.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::ids::JobId;
use crate::time::seconds;

/// What sort of error ended an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ErrorKind {
    /// May go better next time.
    Transient,
    /// Will not go better next time; never retried.
    Permanent,
    /// The attempt ran longer than it may.
    Timeout,
    /// The worker went away and its lease lapsed.
    Crash,
}

impl ErrorKind {
    /// The word users write in `retry_on`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Transient => "transient",
            Self::Permanent => "permanent",
            Self::Timeout => "timeout",
            Self::Crash => "crash",
        }
    }
}

/// How the delay grows from one attempt to the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Backoff {
    /// Always the base delay.
    Fixed,
    /// The base delay times the attempt.
    Linear,
    /// Doubles with every attempt.
    #[default]
    Exponential,
}

/// When and how often to try again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RetryPolicy {
    /// Attempts in all.
    pub max_attempts: u32,
    /// Attempts that may end with their worker before the job counts as poison.
    pub max_crashes: u32,
    /// How the delay grows.
    pub backoff: Backoff,
    /// The first delay.
    #[serde(with = "seconds")]
    pub base_delay: Duration,
    /// No delay is longer.
    #[serde(with = "seconds")]
    pub max_delay: Duration,
    /// Spread the delays, so that jobs that failed together do not come back together.
    pub jitter: bool,
    /// Kinds or codes of error that are tried again; empty means all but permanent ones.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub retry_on: Vec<String>,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            max_attempts: 3,
            max_crashes: 3,
            backoff: Backoff::default(),
            base_delay: Duration::from_secs(1),
            max_delay: Duration::from_secs(300),
            jitter: true,
            retry_on: Vec::new(),
        }
    }
}

impl RetryPolicy {
    /// A policy of so many attempts and every other default.
    pub fn attempts(max_attempts: u32) -> Self {
        Self { max_attempts, ..Self::default() }
    }

    /// Whether an error of this kind (and code, such as `exit 75`) is worth another attempt.
    pub fn covers(&self, kind: ErrorKind, code: Option<&str>) -> bool {
        if kind == ErrorKind::Permanent {
            return false;
        }
        self.retry_on.is_empty()
            || self.retry_on.iter().any(|word| word == kind.as_str() || Some(word.as_str()) == code)
    }

    /// How long to wait after an attempt (counted from one) failed. With jitter the delay lies between
    /// half and all of the nominal one.
    pub fn delay(&self, attempt: u32, random: u64) -> Duration {
        let nominal = match self.backoff {
            Backoff::Fixed => self.base_delay,
            Backoff::Linear => self.base_delay.saturating_mul(attempt.max(1)),
            Backoff::Exponential => {
                self.base_delay.saturating_mul(2_u32.saturating_pow(attempt.max(1) - 1))
            }
        };
        let nominal = nominal.min(self.max_delay);
        if !self.jitter {
            return nominal;
        }
        // The top 53 bits make every double in [0, 1) equally likely.
        let fraction = (random >> 11) as f64 / (1_u64 << 53) as f64;
        nominal.mul_f64(0.5 + 0.5 * fraction)
    }
}

/// The random number for a job's delay: spread over jobs and attempts, yet the same on every store and
/// in every replay.
pub fn jitter_of(job: JobId, attempt: u32) -> u64 {
    let bits = job.as_u128();
    let mut mixed = (bits as u64) ^ ((bits >> 64) as u64).rotate_left(32) ^ u64::from(attempt);
    mixed = mixed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn plain(backoff: Backoff) -> RetryPolicy {
        RetryPolicy { backoff, jitter: false, ..RetryPolicy::default() }
    }

    #[test]
    fn the_three_backoffs_grow_as_named_and_stop_at_the_maximum() {
        let at = |backoff, attempt| plain(backoff).delay(attempt, 0).as_secs();
        assert_eq!([1, 2, 9].map(|n| at(Backoff::Fixed, n)), [1, 1, 1]);
        assert_eq!([1, 2, 9].map(|n| at(Backoff::Linear, n)), [1, 2, 9]);
        assert_eq!(
            [1, 2, 3, 9, 10, 99].map(|n| at(Backoff::Exponential, n)),
            [1, 2, 4, 256, 300, 300]
        );
    }

    #[test]
    fn permanent_errors_are_never_retried_even_when_listed() {
        let listed = RetryPolicy { retry_on: vec!["permanent".into()], ..RetryPolicy::default() };
        assert!(!listed.covers(ErrorKind::Permanent, None));
    }

    #[test]
    fn retry_on_names_kinds_and_codes() {
        let policy = RetryPolicy {
            retry_on: vec!["timeout".into(), "exit 75".into()],
            ..RetryPolicy::default()
        };
        assert!(policy.covers(ErrorKind::Timeout, None));
        assert!(policy.covers(ErrorKind::Transient, Some("exit 75")));
        assert!(!policy.covers(ErrorKind::Transient, Some("exit 1")));
    }

    proptest! {
        #[test]
        fn jitter_stays_between_half_and_all(attempt in 1_u32..40, random: u64) {
            let policy = RetryPolicy::default();
            let nominal = RetryPolicy { jitter: false, ..policy.clone() }.delay(attempt, 0);
            let delay = policy.delay(attempt, random);
            prop_assert!(delay >= nominal / 2 && delay <= nominal);
        }
    }
}
