//! Lengths of time as people write them: `30`, `0.5`, `500ms`, `5m`, `1h30m`, `2d`.
//!
//! A bare number is seconds. Also the serde form used in stored task definitions: a number of
//! seconds.

use std::time::Duration;

/// The longest duration accepted: ten years.
pub const MAX: Duration = Duration::from_secs(3650 * 24 * 3600);

/// Why a text is no duration. Reads on after a field name: "timeout is …".
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DurationError {
    /// Not a number, and not numbers with units.
    #[error("is \"{0}\", which is no duration; write seconds (30, 0.5) or 500ms, 5m, 1h30m, 2d")]
    NotADuration(String),
    /// A minus sign.
    #[error("is {0}; a duration cannot be negative")]
    Negative(String),
    /// Beyond [`MAX`].
    #[error("is {0}; the longest duration is 3650d")]
    TooLong(String),
}

/// Reads a duration.
pub fn parse(text: &str) -> Result<Duration, DurationError> {
    let trimmed = text.trim();
    if trimmed.starts_with('-') {
        return Err(DurationError::Negative(trimmed.to_owned()));
    }
    let bad = || DurationError::NotADuration(text.to_owned());
    let seconds = match number(trimmed) {
        Some(seconds) => seconds,
        None => parts(trimmed).ok_or_else(bad)?,
    };
    if seconds > MAX.as_secs_f64() {
        return Err(DurationError::TooLong(trimmed.to_owned()));
    }
    Ok(Duration::from_micros(micros(seconds)))
}

/// Writes a duration in the shortest of the accepted forms.
pub fn show(duration: Duration) -> String {
    let millis = duration.as_millis();
    if millis == 0 && !duration.is_zero() {
        return format!("{}s", duration.as_secs_f64());
    }
    if !millis.is_multiple_of(1000) {
        return match millis {
            0..1000 => format!("{millis}ms"),
            _ => format!("{}s", duration.as_secs_f64()),
        };
    }
    let mut rest = duration.as_secs();
    if rest == 0 {
        return "0s".to_owned();
    }
    let mut text = String::new();
    for (unit, length) in [("d", 86_400), ("h", 3600), ("m", 60), ("s", 1)] {
        if rest >= length {
            text.push_str(&format!("{}{unit}", rest / length));
            rest %= length;
        }
    }
    text
}

/// The length of one unit in seconds.
pub(crate) fn unit(name: &str) -> Option<f64> {
    Some(match name {
        "ms" => 0.001,
        "s" | "sec" | "second" | "seconds" => 1.0,
        "m" | "min" | "minute" | "minutes" => 60.0,
        "h" | "hour" | "hours" => 3600.0,
        "d" | "day" | "days" => 86_400.0,
        "w" | "week" | "weeks" => 604_800.0,
        _ => return None,
    })
}

/// Digits with at most one point: no sign, no exponent, no `inf`.
fn number(text: &str) -> Option<f64> {
    let digits = text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    digits.then(|| text.parse().ok()).flatten()
}

fn parts(text: &str) -> Option<f64> {
    let mut rest = text;
    let mut seconds = 0.0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !(c.is_ascii_digit() || c == '.'))?;
        let (count, after) = rest.split_at(digits);
        let after = after.trim_start();
        let end = after.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(after.len());
        let (name, next) = after.split_at(end);
        seconds += number(count)? * unit(name)?;
        rest = next.trim_start();
    }
    (!text.is_empty()).then_some(seconds)
}

/// Whole microseconds; the caller has bounded `seconds`, so the conversion loses nothing.
fn micros(seconds: f64) -> u64 {
    u64::try_from(Duration::from_secs_f64(seconds).as_nanos().div_ceil(1000)).unwrap_or(u64::MAX)
}

/// Serde for optional durations as a number of seconds.
pub(crate) mod seconds {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    /// Writes whole seconds as an integer, others with a fraction.
    pub(crate) fn serialize<S: Serializer>(
        value: &Option<Duration>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match value {
            Some(value) if value.subsec_nanos() == 0 => value.as_secs().serialize(serializer),
            Some(value) => value.as_secs_f64().serialize(serializer),
            None => serializer.serialize_none(),
        }
    }

    /// Reads a number of seconds.
    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Duration>, D::Error> {
        let Some(seconds) = Option::<f64>::deserialize(deserializer)? else {
            return Ok(None);
        };
        let value = Duration::try_from_secs_f64(seconds).map_err(serde::de::Error::custom)?;
        Ok(Some(value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_fractions_and_units_are_all_read() {
        for (text, millis) in [
            ("30", 30_000),
            ("0.5", 500),
            ("0", 0),
            ("500ms", 500),
            ("5m", 300_000),
            ("1h30m", 5_400_000),
            ("2d", 172_800_000),
            ("1.5h", 5_400_000),
            ("1h 5s", 3_605_000),
            ("10 s", 10_000),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_millis(millis)), "{text}");
        }
    }

    #[test]
    fn what_is_no_duration_is_refused_with_the_reason() {
        for text in ["", "abc", "5x", "m", "1h30", "1..5", "1e3", "inf", "nan", "+5"] {
            let error = parse(text).unwrap_err();
            assert!(matches!(error, DurationError::NotADuration(_)), "{text}");
        }
        assert!(matches!(parse("-5"), Err(DurationError::Negative(_))));
        assert!(matches!(parse("99999d"), Err(DurationError::TooLong(_))));
        let huge = "9".repeat(400);
        assert!(matches!(parse(&huge), Err(DurationError::TooLong(_))));
    }

    #[test]
    fn what_is_shown_reads_back_the_same() {
        for millis in [0, 1, 500, 1500, 60_000, 5_405_000, 172_800_000, 90_061_000] {
            let duration = Duration::from_millis(millis);
            assert_eq!(parse(&show(duration)), Ok(duration), "{}", show(duration));
        }
        assert_eq!(show(Duration::from_secs(5400)), "1h30m");
    }
}
