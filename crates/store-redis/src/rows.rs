//! Rows to and from what is stored: JSON without what is the default, because memory is what Redis runs on. Only the
//! lives of jobs have a form of their own (`life.rs`).

use std::sync::Arc;

use runcue_core::breaker::Breaker;
use runcue_core::{Event, Job, JobSpec, Key, Seq, ServiceName, ServiceSpec, Timestamp, Token};
use runcue_store::overlay::{Earliest, Numbers};
use runcue_store::tables::{Counters, ServiceRow, UsageRow};
use serde::{Deserialize, Serialize};

use crate::failure::Unreadable;
use crate::life;

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

/// A job from its two halves.
pub fn job(seq: Seq, spec: &[u8], life: &[u8], has_dependents: bool) -> Result<Job, Unreadable> {
    let spec: JobSpec = parsed("spec", spec)?;
    let (lane, life) = life::read(spec.id, life)?;
    Ok(Job { seq, lane, spec: Arc::new(spec), life, has_dependents })
}

/// The events of a run that begins with this number and whose instant is this. Runs of schema 1 have nothing apart
/// that their events share.
pub fn events(
    first: u64,
    at: Timestamp,
    each: &[u8],
    shared: Option<&[u8]>,
) -> Result<Vec<Event>, Unreadable> {
    let Some(shared) = shared else { return read_event_run(first, at, each) };
    let text = |bytes| std::str::from_utf8(bytes).map_err(|error| Unreadable::new("events", error));
    runcue_store::event_run::read_event_run(first, at, text(shared)?, text(each)?)
        .map_err(|error| Unreadable::new("events", error))
}

fn read_event_run(first: u64, at: Timestamp, body: &[u8]) -> Result<Vec<Event>, Unreadable> {
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
