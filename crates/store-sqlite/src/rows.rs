//! A job to and from its rows. The one place that knows the numbers of the stages.

use std::sync::Arc;

use runcue_core::{
    Job, JobId, JobSpec, Json, LaneId, Lease, Life, Seq, State, StateWord, Timestamp, Token, Wait,
    WorkerId,
};
use rusqlite::Row;

use crate::failure::unreadable;

pub const READY: i64 = 0;
pub const DELAYED: i64 = 1;
pub const BLOCKED: i64 = 2;
pub const LEASED: i64 = 3;
pub const RUNNING: i64 = 4;

/// The columns [`job`] reads, in its order.
pub const COLUMNS: &str = "job.seq, job.id, job.lane, job.stage, job.due, job.prerequisites, job.attempt, \
    job.earlier_attempts, job.crashes, job.created_at, job.queued_at, job.started_at, job.worker, job.token, \
    job.start_by, job.cancel_requested, body.spec, outcome.last_error, outcome.failures, outcome.result, \
    outcome.result_key, outcome.progress";

/// The tables those columns come from.
pub const FROM: &str =
    "job JOIN body ON body.seq = job.seq LEFT JOIN outcome ON outcome.seq = job.seq";

/// The stage of a state, and the instant it is found by.
pub fn stage(life: &Life) -> (i64, Option<i64>) {
    let finished = life.finished_at.map(Timestamp::as_micros);
    match &life.state {
        State::Queued(Wait::Turn) => (READY, None),
        State::Queued(Wait::Until(at)) => (DELAYED, Some(at.as_micros())),
        State::Queued(Wait::Prerequisites(_)) => (BLOCKED, None),
        State::Leased(lease) => (LEASED, Some(lease.until.as_micros())),
        State::Running(lease) => (RUNNING, Some(lease.until.as_micros())),
        ended => (stages(ended.word())[0], finished),
    }
}

/// The stages that a word for a state covers.
pub fn stages(word: StateWord) -> &'static [i64] {
    match word {
        StateWord::Queued => &[READY, DELAYED, BLOCKED],
        StateWord::Leased => &[LEASED],
        StateWord::Running => &[RUNNING],
        StateWord::Completed => &[5],
        StateWord::Failed => &[6],
        StateWord::Cancelled => &[7],
        StateWord::Quarantined => &[8],
    }
}

/// Numbers that SQLite holds as signed.
pub fn signed(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

/// And back.
pub fn unsigned(n: i64) -> u64 {
    u64::try_from(n).unwrap_or(0)
}

/// An id as it is stored.
pub fn blob(id: u128) -> [u8; 16] {
    id.to_be_bytes()
}

/// An id as it was stored.
pub fn id_bits(bytes: &[u8]) -> rusqlite::Result<u128> {
    let bytes: [u8; 16] = bytes.try_into().map_err(|_| unreadable("id", "not 16 bytes"))?;
    Ok(u128::from_be_bytes(bytes))
}

/// Reads a job from a row with [`COLUMNS`].
pub fn job(row: &Row<'_>) -> rusqlite::Result<Job> {
    let spec: JobSpec = parsed("spec", row.get_ref(16)?.as_str()?)?;
    let stage: i64 = row.get(3)?;
    let due: Option<i64> = row.get(4)?;
    let attempt: u32 = row.get(6)?;
    let due_at = Timestamp::from_micros(due.unwrap_or(0));
    let state = match stage {
        READY => State::Queued(Wait::Turn),
        DELAYED => State::Queued(Wait::Until(due_at)),
        BLOCKED => State::Queued(Wait::Prerequisites(row.get(5)?)),
        LEASED => State::Leased(lease(row, spec.id, attempt, due_at)?),
        RUNNING => State::Running(lease(row, spec.id, attempt, due_at)?),
        5 => State::Completed,
        6 => State::Failed,
        7 => State::Cancelled,
        8 => State::Quarantined,
        other => return Err(unreadable("stage", other)),
    };
    let finished_at = state.word().is_final().then_some(due_at);
    let life = Life {
        state,
        attempt,
        earlier_attempts: row.get(7)?,
        crashes: row.get(8)?,
        created_at: Timestamp::from_micros(row.get(9)?),
        queued_at: Timestamp::from_micros(row.get(10)?),
        started_at: row.get::<_, Option<i64>>(11)?.map(Timestamp::from_micros),
        finished_at,
        last_error: row.get(17)?,
        failures: match row.get_ref(18)?.as_str_or_null()? {
            Some(text) => parsed("failures", text)?,
            None => Vec::new(),
        },
        cancel_requested: row.get(15)?,
        result: row.get::<_, Option<String>>(19)?.map(Json::trusted),
        result_key: row.get(20)?,
        progress: match row.get_ref(21)?.as_str_or_null()? {
            Some(text) => Some(parsed("progress", text)?),
            None => None,
        },
    };
    Ok(Job {
        seq: Seq(unsigned(row.get(0)?)),
        lane: LaneId(unsigned(row.get(2)?)),
        spec: Arc::new(spec),
        life,
    })
}

fn lease(row: &Row<'_>, job: JobId, attempt: u32, until: Timestamp) -> rusqlite::Result<Lease> {
    let worker = WorkerId::from_u128(id_bits(row.get_ref(12)?.as_blob()?)?);
    let token = Token(unsigned(row.get(13)?));
    let start_by = row.get::<_, Option<i64>>(14)?.map(Timestamp::from_micros);
    Ok(Lease { job, attempt, worker, token, until, start_by })
}

/// Reads stored JSON.
pub fn parsed<'a, T: serde::Deserialize<'a>>(what: &str, text: &'a str) -> rusqlite::Result<T> {
    serde_json::from_str(text).map_err(|error| unreadable(what, error))
}

/// Writes JSON to be stored.
pub fn text<T: serde::Serialize + ?Sized>(what: &str, value: &T) -> rusqlite::Result<String> {
    serde_json::to_string(value).map_err(|error| unreadable(what, error))
}
