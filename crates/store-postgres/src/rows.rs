//! A job to and from its rows. The one place that knows the numbers of the stages.

use std::sync::Arc;

use runcue_core::{
    Failure, Job, JobId, JobSpec, Json, LaneId, Lease, Life, Progress, Seq, State, StateWord,
    Timestamp, Token, Wait, WorkerId,
};
use serde::{Deserialize, Serialize};
use tokio_postgres::Row;
use uuid::Uuid;

const READY: i16 = 0;
const DELAYED: i16 = 1;
const BLOCKED: i16 = 2;
const LEASED: i16 = 3;
const RUNNING: i16 = 4;

const CANCEL_REQUESTED: i16 = 1;
const HAS_DEPENDENTS: i16 = 2;

/// The columns [`job`] reads, in its order, of a job in whatever state. One that is found in a run of leases has no row
/// of its own; one that is found nowhere is ready, and nothing has happened to it.
pub const COLUMNS: &str = "job.seq, job.lane, job.created_at, job.spec, \
    coalesce(live.stage, done.stage, held.stage, 0::smallint), coalesce(live.due, held.due), live.prerequisites, \
    coalesce(live.attempt, done.attempt, held.attempt, 0), \
    coalesce(live.earlier_attempts, done.earlier_attempts, 0), coalesce(live.crashes, done.crashes, 0), \
    coalesce(live.queued_at, done.queued_at, job.created_at), \
    coalesce(live.started_at, done.started_at, held.started_at), coalesce(live.worker, held.worker), \
    coalesce(live.token, held.token + array_position(held.seqs, job.seq) - 1), \
    coalesce(live.start_by, held.start_by), coalesce(live.flags, done.flags, 0::smallint), \
    coalesce(live.outcome, done.outcome), done.ended_at";

/// The tables those columns come from, besides `job`. Runs are looked at only for a job that is in neither of the others. Keys
/// are compared with lists, and runs are not asked for in the order of their index: migration 8 says why.
pub const STATES: &str = "LEFT JOIN runcue.live ON live.seq = ANY (ARRAY[job.seq]) \
    LEFT JOIN runcue.done ON done.seq = ANY (ARRAY[job.seq]) \
    LEFT JOIN LATERAL (SELECT * FROM runcue.lease_run AS run WHERE live.seq IS NULL AND done.seq IS NULL \
        AND run.span @> job.seq AND job.seq = ANY (run.seqs) ORDER BY -run.token LIMIT 1) AS held ON true";

/// The same columns of a job that is known to be ready, with its row in `live` as `ready`, if it has one.
pub const READY_COLUMNS: &str = "job.seq, job.lane, job.created_at, job.spec, 0::smallint, NULL::bigint, 0, \
    coalesce(ready.attempt, 0), coalesce(ready.earlier_attempts, 0), coalesce(ready.crashes, 0), \
    coalesce(ready.queued_at, job.created_at), ready.started_at, NULL::uuid, NULL::bigint, NULL::bigint, \
    coalesce(ready.flags, 0::smallint), ready.outcome, NULL::bigint";

/// What came of a job, if there is anything to say.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct Outcome {
    #[serde(skip_serializing_if = "Option::is_none")]
    last_error: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    failures: Vec<Failure>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<Json>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result_key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    progress: Option<Progress>,
}

/// Why a row does not read back.
pub type Misread = String;

