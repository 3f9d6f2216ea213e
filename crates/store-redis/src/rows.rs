//! Rows to and from what is stored: JSON with short names and without what is the default, because memory is
//! what Redis runs on.

use std::sync::Arc;

use runcue_core::breaker::Breaker;
use runcue_core::{
    Event, Failure, Job, JobSpec, Json, Key, LaneId, Lease, Life, Progress, Seq, ServiceName,
    ServiceSpec, State, StateWord, Timestamp, Token, Wait, WorkerId,
};
use runcue_store::overlay::{Earliest, Numbers};
use runcue_store::tables::{Counters, ServiceRow, UsageRow};
use serde::{Deserialize, Serialize};

use crate::failure::Unreadable;

/// What has happened to a job. The stages have the numbers that the SQLite store gives them.
#[derive(Debug, Serialize, Deserialize)]
struct StoredLife {
    /// Lane.
    l: u64,
    /// Stage.
    s: u8,
    /// Delayed: when its time comes; leased and running: when the lease lapses; then: when it finished.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    d: Option<i64>,
    /// Prerequisites left.
    #[serde(default, skip_serializing_if = "is_zero")]
    p: u32,
    /// Attempts.
    #[serde(default, skip_serializing_if = "is_zero")]
    a: u32,
    /// Earlier attempts.
    #[serde(default, skip_serializing_if = "is_zero")]
    e: u32,
    /// Crashes.
    #[serde(default, skip_serializing_if = "is_zero")]
    c: u32,
    /// Created at.
    t: i64,
    /// Queued at, if that is not when it was created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    q: Option<i64>,
    /// Started at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    b: Option<i64>,
    /// Worker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    w: Option<WorkerId>,
    /// Token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    k: Option<u64>,
    /// To be started by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    y: Option<i64>,
    /// Asked to stop.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    x: bool,
    /// Latest error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    m: Option<String>,
    /// Failures.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    f: Vec<Failure>,
    /// Result.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "even_null")]
    r: Option<Json>,
    /// What a repeated result is recognised by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    z: Option<String>,
    /// Progress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    g: Option<Progress>,
}

/// A result that is there, if only as `null`.
fn even_null<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<Json>, D::Error> {
    Json::deserialize(from).map(Some)
}

fn is_zero(n: &u32) -> bool {
    *n == 0
}

fn stage(state: &State) -> u8 {
    match state {
        State::Queued(Wait::Turn) => 0,
        State::Queued(Wait::Until(_)) => 1,
        State::Queued(Wait::Prerequisites(_)) => 2,
        State::Leased(_) => 3,
        State::Running(_) => 4,
        State::Completed => 5,
        State::Failed => 6,
        State::Cancelled => 7,
        State::Quarantined => 8,
    }
}

fn word(stage: u8) -> Result<StateWord, Unreadable> {
    Ok(match stage {
        0..=2 => StateWord::Queued,
        3 => StateWord::Leased,
        4 => StateWord::Running,
        5 => StateWord::Completed,
        6 => StateWord::Failed,
        7 => StateWord::Cancelled,
        8 => StateWord::Quarantined,
        other => return Err(Unreadable::new("stage", other)),
    })
}

/// A life to be stored with its lane.
pub fn life(job: &Job) -> Result<String, Unreadable> {
    let life = &job.life;
    let due = match &life.state {
        State::Queued(Wait::Until(at)) => Some(*at),
        State::Queued(_) => None,
        State::Leased(lease) | State::Running(lease) => Some(lease.until),
        _ => life.finished_at,
    };
    let prerequisites = match life.state {
        State::Queued(Wait::Prerequisites(left)) => left,
        _ => 0,
    };
    let lease = life.state.lease();
    json(
        "life",
        &StoredLife {
            l: job.lane.0,
            s: stage(&life.state),
            d: due.map(Timestamp::as_micros),
            p: prerequisites,
            a: life.attempt,
            e: life.earlier_attempts,
            c: life.crashes,
            t: life.created_at.as_micros(),
            q: Some(life.queued_at.as_micros()).filter(|_| life.queued_at != life.created_at),
            b: life.started_at.map(Timestamp::as_micros),
            w: lease.map(|lease| lease.worker),
            k: lease.map(|lease| lease.token.0),
            y: lease.and_then(|lease| lease.start_by).map(Timestamp::as_micros),
            x: life.cancel_requested,
            m: life.last_error.clone(),
            f: life.failures.clone(),
            r: life.result.clone(),
            z: life.result_key.clone(),
            g: life.progress.clone(),
        },
    )
}

