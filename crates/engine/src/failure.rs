//! What a handler says when its job is not done. It is a return value, and it decides what follows.

use std::fmt;
use std::time::Duration;

use runcue_core::{ErrorKind, ServiceName};
use runcue_store::Outcome;

/// Why an attempt did not do its job, and what should follow. Any `std::error::Error` turns into a transient
/// failure with `?`.
#[derive(Clone, Debug)]
pub struct Failure {
    outcome: Decision,
}

#[derive(Clone, Debug)]
enum Decision {
    Failed { error: String, kind: ErrorKind, code: Option<String>, service: Option<String> },
    RateLimited { retry_after: Duration, service: Option<String> },
    HandBack,
}

impl Failure {
    /// It may go better next time: tried again as the job's retry policy says.
    pub fn transient(error: impl fmt::Display) -> Self {
        Self::failed(ErrorKind::Transient, error)
    }

    /// It will not go better next time: never tried again.
    pub fn permanent(error: impl fmt::Display) -> Self {
        Self::failed(ErrorKind::Permanent, error)
    }

    /// The attempt ran out of time.
    pub fn timeout(after: Duration) -> Self {
        Self::failed(ErrorKind::Timeout, format!("timeout: ran longer than {after:?}"))
    }

    /// A service said to come back later. The service waits, the attempt is not counted. Without a
    /// service, all that the job uses wait.
    pub fn rate_limited<'a>(retry_after: Duration, service: impl Into<Option<&'a str>>) -> Self {
        let service = service.into().map(str::to_owned);
        Self { outcome: Decision::RateLimited { retry_after, service } }
    }

    /// The job is given back undone, for another worker; the attempt is not counted.
    pub fn hand_back() -> Self {
        Self { outcome: Decision::HandBack }
    }

    /// The same failure with a finer word that `retry_on` may name.
    #[must_use]
    pub fn with_code(mut self, word: impl Into<String>) -> Self {
        if let Decision::Failed { code, .. } = &mut self.outcome {
            *code = Some(word.into());
        }
        self
    }

    /// The same failure, which only this one of the job's services is to blame for.
    #[must_use]
    pub fn blaming(mut self, name: impl Into<String>) -> Self {
        if let Decision::Failed { service, .. } = &mut self.outcome {
            *service = Some(name.into());
        }
        self
    }

    fn failed(kind: ErrorKind, error: impl fmt::Display) -> Self {
        let error = error.to_string();
        Self { outcome: Decision::Failed { error, kind, code: None, service: None } }
    }

    /// What the store is told. A service name that cannot be one blames nobody in particular.
    pub(crate) fn into_outcome(self) -> Outcome {
        let named = |name: Option<String>| name.and_then(|name| ServiceName::new(name).ok());
        match self.outcome {
            Decision::Failed { error, kind, code, service } => {
                Outcome::Failed { error, kind, code, service: named(service) }
            }
            Decision::RateLimited { retry_after, service } => {
                Outcome::RateLimited { retry_after, service: named(service) }
            }
            Decision::HandBack => Outcome::HandBack,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.outcome {
            Decision::Failed { error, .. } => f.write_str(error),
            Decision::RateLimited { retry_after, .. } => {
                write!(f, "rate limited for {retry_after:?}")
            }
            Decision::HandBack => f.write_str("handed back"),
        }
    }
}

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        let mut text = error.to_string();
        let mut cause = error.source();
        while let Some(inner) = cause {
            let more = inner.to_string();
            // Many errors repeat their source in their own words.
            if !text.contains(&more) {
                text.push_str(": ");
                text.push_str(&more);
            }
            cause = inner.source();
        }
        Self::transient(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_error_is_transient_and_tells_its_causes() {
        let failure: Failure = "x".parse::<i32>().unwrap_err().into();
        let Outcome::Failed { kind, error, .. } = failure.into_outcome() else { unreachable!() };
        assert_eq!((kind, error.as_str()), (ErrorKind::Transient, "invalid digit found in string"));
    }

    #[test]
    fn a_code_and_a_blamed_service_are_carried() {
        let failure = Failure::transient("no").with_code("exit 75").blaming("api");
        let Outcome::Failed { code, service, .. } = failure.into_outcome() else { unreachable!() };
        assert_eq!(code.as_deref(), Some("exit 75"));
        assert_eq!(service.unwrap().as_str(), "api");
    }
}
