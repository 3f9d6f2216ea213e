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

/// The columns [`bare_job`] reads, in its order.
pub const BARE_COLUMNS: &str = "job.seq, job.lane, job.stage, job.due, job.prerequisites, job.attempt, \
    job.earlier_attempts, job.crashes, job.created_at, job.queued_at, job.started_at, job.worker, job.token, \
    job.start_by, job.cancel_requested, job.has_dependents, job.has_outcome, body.spec";

/// The columns [`job`] reads, in its order: the bare ones, then the outcome's.
pub const COLUMNS: &str = "job.seq, job.lane, job.stage, job.due, job.prerequisites, job.attempt, \
    job.earlier_attempts, job.crashes, job.created_at, job.queued_at, job.started_at, job.worker, job.token, \
    job.start_by, job.cancel_requested, job.has_dependents, job.has_outcome, body.spec, outcome.last_error, \
    outcome.failures, outcome.result, outcome.result_key, outcome.progress";

/// The tables those columns come from.
pub const FROM: &str =
    "job JOIN body ON body.seq = job.seq LEFT JOIN outcome ON outcome.seq = job.seq";

const OUTCOME: usize = 18;

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
    let mut job = bare_job(row, 0)?.0;
    read_outcome(&mut job.life, row, OUTCOME)?;
    Ok(job)
}

/// Reads a job from a row with [`BARE_COLUMNS`] from a column on, and whether it has an outcome besides.
pub fn bare_job(row: &Row<'_>, from: usize) -> rusqlite::Result<(Job, bool)> {
    let spec: JobSpec = parsed("spec", row.get_ref(from + 17)?.as_str()?)?;
    let stage: i64 = row.get(from + 2)?;
    let due: Option<i64> = row.get(from + 3)?;
    let attempt: u32 = row.get(from + 5)?;
    let due_at = Timestamp::from_micros(due.unwrap_or(0));
    let state = match stage {
        READY => State::Queued(Wait::Turn),
        DELAYED => State::Queued(Wait::Until(due_at)),
        BLOCKED => State::Queued(Wait::Prerequisites(row.get(from + 4)?)),
        LEASED => State::Leased(lease(row, from, spec.id, attempt, due_at)?),
        RUNNING => State::Running(lease(row, from, spec.id, attempt, due_at)?),
        5 => State::Completed,
        6 => State::Failed,
        7 => State::Cancelled,
        8 => State::Quarantined,
        other => return Err(unreadable("stage", other)),
    };
    let finished_at = state.word().is_final().then_some(due_at);
    let created_at = Timestamp::from_micros(row.get(from + 8)?);
    let life = Life {
        attempt,
        earlier_attempts: row.get(from + 6)?,
        crashes: row.get(from + 7)?,
        queued_at: Timestamp::from_micros(row.get(from + 9)?),
        started_at: row.get::<_, Option<i64>>(from + 10)?.map(Timestamp::from_micros),
        finished_at,
        cancel_requested: row.get(from + 14)?,
        state,
        ..Life::begin(created_at, Wait::Turn)
    };
    let seq = Seq(unsigned(row.get(from)?));
    let lane = LaneId(unsigned(row.get(from + 1)?));
    Ok((
        Job { seq, lane, spec: Arc::new(spec), life, has_dependents: row.get(from + 15)? },
        row.get(from + 16)?,
    ))
}

/// Reads what came of a job: last_error, failures, result, result_key and progress, from a column on.
pub fn read_outcome(life: &mut Life, row: &Row<'_>, from: usize) -> rusqlite::Result<()> {
    life.last_error = row.get(from)?;
    if let Some(text) = row.get_ref(from + 1)?.as_str_or_null()? {
        life.failures = parsed("failures", text)?;
    }
    life.result = row.get::<_, Option<String>>(from + 2)?.map(Json::trusted);
    life.result_key = row.get(from + 3)?;
    if let Some(text) = row.get_ref(from + 4)?.as_str_or_null()? {
        life.progress = Some(parsed("progress", text)?);
    }
    Ok(())
}

fn lease(
    row: &Row<'_>,
    from: usize,
    job: JobId,
    attempt: u32,
    until: Timestamp,
) -> rusqlite::Result<Lease> {
    let worker = WorkerId::from_u128(id_bits(row.get_ref(from + 11)?.as_blob()?)?);
    let token = Token(unsigned(row.get(from + 12)?));
    let start_by = row.get::<_, Option<i64>>(from + 13)?.map(Timestamp::from_micros);
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
