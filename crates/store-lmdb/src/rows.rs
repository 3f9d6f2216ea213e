//! A job to and from its rows. The one place that knows the layout of a row.

use std::sync::Arc;

use runcue_core::{
    Failure, Job, JobId, JobSpec, Json, LaneId, Lease, Life, Progress, Seq, State, StateWord,
    Timestamp, Token, Wait, WorkerId,
};
use runcue_store::stage::{
    self, BLOCKED, CANCELLED, COMPLETED, DELAYED, FAILED, LEASED, QUARANTINED, READY, RUNNING,
};
use serde::{Deserialize, Serialize};

use crate::failure::unreadable;
use crate::keys;
use crate::view::{Table, View};

/// The kind under which leased and running jobs are found by when their lease lapses.
pub const HELD: u8 = 3;

/// The layout of a row. Rows of older ones are read as what they were.
const LAYOUT: u8 = 1;
const LEN: usize = 103;

const STARTED: u8 = 1;
const START_BY: u8 = 2;
const CANCEL: u8 = 4;
const DEPENDENTS: u8 = 8;
const OUTCOME: u8 = 16;
const DEADLINE: u8 = 32;

/// What a claim, a heartbeat and a finish touch of a job.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    pub stage: u8,
    pub priority: i32,
    pub lane: u64,
    /// Delayed: when its time comes; leased and running: when the lease lapses; then: when it finished.
    pub due: i64,
    pub prerequisites: u32,
    pub attempt: u32,
    pub earlier_attempts: u32,
    pub crashes: u32,
    pub created_at: i64,
    pub queued_at: i64,
    pub started_at: Option<i64>,
    pub worker: u128,
    pub token: u64,
    pub start_by: Option<i64>,
    pub deadline: Option<i64>,
    pub cancel_requested: bool,
    pub has_dependents: bool,
    pub has_outcome: bool,
}

impl Row {
    /// The row of a job.
    pub fn of(job: &Job) -> Self {
        let life = &job.life;
        let lease = life.state.lease();
        let prerequisites = match life.state {
            State::Queued(Wait::Prerequisites(left)) => left,
            _ => 0,
        };
        Self {
            stage: stage::stage(&life.state),
            priority: job.spec.priority,
            lane: job.lane.0,
            due: stage::due(life).unwrap_or_default().as_micros(),
            prerequisites,
            attempt: life.attempt,
            earlier_attempts: life.earlier_attempts,
            crashes: life.crashes,
            created_at: life.created_at.as_micros(),
            queued_at: life.queued_at.as_micros(),
            started_at: life.started_at.map(Timestamp::as_micros),
            worker: lease.map_or(0, |lease| lease.worker.as_u128()),
            token: lease.map_or(0, |lease| lease.token.0),
            start_by: lease.and_then(|lease| lease.start_by).map(Timestamp::as_micros),
            deadline: life.deadline(&job.spec).map(Timestamp::as_micros),
            cancel_requested: life.cancel_requested,
            has_dependents: job.has_dependents,
            has_outcome: Outcome::of(life).is_some(),
        }
    }