/// A job from its two halves.
pub fn job(seq: Seq, spec: &[u8], life: &[u8], has_dependents: bool) -> Result<Job, Unreadable> {
    let spec: JobSpec = parsed("spec", spec)?;
    let stored: StoredLife = parsed("life", life)?;
    let due = Timestamp::from_micros(stored.d.unwrap_or(0));
    let lease = |stored: &StoredLife| Lease {
        job: spec.id,
        attempt: stored.a,
        worker: stored.w.unwrap_or(WorkerId::from_u128(0)),
        token: Token(stored.k.unwrap_or(0)),
        until: due,
        start_by: stored.y.map(Timestamp::from_micros),
    };
    let state = match stored.s {
        0 => State::Queued(Wait::Turn),
        1 => State::Queued(Wait::Until(due)),
        2 => State::Queued(Wait::Prerequisites(stored.p)),
        3 => State::Leased(lease(&stored)),
        4 => State::Running(lease(&stored)),
        5 => State::Completed,
        6 => State::Failed,
        7 => State::Cancelled,
        8 => State::Quarantined,
        other => return Err(Unreadable::new("stage", other)),
    };
    let finished_at = state.word().is_final().then_some(due);
    let lane = LaneId(stored.l);
    let life = Life {
        attempt: stored.a,
        earlier_attempts: stored.e,
        crashes: stored.c,
        queued_at: Timestamp::from_micros(stored.q.unwrap_or(stored.t)),
        started_at: stored.b.map(Timestamp::from_micros),
        finished_at,
        last_error: stored.m,
        failures: stored.f,
        cancel_requested: stored.x,
        result: stored.r,
        result_key: stored.z,
        progress: stored.g,
        ..Life::begin(Timestamp::from_micros(stored.t), Wait::Turn)
    };
    let life = Life { state, ..life };
    Ok(Job { seq, lane, spec: Arc::new(spec), life, has_dependents })
}

/// What a search looks at of a life, without the rest.
#[derive(Debug, Deserialize)]
struct StoredGlance {
    l: u64,
    s: u8,
    #[serde(default)]
    w: Option<WorkerId>,
}

/// A job as a search sees it.
#[derive(Debug)]
pub struct Glance {
    /// Its lane, which tells its queue, group, task, project and labels.
    pub lane: LaneId,
    /// Its state.
    pub state: StateWord,
    /// Who holds it.
    pub worker: Option<WorkerId>,
}

/// The little that a search needs of a life.
pub fn glance(life: &[u8]) -> Result<Glance, Unreadable> {
    let stored: StoredGlance = parsed("life", life)?;
    Ok(Glance { lane: LaneId(stored.l), state: word(stored.s)?, worker: stored.w })
}

/// The numbers that are kept with a revision.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct StoredNumbers {
    seq: u64,
    served: u64,
    event: u64,
    delayed: u64,
    blocked: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_served_group: Option<runcue_core::GroupName>,
    lane: u64,
    log: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    first_delayed: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    first_lapsing: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    first_deadline: Option<i64>,
}

/// Numbers to be stored.
pub fn numbers(numbers: &Numbers) -> Result<String, Unreadable> {
    let counters = &numbers.counters;
    json(
        "numbers",
        &StoredNumbers {
            seq: counters.seq.0,
            served: counters.served.0,
            event: counters.event,
            delayed: counters.delayed,
            blocked: counters.blocked,
            last_served_group: counters.last_served_group.clone(),
            lane: numbers.lane,
            log: numbers.log,
            first_delayed: numbers.earliest.delayed.map(Timestamp::as_micros),
            first_lapsing: numbers.earliest.lapsing.map(Timestamp::as_micros),
            first_deadline: numbers.earliest.deadline.map(Timestamp::as_micros),
        },
    )
}

/// Stored numbers; a new queue has none.
pub fn read_numbers(text: Option<&[u8]>) -> Result<Numbers, Unreadable> {
    let Some(text) = text else { return Ok(Numbers::default()) };
    let stored: StoredNumbers = parsed("numbers", text)?;
    Ok(Numbers {
        counters: Counters {
            seq: Seq(stored.seq),
            served: Token(stored.served),
            event: stored.event,
            delayed: stored.delayed,
            blocked: stored.blocked,
            last_served_group: stored.last_served_group,
        },
        lane: stored.lane,
        log: stored.log,
        earliest: Earliest {
            delayed: stored.first_delayed.map(Timestamp::from_micros),
            lapsing: stored.first_lapsing.map(Timestamp::from_micros),
            deadline: stored.first_deadline.map(Timestamp::from_micros),
        },
    })
}

/// A service with its breaker.
#[derive(Debug, Serialize, Deserialize)]
pub struct StoredService {
    spec: ServiceSpec,
    breaker: Breaker,
    held_until: Timestamp,
}

impl From<&ServiceRow> for StoredService {
    fn from(row: &ServiceRow) -> Self {
        Self { spec: row.spec.clone(), breaker: row.breaker, held_until: row.held_until }
    }
}

impl From<StoredService> for ServiceRow {
    fn from(stored: StoredService) -> Self {
        Self { spec: stored.spec, breaker: stored.breaker, held_until: stored.held_until }
    }
}

/// Uses at one instant: service, key, units.
pub type UsedAt = (ServiceName, Option<Key>, i64);

/// Uses with their instant.
pub fn used(at: Timestamp, run: Vec<UsedAt>) -> impl Iterator<Item = UsageRow> {
    run.into_iter().map(move |(service, key, units)| UsageRow { service, key, at, units })
}

/// And back.
pub fn read_event_run(first: u64, at: Timestamp, body: &[u8]) -> Result<Vec<Event>, Unreadable> {
    let mut run: Vec<Event> = parsed("events", body)?;
    for (seq, event) in (first..).zip(&mut run) {
        event.seq = seq;
        event.at = if event.at == Timestamp::ZERO { at } else { event.at };
    }
    Ok(run)
}

/// Reads stored JSON.
pub fn parsed<'a, T: Deserialize<'a>>(what: &str, text: &'a [u8]) -> Result<T, Unreadable> {
    serde_json::from_slice(text).map_err(|error| Unreadable::new(what, error))
}

/// Writes JSON to be stored.
pub fn json<T: Serialize + ?Sized>(what: &str, value: &T) -> Result<String, Unreadable> {
    serde_json::to_string(value).map_err(|error| Unreadable::new(what, error))
}
