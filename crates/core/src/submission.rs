//! What a submission must look like, and what a second one with the same idempotency key gets.

use serde::{Deserialize, Serialize};

use crate::job::{JobSpec, StateWord};

/// The largest params or result, in bytes.
pub const MAX_PAYLOAD: usize = 1024 * 1024;
/// The longest target, in bytes.
pub const MAX_TARGET: usize = 64 * 1024;
/// The longest idempotency key, project, label or tag, in bytes.
pub const MAX_TEXT: usize = 1024;
/// The most labels, tags or services of one job.
pub const MAX_WORDS: usize = 64;
/// The most prerequisites of one job.
pub const MAX_PREREQUISITES: usize = 100_000;
/// The most jobs in one submission.
pub const MAX_BATCH: usize = 1_000_000;

/// Why a job was refused as it stands. Each names the field and the bound.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    /// Something is larger than it may be.
    #[error("{field} has {len} {unit}, at most {max} are allowed{fix}")]
    TooLarge {
        /// Where.
        field: &'static str,
        /// How much there is.
        len: usize,
        /// How much there may be.
        max: usize,
        /// Of what.
        unit: &'static str,
        /// What to do about it.
        fix: &'static str,
    },
    /// A number that makes no sense.
    #[error("{field} must be at least 1")]
    Zero {
        /// Where.
        field: &'static str,
    },
}

/// Checks every bound of a job from outside.
pub fn check(spec: &JobSpec) -> Result<(), Invalid> {
    let fix = "; put large data in a file or object store and pass its address";
    bound("params", spec.params.as_str().len(), MAX_PAYLOAD, "bytes", fix)?;
    bound("target", text_len(&spec.target), MAX_TARGET, "bytes", fix)?;
    bound("idempotency_key", text_len(&spec.idempotency_key), MAX_TEXT, "bytes", "; use a hash")?;
    bound("project", text_len(&spec.project), MAX_TEXT, "bytes", "")?;
    bound("solver_url", text_len(&spec.solver_url), MAX_TARGET, "bytes", "")?;
    bound("solver_checksum", text_len(&spec.solver_checksum), MAX_TEXT, "bytes", "")?;
    bound("labels", spec.labels.len(), MAX_WORDS, "entries", "")?;
    bound("requires.tags", spec.requires.tags.len(), MAX_WORDS, "entries", "")?;
    bound("services", spec.services.len(), MAX_WORDS, "entries", "")?;
    bound("depends_on", spec.depends_on.len(), MAX_PREREQUISITES, "entries", "")?;
    let words = spec.labels.iter().chain(&spec.requires.tags);
    let longest = words.map(String::len).max().unwrap_or(0);
    bound("labels or requires.tags", longest, MAX_TEXT, "bytes in one entry", "")?;
    if spec.retry.max_attempts == 0 {
        return Err(Invalid::Zero { field: "retry.max_attempts" });
    }
    if spec.services.iter().any(|used| used.units == 0) {
        return Err(Invalid::Zero { field: "services.units" });
    }
    Ok(())
}

/// Brings a job into the one form that is stored: services sorted and named once, prerequisites named once.
pub fn normalise(spec: &mut JobSpec) {
    spec.services.sort();
    spec.services.dedup_by(|later, earlier| {
        let same = later.service == earlier.service;
        if same {
            earlier.units = earlier.units.saturating_add(later.units);
        }
        same
    });
    if spec.depends_on.len() > 1 {
        let mut seen = std::collections::HashSet::with_capacity(spec.depends_on.len());
        spec.depends_on.retain(|id| seen.insert(*id));
    }
}

fn text_len(text: &Option<String>) -> usize {
    text.as_ref().map_or(0, String::len)
}

fn bound(
    field: &'static str,
    len: usize,
    max: usize,
    unit: &'static str,
    fix: &'static str,
) -> Result<(), Invalid> {
    if len > max {
        return Err(Invalid::TooLarge { field, len, max, unit, fix });
    }
    Ok(())
}

/// What a key whose job failed means for a second job with it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AfterFailure {
    /// The second job is accepted and takes the key over.
    #[default]
    Resubmit,
    /// The second job is refused.
    Reject,
}

/// What becomes of a second job with a key that is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Duplicate {
    /// The first job is returned.
    Existing,
    /// It is refused.
    Refused,
    /// It is accepted and takes the key over.
    Accepted,
}

/// The idempotency rule.
pub fn duplicate(existing: StateWord, after_failure: AfterFailure) -> Duplicate {
    match existing {
        StateWord::Queued | StateWord::Leased | StateWord::Running | StateWord::Completed => {
            Duplicate::Existing
        }
        StateWord::Failed | StateWord::Cancelled | StateWord::Quarantined => match after_failure {
            AfterFailure::Resubmit => Duplicate::Accepted,
            AfterFailure::Reject => Duplicate::Refused,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{JobId, Json, ServiceName, TaskName, Use};

    fn spec() -> JobSpec {
        JobSpec::new(JobId::from_u128(1), TaskName::new("t").unwrap())
    }

    #[test]
    fn params_over_a_mebibyte_are_refused_with_the_fix() {
        let params = Json::trusted(format!("\"{}\"", "x".repeat(MAX_PAYLOAD)));
        let error = check(&JobSpec { params, ..spec() }).unwrap_err().to_string();
        assert!(
            error.contains("params")
                && error.contains("1048576")
                && error.contains("pass its address")
        );
        let params = Json::trusted(format!("\"{}\"", "x".repeat(MAX_PAYLOAD - 2)));
        assert_eq!(check(&JobSpec { params, ..spec() }), Ok(()));
    }

    #[test]
    fn services_are_sorted_and_named_once() {
        let used = |name: &str| Use::one(ServiceName::new(name).unwrap());
        let mut job = JobSpec { services: vec![used("s3"), used("api"), used("s3")], ..spec() };
        normalise(&mut job);
        let names: Vec<_> = job.services.iter().map(|u| (u.service.as_str(), u.units)).collect();
        assert_eq!(names, [("api", 1), ("s3", 2)]);
    }

    #[test]
    fn a_live_or_completed_job_answers_for_its_key() {
        for state in StateWord::ALL {
            let answer = duplicate(state, AfterFailure::Reject);
            let failed =
                matches!(state, StateWord::Failed | StateWord::Cancelled | StateWord::Quarantined);
            assert_eq!(answer, if failed { Duplicate::Refused } else { Duplicate::Existing });
        }
        assert_eq!(duplicate(StateWord::Failed, AfterFailure::Resubmit), Duplicate::Accepted);
    }
}