    /// As it is stored.
    pub fn to_bytes(&self) -> [u8; LEN] {
        let flag = |given: bool, bit: u8| if given { bit } else { 0 };
        let flags = flag(self.started_at.is_some(), STARTED)
            | flag(self.start_by.is_some(), START_BY)
            | flag(self.cancel_requested, CANCEL)
            | flag(self.has_dependents, DEPENDENTS)
            | flag(self.has_outcome, OUTCOME)
            | flag(self.deadline.is_some(), DEADLINE);
        let mut bytes = [0; LEN];
        let mut at = 0;
        let mut put = |part: &[u8]| {
            bytes[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        };
        put(&[LAYOUT, self.stage, flags]);
        put(&self.priority.to_be_bytes());
        put(&self.lane.to_be_bytes());
        put(&self.due.to_be_bytes());
        for n in [self.prerequisites, self.attempt, self.earlier_attempts, self.crashes] {
            put(&n.to_be_bytes());
        }
        for n in [self.created_at, self.queued_at, self.started_at.unwrap_or(0)] {
            put(&n.to_be_bytes());
        }
        put(&self.worker.to_be_bytes());
        put(&self.token.to_be_bytes());
        put(&self.start_by.unwrap_or(0).to_be_bytes());
        put(&self.deadline.unwrap_or(0).to_be_bytes());
        bytes
    }

    /// As it was stored.
    pub fn from_bytes(bytes: &[u8]) -> heed::Result<Self> {
        if bytes.len() != LEN || bytes[0] != LAYOUT {
            return Err(unreadable("job", "not a row of this layout"));
        }
        let mut at = 3;
        let mut part = |len: usize| {
            at += len;
            &bytes[at - len..at]
        };
        macro_rules! take {
            ($type:ty) => {
                <$type>::from_be_bytes(
                    part(size_of::<$type>())
                        .try_into()
                        .map_err(|_| unreadable("job", "a number is cut off"))?,
                )
            };
        }
        let flags = bytes[2];
        let given = |bit: u8, value: i64| (flags & bit != 0).then_some(value);
        Ok(Self {
            stage: bytes[1],
            priority: take!(i32),
            lane: take!(u64),
            due: take!(i64),
            prerequisites: take!(u32),
            attempt: take!(u32),
            earlier_attempts: take!(u32),
            crashes: take!(u32),
            created_at: take!(i64),
            queued_at: take!(i64),
            started_at: given(STARTED, take!(i64)),
            worker: take!(u128),
            token: take!(u64),
            start_by: given(START_BY, take!(i64)),
            deadline: given(DEADLINE, take!(i64)),
            cancel_requested: flags & CANCEL != 0,
            has_dependents: flags & DEPENDENTS != 0,
            has_outcome: flags & OUTCOME != 0,
        })
    }

    /// The word for its state.
    pub fn word(&self) -> heed::Result<StateWord> {
        stage::word(self.stage).ok_or_else(|| unreadable("stage", self.stage))
    }

    /// The kind and the instant it is found by, if it is.
    pub fn due(&self) -> Option<(u8, Timestamp)> {
        let at = Timestamp::from_micros(self.due);
        match self.stage {
            READY | BLOCKED => None,
            LEASED | RUNNING => Some((HELD, at)),
            stage => Some((stage, at)),
        }
    }

    fn state(&self, job: JobId) -> heed::Result<State> {
        let due = Timestamp::from_micros(self.due);
        let lease = || Lease {
            job,
            attempt: self.attempt,
            worker: WorkerId::from_u128(self.worker),
            token: Token(self.token),
            until: due,
            start_by: self.start_by.map(Timestamp::from_micros),
        };
        Ok(match self.stage {
            READY => State::Queued(Wait::Turn),
            DELAYED => State::Queued(Wait::Until(due)),
            BLOCKED => State::Queued(Wait::Prerequisites(self.prerequisites)),
            LEASED => State::Leased(lease()),
            RUNNING => State::Running(lease()),
            COMPLETED => State::Completed,
            FAILED => State::Failed,
            CANCELLED => State::Cancelled,
            QUARANTINED => State::Quarantined,
            other => return Err(unreadable("stage", other)),
        })
    }
}

/// The number that the jobs of a final state, or of one that is held, are found by.
pub fn kind(word: StateWord) -> u8 {
    stage::stages(word)[0]
}

/// What came of a job.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Outcome {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    last_error: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    failures: Vec<Failure>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    result: Option<Json>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    result_key: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    progress: Option<Progress>,
}

