//! Values of flags as people write them: durations, rates, priorities, `K=V`, states. Each refuses with
//! the fix.

use std::time::Duration;

use runcue_core::{Rate, ServiceName, StateWord, Use};

use crate::nearest;
use crate::runfile;

/// `30`, `500ms`, `5m`, `1h30m`, `2d`.
pub fn duration(text: &str) -> Result<Duration, String> {
    runfile::duration::parse(text).map_err(|error| format!("it {error}"))
}

/// How long a lease lasts: renewed at a third of it, so that it must leave time for that.
pub fn lease(text: &str) -> Result<Duration, String> {
    let span = duration(text)?;
    if span < Duration::from_secs(1) {
        return Err("a lease lasts at least 1s, or a busy machine loses it".to_owned());
    }
    Ok(span)
}

/// `60/min`, `10/s`, `100/5m`.
pub fn rate(text: &str) -> Result<Rate, String> {
    let rate = runfile::rate::parse(text).map_err(|error| format!("it {error}"))?;
    Ok(Rate { limit: rate.limit, window: rate.window })
}

/// A number, or one of the four words.
pub fn priority(text: &str) -> Result<i32, String> {
    match text {
        "low" => Ok(0),
        "normal" => Ok(50),
        "high" => Ok(100),
        "critical" => Ok(200),
        _ => text.parse().map_err(|_| {
            let near = nearest::nearest(text, ["low", "normal", "high", "critical"]);
            let near = near.map(|word| format!("; did you mean {word}?")).unwrap_or_default();
            format!("a priority is a whole number or low, normal, high, critical{near}")
        }),
    }
}

/// The word of a state.
pub fn state(text: &str) -> Result<StateWord, String> {
    let words = StateWord::ALL.map(StateWord::as_str);
    StateWord::from_word(text).ok_or_else(|| match nearest::nearest(text, words) {
        Some(near) => format!("did you mean {near}?"),
        None => format!("the states are {}", words.join(", ")),
    })
}

/// `K=V`.
pub fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("write NAME=VALUE".to_owned()),
    }
}

/// A service, or `NAME=UNITS`.
pub fn usage(text: &str) -> Result<Use, String> {
    let (name, units) = match text.rsplit_once('=') {
        Some((name, units)) => {
            let units = units.parse().map_err(|_| "write NAME or NAME=UNITS".to_owned())?;
            (name, units)
        }
        None => (text, 1),
    };
    let service = ServiceName::new(name).map_err(|error| error.to_string())?;
    Ok(Use { service, units })
}

/// A limit, or `none` to lift it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit<T> {
    /// This much.
    Of(T),
    /// Without a limit.
    None,
}

impl<T> Limit<T> {
    /// The limit, if there is one.
    pub fn get(self) -> Option<T> {
        match self {
            Self::Of(limit) => Some(limit),
            Self::None => None,
        }
    }
}

/// A whole number of at least one, or `none`.
pub fn limit<T: std::str::FromStr + PartialOrd + From<u8>>(text: &str) -> Result<Limit<T>, String> {
    if text == "none" {
        return Ok(Limit::None);
    }
    let number: T = text.parse().map_err(|_| "write a whole number, or none".to_owned())?;
    if number < T::from(1) {
        return Err(
            "it must be at least 1; write none to lift the limit, or use --pause".to_owned()
        );
    }
    Ok(Limit::Of(number))
}

/// A rate, or `none`.
pub fn rate_limit(text: &str) -> Result<Limit<Rate>, String> {
    if text == "none" { Ok(Limit::None) } else { rate(text).map(Limit::Of) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn priorities_are_numbers_or_the_four_words() {
        assert_eq!(priority("-3"), Ok(-3));
        assert_eq!(priority("critical"), Ok(200));
        assert!(priority("hihg").unwrap_err().contains("did you mean high?"));
    }

    #[test]
    fn a_misspelt_state_is_answered_with_the_nearest() {
        assert_eq!(state("failed"), Ok(StateWord::Failed));
        assert_eq!(state("runing").unwrap_err(), "did you mean running?");
        assert!(state("xyzzy").unwrap_err().contains("quarantined"));
    }

    #[test]
    fn a_service_may_cost_several_units() {
        assert_eq!(usage("api").map(|u| u.units), Ok(1));
        assert_eq!(
            usage("llm=300").map(|u| (u.service.to_string(), u.units)),
            Ok(("llm".into(), 300))
        );
        assert!(usage("llm=many").is_err());
    }

    #[test]
    fn a_limit_of_zero_is_refused_with_the_fix() {
        assert_eq!(limit::<u32>("none"), Ok(Limit::None));
        assert_eq!(limit::<u32>("5"), Ok(Limit::Of(5)));
        assert!(limit::<u32>("0").unwrap_err().contains("--pause"));
    }
}