/// Numbers that PostgreSQL holds as signed.
pub fn signed(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

/// And back.
pub fn unsigned(n: i64) -> u64 {
    u64::try_from(n).unwrap_or(0)
}

/// Counts that PostgreSQL holds in four bytes.
pub fn small(n: u32) -> i32 {
    i32::try_from(n).unwrap_or(i32::MAX)
}

fn count(n: i32) -> u32 {
    u32::try_from(n).unwrap_or(0)
}

/// A job's id as it is stored.
pub fn id_of(id: JobId) -> Uuid {
    Uuid::from_u128(id.as_u128())
}

/// The order in a lane as it is stored: smaller is sooner.
pub fn rank_of(priority: i32) -> i64 {
    -i64::from(priority)
}

/// And back.
pub fn priority_of(rank: i64) -> i32 {
    i32::try_from(-rank).unwrap_or(if rank > 0 { i32::MIN } else { i32::MAX })
}

/// Reads stored JSON.
pub fn parsed<'a, T: Deserialize<'a>>(what: &str, text: &'a str) -> Result<T, Misread> {
    serde_json::from_str(text).map_err(|error| format!("{what}: {error}"))
}

/// Writes JSON to be stored.
pub fn text<T: Serialize + ?Sized>(value: &T) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

/// The stages that a word for a state covers.
pub fn stages(word: StateWord) -> &'static [i16] {
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

/// The stage of a job that has not ended, and the instant it is found by.
pub fn stage(state: &State) -> (i16, Option<i64>) {
    match state {
        State::Queued(Wait::Turn) => (READY, None),
        State::Queued(Wait::Until(at)) => (DELAYED, Some(at.as_micros())),
        State::Queued(Wait::Prerequisites(_)) => (BLOCKED, None),
        State::Leased(lease) => (LEASED, Some(lease.until.as_micros())),
        State::Running(lease) => (RUNNING, Some(lease.until.as_micros())),
        ended => (stages(ended.word())[0], None),
    }
}

/// A job's switches as they are stored.
pub fn flags(job: &Job) -> i16 {
    let cancel = if job.life.cancel_requested { CANCEL_REQUESTED } else { 0 };
    cancel | if job.has_dependents { HAS_DEPENDENTS } else { 0 }
}

/// What came of a job so far, if there is anything to say.
pub fn outcome(life: &Life) -> Option<String> {
    let nothing = life.last_error.is_none()
        && life.failures.is_empty()
        && life.result.is_none()
        && life.result_key.is_none()
        && life.progress.is_none();
    (!nothing).then(|| {
        text(&Outcome {
            last_error: life.last_error.clone(),
            failures: life.failures.clone(),
            result: life.result.clone(),
            result_key: life.result_key.clone(),
            progress: life.progress.clone(),
        })
    })
}

/// Reads a job from a row with [`COLUMNS`].
pub fn job(row: &Row) -> Result<Job, Misread> {
    job_from(row, 0)
}

/// The same from some column on.
pub fn job_from(row: &Row, from: usize) -> Result<Job, Misread> {
    let at = |n: usize| from + n;
    let spec: JobSpec = parsed("spec", row.get(at(3)))?;
    let instant = |n: usize| row.get::<_, Option<i64>>(at(n)).map(Timestamp::from_micros);
    let due = instant(5).unwrap_or_default();
    let attempt = count(row.get(at(7)));
    let stage: Option<i16> = row.get(at(4));
    let state = match stage.ok_or("a job without a state")? {
        READY => State::Queued(Wait::Turn),
        DELAYED => State::Queued(Wait::Until(due)),
        BLOCKED => State::Queued(Wait::Prerequisites(count(row.get(at(6))))),
        LEASED => State::Leased(lease(row, from, spec.id, attempt, due)?),
        RUNNING => State::Running(lease(row, from, spec.id, attempt, due)?),
        5 => State::Completed,
        6 => State::Failed,
        7 => State::Cancelled,
        8 => State::Quarantined,
        other => return Err(format!("stage {other}")),
    };
    let flags: i16 = row.get(at(15));
    let outcome: Outcome = match row.get::<_, Option<&str>>(at(16)) {
        Some(text) => parsed("outcome", text)?,
        None => Outcome::default(),
    };
    let created_at = Timestamp::from_micros(row.get(at(2)));
    let life = Life {
        state,
        attempt,
        earlier_attempts: count(row.get(at(8))),
        crashes: count(row.get(at(9))),
        created_at,
        queued_at: Timestamp::from_micros(row.get(at(10))),
        started_at: instant(11),
        finished_at: instant(17),
        last_error: outcome.last_error,
        failures: outcome.failures,
        cancel_requested: flags & CANCEL_REQUESTED != 0,
        result: outcome.result,
        result_key: outcome.result_key,
        progress: outcome.progress,
    };
    Ok(Job {
        seq: Seq(unsigned(row.get(at(0)))),
        lane: LaneId(unsigned(row.get(at(1)))),
        spec: Arc::new(spec),
        life,
        has_dependents: flags & HAS_DEPENDENTS != 0,
    })
}

fn lease(
    row: &Row,
    from: usize,
    job: JobId,
    attempt: u32,
    until: Timestamp,
) -> Result<Lease, Misread> {
    let worker: Option<Uuid> = row.get(from + 12);
    let token: Option<i64> = row.get(from + 13);
    let start_by = row.get::<_, Option<i64>>(from + 14).map(Timestamp::from_micros);
    let worker = WorkerId::from_u128(worker.ok_or("a lease without a worker")?.as_u128());
    let token = Token(unsigned(token.ok_or("a lease without a token")?));
    Ok(Lease { job, attempt, worker, token, until, start_by })
}
