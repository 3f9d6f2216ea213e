//! Schedules: jobs that are submitted again and again, by the clock. Owns [`ScheduleSpec`] and the decision
//! which firings are due; when a timetable fires is [`crate::timetable`]'s, submitting is a store's.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::ids::{JobId, ScheduleName};
use crate::job::JobSpec;
use crate::submission::{self, Invalid};
use crate::time::Timestamp;
use crate::timetable::{BadTimetable, Timetable};

/// A firing that is no later than this is on time: daemons are busy for a moment now and then.
pub const GRACE: Duration = Duration::from_secs(60);
/// How many missed firings `all` makes up for at the most; the oldest are left out.
pub const MOST_MISSED: usize = 1000;

/// What becomes of firings that nobody was there for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Missed {
    /// Nothing: the schedule goes on with its next firing.
    #[default]
    Skip,
    /// One firing makes up for all of them.
    Once,
    /// Each is made up for, up to [`MOST_MISSED`].
    All,
}

/// What happens while the job of the firing before is not finished.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Overlap {
    /// Another job is submitted all the same.
    #[default]
    Allow,
    /// The firing is left out.
    Skip,
}

/// What is submitted when.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScheduleSpec {
    /// Its name.
    pub name: ScheduleName,
    /// When, as a cron expression; see [`Timetable::parse`]. It is kept as text, so that a queue can be opened
    /// by a version that does not understand it.
    pub cron: String,
    /// The time zone the expression is read in, by its IANA name.
    #[serde(default = "utc")]
    pub zone: String,
    /// The job of every firing. Its id is not used: each firing has its own.
    pub job: JobSpec,
    /// What becomes of firings that nobody was there for.
    #[serde(default)]
    pub missed: Missed,
    /// What happens while the job of the firing before is not finished.
    #[serde(default)]
    pub overlap: Overlap,
    /// It does not fire now.
    #[serde(default)]
    pub paused: bool,
}

fn utc() -> String {
    "UTC".to_owned()
}

/// Why a schedule was refused as it stands.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadSchedule {
    /// Its expression or its zone.
    #[error(transparent)]
    Timetable(#[from] BadTimetable),
    /// Its job.
    #[error("its job: {0}")]
    Job(#[from] Invalid),
    /// Something that would be the same for every firing.
    #[error("its job may not have {field}: {why}")]
    Field {
        /// Which.
        field: &'static str,
        /// Why not.
        why: &'static str,
    },
}

impl ScheduleSpec {
    /// A schedule in UTC with every default.
    pub fn new(name: ScheduleName, cron: impl Into<String>, job: JobSpec) -> Self {
        Self {
            name,
            cron: cron.into(),
            zone: utc(),
            job: JobSpec { id: JobId::from_u128(0), ..job },
            missed: Missed::default(),
            overlap: Overlap::default(),
            paused: false,
        }
    }

    /// When it fires.
    pub fn timetable(&self) -> Result<Timetable, BadTimetable> {
        Timetable::parse(&self.cron, &self.zone)
    }

    /// Checks everything that can be checked without a store; answers when it fires.
    pub fn check(&self) -> Result<Timetable, BadSchedule> {
        let timetable = self.timetable()?;
        submission::check(&self.job)?;
        let fields = [
            ("run_at", self.job.run_at.is_some(), "every firing has its own instant"),
            ("expires_at", self.job.expires_at.is_some(), "it would pass once for all firings"),
            (
                "idempotency_key",
                self.job.idempotency_key.is_some(),
                "all firings after the first would count as repeated",
            ),
            (
                "depends_on",
                !self.job.depends_on.is_empty(),
                "a prerequisite is done once, a schedule fires again and again",
            ),
            ("traceparent", self.job.traceparent.is_some(), "every firing is a trace of its own"),
        ];
        match fields.into_iter().find(|(_, given, _)| *given) {
            Some((field, _, why)) => Err(BadSchedule::Field { field, why }),
            None => Ok(timetable),
        }
    }

    /// Whether both fire at the same instants.
    pub fn fires_like(&self, other: &Self) -> bool {
        self.cron == other.cron && self.zone == other.zone && self.paused == other.paused
    }

    /// The job of the firing at an instant. It is the same one whoever submits it.
    pub fn job_at(&self, at: Timestamp) -> JobSpec {
        JobSpec { id: firing_id(&self.name, at), run_at: Some(at), ..self.job.clone() }
    }

    /// The instants to submit for now, oldest first, of a schedule whose next firing was to be at `next`.
    pub fn due(&self, timetable: &Timetable, next: Timestamp, now: Timestamp) -> Vec<Timestamp> {
        let Some(last) = timetable.last_until(now, next) else { return Vec::new() };
        match self.missed {
            Missed::Skip if now.since(last) > GRACE => Vec::new(),
            Missed::Skip | Missed::Once => vec![last],
            Missed::All => all_between(timetable, next, last),
        }
    }
}

/// The firings from one to another, the latest of them where they are too many.
fn all_between(timetable: &Timetable, first: Timestamp, last: Timestamp) -> Vec<Timestamp> {
    let just_before = |at: Timestamp| Timestamp::from_micros(at.as_micros().saturating_sub(1));
    let mut due = Vec::new();
    let mut from = just_before(first);
    while due.len() <= MOST_MISSED {
        match timetable.next_after(from).filter(|at| *at <= last) {
            Some(at) => (from, _) = (at, due.push(at)),
            None => return due,
        }
    }
    due.clear();
    let mut until = Some(last);
    while due.len() < MOST_MISSED
        && let Some(at) = until
    {
        due.push(at);
        until = timetable.last_until(just_before(at), first);
    }
    due.reverse();
    due
}

/// The id of the job of a firing: ordered by time, and the same for everybody.
fn firing_id(name: &ScheduleName, at: Timestamp) -> JobId {
    // FNV-1a, 128 bits. Queues hold these ids: it must never change.
    let mut hash = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d_u128;
    for byte in name.as_str().bytes().chain(at.as_micros().to_be_bytes()) {
        hash = (hash ^ u128::from(byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b);
    }
    // The last digits are what people see, so the high bits are mixed down into them.
    hash ^= hash >> 67;
    hash = hash.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
    JobId::time_ordered(at, hash ^ (hash >> 71))
}
