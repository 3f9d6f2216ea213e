//! A job to and from its rows.

use std::sync::Arc;

use runcue_core::{
    Job, JobId, Json, LaneId, Lease, Life, Seq, State, Timestamp, Token, Wait, WorkerId,
};
use runcue_store::stage::{
    self, BLOCKED, CANCELLED, COMPLETED, DELAYED, FAILED, LEASED, QUARANTINED, READY, RUNNING,
};
use rusqlite::Row;

use crate::failure::unreadable;
use crate::specs::Specs;

/// The columns [`bare_job`] reads, in its order.
pub const BARE_COLUMNS: &str = "job.seq, job.lane, job.stage, job.due, job.prerequisites, job.attempt, \
    job.earlier_attempts, job.crashes, job.created_at, job.queued_at, job.started_at, job.worker, job.token, \
    job.start_by, job.cancel_requested, job.has_dependents, job.has_outcome, body.spec, body.target, body.params, job.id";

/// The columns [`ready_job`] reads, in its order. What a job that waits for its turn cannot have is not asked for.
pub const READY_COLUMNS: &str = "job.id, job.attempt, job.earlier_attempts, job.crashes, job.created_at, \
    job.queued_at, job.started_at, job.cancel_requested, job.has_dependents, job.has_outcome, body.spec, \
    body.target, body.params";

/// The columns [`job`] reads, in its order: the bare ones, then the outcome's.
pub const COLUMNS: &str = "job.seq, job.lane, job.stage, job.due, job.prerequisites, job.attempt, \
    job.earlier_attempts, job.crashes, job.created_at, job.queued_at, job.started_at, job.worker, job.token, \
    job.start_by, job.cancel_requested, job.has_dependents, job.has_outcome, body.spec, body.target, body.params, \
    job.id, outcome.last_error, outcome.failures, outcome.result, outcome.result_key, outcome.progress";

/// The tables those columns come from.
pub const FROM: &str =
    "job JOIN body ON body.seq = job.seq LEFT JOIN outcome ON outcome.seq = job.seq";

const OUTCOME: usize = 21;

/// The stage of a life, and the instant it is found by.
pub fn stage(life: &Life) -> (u8, Option<i64>) {
    (stage::stage(&life.state), stage::due(life).map(Timestamp::as_micros))
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
pub fn job(row: &Row<'_>, specs: &mut Specs) -> rusqlite::Result<Job> {
    let mut job = bare_job(row, 0, specs)?.0;
    read_outcome(&mut job.life, row, OUTCOME)?;
    Ok(job)
}

/// Reads a job from a row with [`BARE_COLUMNS`] from a column on, and whether it has an outcome besides.
pub fn bare_job(row: &Row<'_>, from: usize, specs: &mut Specs) -> rusqlite::Result<(Job, bool)> {
    let id = JobId::from_u128(id_bits(row.get_ref(from + 20)?.as_blob()?)?);
    let params = row.get_ref(from + 19)?.as_str_or_null()?;
    let spec = specs.read(row.get_ref(from + 17)?.as_str()?, id, row.get(from + 18)?, params)?;
    let stage: u8 = row.get(from + 2)?;
    let due: Option<i64> = row.get(from + 3)?;
    let attempt: u32 = row.get(from + 5)?;
    let due_at = Timestamp::from_micros(due.unwrap_or(0));
    let state = match stage {
        READY => State::Queued(Wait::Turn),
        DELAYED => State::Queued(Wait::Until(due_at)),
        BLOCKED => State::Queued(Wait::Prerequisites(row.get(from + 4)?)),
        LEASED => State::Leased(lease(row, from, id, attempt, due_at)?),
        RUNNING => State::Running(lease(row, from, id, attempt, due_at)?),
        COMPLETED => State::Completed,
        FAILED => State::Failed,
        CANCELLED => State::Cancelled,
        QUARANTINED => State::Quarantined,
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

/// Reads a job that waits for its turn from a row with [`READY_COLUMNS`] from a column on, and whether it has an
/// outcome besides.
pub fn ready_job(
    row: &Row<'_>,
    from: usize,
    (lane, seq): (LaneId, Seq),
    specs: &mut Specs,
) -> rusqlite::Result<(Job, bool)> {
    let id = JobId::from_u128(id_bits(row.get_ref(from)?.as_blob()?)?);
    let params = row.get_ref(from + 12)?.as_str_or_null()?;
    let spec = specs.read(row.get_ref(from + 10)?.as_str()?, id, row.get(from + 11)?, params)?;
    let life = Life {
        attempt: row.get(from + 1)?,
        earlier_attempts: row.get(from + 2)?,
        crashes: row.get(from + 3)?,
        queued_at: Timestamp::from_micros(row.get(from + 5)?),
        started_at: row.get::<_, Option<i64>>(from + 6)?.map(Timestamp::from_micros),
        cancel_requested: row.get(from + 7)?,
        ..Life::begin(Timestamp::from_micros(row.get(from + 4)?), Wait::Turn)
    };
    let has_dependents = row.get(from + 8)?;
    Ok((Job { seq, lane, spec: Arc::new(spec), life, has_dependents }, row.get(from + 9)?))
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
