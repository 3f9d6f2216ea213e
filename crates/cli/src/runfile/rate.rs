//! How often: `60/min`, `10/s`, `100/5m`, or the pair `[60, 60]` (so many in so many seconds).

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::duration;

/// So many units in any window of that length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rate {
    /// How many starts, or units of cost.
    pub limit: u64,
    /// The length of the window.
    #[serde(with = "window_seconds")]
    pub window: Duration,
}

/// Why a text is no rate. Reads on after a field name: "rate is …".
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RateError {
    /// Not `count/window`.
    #[error("is \"{0}\", which is no rate; write 60/min, 10/s, 1000/h or 100/5m")]
    NotARate(String),
    /// A count of zero or below.
    #[error("is \"{0}\"; the count must be at least 1 (pause the group to stop work)")]
    NoUnits(String),
    /// A window of no length.
    #[error("is \"{0}\"; the window must be longer than 0")]
    NoWindow(String),
}

/// Reads `count/window`.
pub fn parse(text: &str) -> Result<Rate, RateError> {
    let bad = || RateError::NotARate(text.to_owned());
    let (count, window) = text.split_once('/').ok_or_else(bad)?;
    let count: i64 = count.trim().parse().map_err(|_| bad())?;
    if count < 1 {
        return Err(RateError::NoUnits(text.to_owned()));
    }
    let limit = u64::try_from(count).map_err(|_| bad())?;
    let window = window.trim();
    let window = match duration::unit(window) {
        Some(seconds) => Duration::from_secs_f64(seconds),
        None => duration::parse(window).map_err(|_| bad())?,
    };
    if window.is_zero() {
        return Err(RateError::NoWindow(text.to_owned()));
    }
    Ok(Rate { limit, window })
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let window = match self.window.as_secs() {
            1 if self.window.subsec_nanos() == 0 => "s".to_owned(),
            60 if self.window.subsec_nanos() == 0 => "min".to_owned(),
            3600 if self.window.subsec_nanos() == 0 => "h".to_owned(),
            _ => duration::show(self.window),
        };
        write!(f, "{}/{window}", self.limit)
    }
}

mod window_seconds {
    use std::time::Duration;

    use serde::{Deserializer, Serializer};

    use crate::runfile::duration::seconds;

    pub(super) fn serialize<S: Serializer>(
        value: &Duration,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        seconds::serialize(&Some(*value), serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Duration, D::Error> {
        let value = seconds::deserialize(deserializer)?;
        value.ok_or_else(|| serde::de::Error::custom("a window needs a length"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read_and_shown() {
        for (text, limit, seconds) in [
            ("60/min", 60, 60),
            ("10/s", 10, 1),
            ("1000/h", 1000, 3600),
            ("100/5m", 100, 300),
            ("5/30", 5, 30),
            ("7 / day", 7, 86_400),
        ] {
            let window = Duration::from_secs(seconds);
            let rate = parse(text).unwrap();
            assert_eq!(rate, Rate { limit, window }, "{text}");
            assert_eq!(parse(&rate.to_string()), Ok(rate));
        }
    }

    #[test]
    fn zero_negative_and_nonsense_rates_are_refused() {
        assert!(matches!(parse("0/s"), Err(RateError::NoUnits(_))));
        assert!(matches!(parse("-5/min"), Err(RateError::NoUnits(_))));
        assert!(matches!(parse("5/0s"), Err(RateError::NoWindow(_))));
        for text in ["60", "a/min", "5/year", "5/", "/s", "1.5/s"] {
            assert!(matches!(parse(text), Err(RateError::NotARate(_))), "{text}");
        }
    }
}