impl Outcome {
    /// What there is to say of a life, if there is anything.
    pub fn of(life: &Life) -> Option<Self> {
        let nothing = life.last_error.is_none()
            && life.failures.is_empty()
            && life.result.is_none()
            && life.result_key.is_none()
            && life.progress.is_none();
        (!nothing).then(|| Self {
            last_error: life.last_error.clone(),
            failures: life.failures.clone(),
            result: life.result.clone(),
            result_key: life.result_key.clone(),
            progress: life.progress.clone(),
        })
    }
}

/// The row of a job.
pub fn row(view: View<'_>, seq: Seq) -> heed::Result<Option<Row>> {
    view.get(Table::Job, &keys::number(seq.0))?.map(Row::from_bytes).transpose()
}

/// A job with everything.
pub fn job(view: View<'_>, seq: Seq) -> heed::Result<Option<Job>> {
    match row(view, seq)? {
        Some(row) => whole(view, seq, &row).map(Some),
        None => Ok(None),
    }
}

/// A job whose row was read.
pub fn whole(view: View<'_>, seq: Seq, row: &Row) -> heed::Result<Job> {
    let key = keys::number(seq.0);
    let body = view.get(Table::Body, &key)?;
    let spec: JobSpec = parsed("spec", body.ok_or_else(|| unreadable("spec", "it is missing"))?)?;
    let state = row.state(spec.id)?;
    let finished_at = state.word().is_final().then_some(Timestamp::from_micros(row.due));
    let outcome = match row.has_outcome {
        true => {
            view.get(Table::Outcome, &key)?.map(|bytes| parsed("outcome", bytes)).transpose()?
        }
        false => None,
    };
    let Outcome { last_error, failures, result, result_key, progress } =
        outcome.unwrap_or_default();
    let life = Life {
        state,
        attempt: row.attempt,
        earlier_attempts: row.earlier_attempts,
        crashes: row.crashes,
        created_at: Timestamp::from_micros(row.created_at),
        queued_at: Timestamp::from_micros(row.queued_at),
        started_at: row.started_at.map(Timestamp::from_micros),
        finished_at,
        last_error,
        failures,
        cancel_requested: row.cancel_requested,
        result,
        result_key,
        progress,
    };
    let has_dependents = row.has_dependents;
    Ok(Job { seq, lane: LaneId(row.lane), spec: Arc::new(spec), life, has_dependents })
}

/// The place of a job.
pub fn seq_of(view: View<'_>, id: JobId) -> heed::Result<Option<Seq>> {
    let found = view.get(Table::Id, &id.as_u128().to_be_bytes())?;
    Ok(found.and_then(|bytes| keys::number_at(bytes, 0)).map(Seq))
}

/// Reads stored JSON.
pub fn parsed<'a, T: Deserialize<'a>>(what: &str, bytes: &'a [u8]) -> heed::Result<T> {
    serde_json::from_slice(bytes).map_err(|error| unreadable(what, error))
}

/// Writes JSON to be stored.
pub fn text<T: Serialize + ?Sized>(what: &str, value: &T) -> heed::Result<Vec<u8>> {
    serde_json::to_vec(value).map_err(|error| unreadable(what, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_comes_back_as_it_was() {
        let plain = Row {
            stage: RUNNING,
            priority: -7,
            lane: 3,
            due: -1,
            prerequisites: 9,
            attempt: 2,
            earlier_attempts: 1,
            crashes: 4,
            created_at: i64::MIN,
            queued_at: i64::MAX,
            started_at: None,
            worker: u128::MAX - 5,
            token: 77,
            start_by: None,
            deadline: None,
            cancel_requested: false,
            has_dependents: true,
            has_outcome: false,
        };
        let full = Row {
            started_at: Some(0),
            start_by: Some(-3),
            deadline: Some(8),
            cancel_requested: true,
            has_outcome: true,
            ..plain.clone()
        };
        for row in [plain, full] {
            assert_eq!(Row::from_bytes(&row.to_bytes()).unwrap(), row);
        }
        assert!(Row::from_bytes(&[LAYOUT; 20]).is_err());
        assert!(Row::from_bytes(&[9; LEN]).is_err());
    }
}
