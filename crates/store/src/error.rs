//! What can go wrong with a store. A variant tells the caller what to do.

use runcue_core::submission::Invalid;
use runcue_core::{JobId, QueueName, ServiceName};

/// Why an operation did not happen. Nothing of it did.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Try again later: the store is there but could not do it now.
    #[error("the store is not available: {0}")]
    Unavailable(String),
    /// A job of a submission is not acceptable as it stands.
    #[error("job {index}: {why}")]
    Invalid {
        /// Its place in the batch.
        index: usize,
        /// What is wrong with it.
        why: Invalid,
    },
    /// A submission has too many jobs.
    #[error("{len} jobs in one submission, at most {max} are allowed; submit them in parts")]
    TooMany {
        /// How many.
        len: usize,
        /// How many may be.
        max: usize,
    },
    /// A job names a service that is not defined.
    #[error("job {index} uses service {service}, which is not defined; define it first")]
    UnknownService {
        /// The job's place in the batch.
        index: usize,
        /// The service.
        service: ServiceName,
    },
    /// A job needs more of a service than it will ever have.
    #[error(
        "job {index} needs {units} units of service {service}, whose limit is {most}; it could never start"
    )]
    NeverFits {
        /// The job's place in the batch.
        index: usize,
        /// The service.
        service: ServiceName,
        /// What it needs.
        units: u64,
        /// What there is.
        most: u64,
    },
    /// A job depends on a job that does not exist.
    #[error("job {index} depends on {prerequisite}, which does not exist")]
    UnknownPrerequisite {
        /// The job's place in the batch.
        index: usize,
        /// The job it names.
        prerequisite: JobId,
    },
    /// Jobs of a submission wait for each other.
    #[error("the jobs wait for each other in a circle: {}", path(.0))]
    Cycle(Vec<JobId>),
    /// Two jobs of a submission have the same id.
    #[error("job {index} has the id {id}, which an earlier job of the same submission has")]
    RepeatedId {
        /// The later job's place in the batch.
        index: usize,
        /// The id.
        id: JobId,
    },
    /// The idempotency key belongs to a job that failed, and such keys are not given out again.
    #[error(
        "job {index}: its idempotency key belongs to job {existing}, which did not complete; retry that one"
    )]
    KeyTaken {
        /// The job's place in the batch.
        index: usize,
        /// The job that has the key.
        existing: JobId,
    },
    /// The queue is full: wait, or raise its cap.
    #[error("queue {queue} is full: {queued} of {max} jobs are waiting")]
    Full {
        /// The queue.
        queue: QueueName,
        /// How many wait.
        queued: u64,
        /// How many may.
        max: u64,
        /// The queue's rule is that the submitter waits.
        block: bool,
    },
    /// There is no such job.
    #[error("there is no job {0}")]
    NotFound(JobId),
    /// The store was written by a newer runcue.
    #[error(
        "{place} was written by a newer runcue (schema {found}, this one knows {known}); upgrade runcue"
    )]
    Newer {
        /// Where.
        place: String,
        /// Its schema.
        found: u32,
        /// The newest known schema.
        known: u32,
    },
    /// The stored data is damaged; do not go on.
    #[error("{place} is damaged: {why}")]
    Corrupt {
        /// Where.
        place: String,
        /// What was found.
        why: String,
    },
    /// The store may not be written.
    #[error("{place} cannot be written: {why}")]
    ReadOnly {
        /// Where.
        place: String,
        /// What was found.
        why: String,
    },
    /// There is no space left.
    #[error("the disk that holds {place} is full; free some space, nothing acknowledged is lost")]
    DiskFull {
        /// Where.
        place: String,
    },
    /// The address of the store cannot be used.
    #[error("{place}: {why}")]
    BadAddress {
        /// What was given.
        place: String,
        /// What is wrong with it, and the fix.
        why: String,
    },
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
}

impl StoreError {
    /// Whether the same call may succeed later without anyone changing anything.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Unavailable(_) | Self::DiskFull { .. } | Self::Full { .. })
    }

    /// The same error for another caller of the same transaction. A refusal concerns one caller alone.
    pub fn repeat(&self) -> Self {
        let (place, why) = match self {
            Self::DiskFull { place } => return Self::DiskFull { place: place.clone() },
            Self::Newer { place, found, known } => {
                return Self::Newer { place: place.clone(), found: *found, known: *known };
            }
            Self::Unavailable(why) => return Self::Unavailable(why.clone()),
            Self::Closed => return Self::Closed,
            Self::ReadOnly { place, why }
            | Self::Corrupt { place, why }
            | Self::BadAddress { place, why } => (place.clone(), why.clone()),
            other => return Self::Unavailable(other.to_string()),
        };
        match self {
            Self::ReadOnly { .. } => Self::ReadOnly { place, why },
            Self::Corrupt { .. } => Self::Corrupt { place, why },
            _ => Self::BadAddress { place, why },
        }
    }
}

fn path(ids: &[JobId]) -> String {
    let ids: Vec<String> = ids.iter().map(JobId::to_string).collect();
    ids.join(" -> ")
}
