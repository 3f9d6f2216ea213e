//! What has happened to a job, to and from its row. It is written twice for every job that is worked off, so it is
//! short: numbers of as many bytes as they need, instants by how far they are from when the job was created, and
//! only what there is.
//!
//! ```text
//! 1, stage, what there is, lane, [worker, token], created, [due] … [rest as JSON]
//! ```
//!
//! Lives of schema 1 are JSON and are still read.

use runcue_core::{
    Failure, Job, JobId, Json, LaneId, Lease, Life, Progress, State, StateWord, Timestamp, Token,
    Wait, WorkerId,
};
use serde::{Deserialize, Serialize};

use crate::failure::Unreadable;
use crate::rows::{json, parsed};

/// The first byte. JSON has another one.
const PACKED: u8 = 1;

/// What there is, in the order in which it stands in the row.
mod has {
    pub const LEASE: u64 = 1;
    pub const DUE: u64 = 1 << 1;
    pub const PREREQUISITES: u64 = 1 << 2;
    pub const ATTEMPT: u64 = 1 << 3;
    pub const EARLIER: u64 = 1 << 4;
    pub const CRASHES: u64 = 1 << 5;
    pub const QUEUED: u64 = 1 << 6;
    pub const STARTED: u64 = 1 << 7;
    pub const START_BY: u64 = 1 << 8;
    pub const CANCEL: u64 = 1 << 9;
    pub const REST: u64 = 1 << 10;
    /// Whoever finds more than this was not meant to read it.
    pub const ALL: u64 = (1 << 11) - 1;
}

/// What has happened to a job, as schema 1 stored it. The stages have the numbers that the SQLite store gives them.
#[derive(Debug, Default, Deserialize)]
struct StoredLife {
    /// Lane.
    l: u64,
    /// Stage.
    s: u8,
    /// Delayed: when its time comes; leased and running: when the lease lapses; then: when it finished.
    #[serde(default)]
    d: Option<i64>,
    /// Prerequisites left.
    #[serde(default)]
    p: u32,
    /// Attempts.
    #[serde(default)]
    a: u32,
    /// Earlier attempts.
    #[serde(default)]
    e: u32,
    /// Crashes.
    #[serde(default)]
    c: u32,
    /// Created at.
    t: i64,
    /// Queued at, if that is not when it was created.
    #[serde(default)]
    q: Option<i64>,
    /// Started at.
    #[serde(default)]
    b: Option<i64>,
    /// Worker.
    #[serde(default)]
    w: Option<WorkerId>,
    /// Token.
    #[serde(default)]
    k: Option<u64>,
    /// To be started by.
    #[serde(default)]
    y: Option<i64>,
    /// Asked to stop.
    #[serde(default)]
    x: bool,
    /// Latest error.
    #[serde(default)]
    m: Option<String>,
    /// Failures.
    #[serde(default)]
    f: Vec<Failure>,
    /// Result.
    #[serde(default, deserialize_with = "even_null")]
    r: Option<Json>,
    /// What a repeated result is recognised by.
    #[serde(default)]
    z: Option<String>,
    /// Progress.
    #[serde(default)]
    g: Option<Progress>,
}

/// What few jobs have.
#[derive(Debug, Serialize, Deserialize)]
struct Rest {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    m: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    f: Vec<Failure>,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "even_null")]
    r: Option<Json>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    z: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    g: Option<Progress>,
}

/// A result that is there, if only as `null`.
fn even_null<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<Json>, D::Error> {
    Json::deserialize(from).map(Some)
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

/// Seven bits to a byte, the lowest first.
fn put(to: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        to.push(0x80 | (number & 0x7f).to_le_bytes()[0]);
        number >>= 7;
    }
    to.push(number.to_le_bytes()[0]);
}

/// Small numbers of either sign are short.
fn put_signed(to: &mut Vec<u8>, number: i64) {
    put(to, (number << 1 ^ number >> 63).cast_unsigned());
}

/// What is left of a row.
struct Row<'a>(&'a [u8]);

impl Row<'_> {
    fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = *self.0.split_off_first()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }

    fn signed(&mut self) -> Option<i64> {
        let number = self.number()?;
        Some((number >> 1).cast_signed() ^ -(number & 1).cast_signed())
    }

    fn count(&mut self) -> Option<u32> {
        self.number()?.try_into().ok()
    }

    fn worker(&mut self) -> Option<WorkerId> {
        let bytes = self.0.split_off(..16)?;
        Some(WorkerId::from_u128(u128::from_be_bytes(bytes.try_into().ok()?)))
    }
}

/// A life to be stored with its lane.
pub fn write(job: &Job) -> Result<Vec<u8>, Unreadable> {
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
    let start_by = lease.and_then(|lease| lease.start_by);
    let queued = Some(life.queued_at).filter(|at| *at != life.created_at);
    let rest = life.last_error.is_some()
        || !life.failures.is_empty()
        || life.result.is_some()
        || life.result_key.is_some()
        || life.progress.is_some();
    let instants = [
        (has::DUE, due),
        (has::QUEUED, queued),
        (has::STARTED, life.started_at),
        (has::START_BY, start_by),
    ];
    let counts = [
        (has::PREREQUISITES, prerequisites),
        (has::ATTEMPT, life.attempt),
        (has::EARLIER, life.earlier_attempts),
        (has::CRASHES, life.crashes),
    ];
    let flags =
        [(has::LEASE, lease.is_some()), (has::CANCEL, life.cancel_requested), (has::REST, rest)];
    let there = instants.iter().filter(|(_, at)| at.is_some()).map(|(bit, _)| bit);
    let there = there.chain(counts.iter().filter(|(_, n)| *n > 0).map(|(bit, _)| bit));
    let there: u64 = there.chain(flags.iter().filter(|(_, on)| *on).map(|(bit, _)| bit)).sum();

    let mut to = Vec::with_capacity(64);
    to.extend_from_slice(&[PACKED, stage(&life.state)]);
    put(&mut to, there);
    put(&mut to, job.lane.0);
    if let Some(lease) = lease {
        to.extend_from_slice(&lease.worker.as_u128().to_be_bytes());
        put(&mut to, lease.token.0);
    }
    let created = life.created_at.as_micros();
    put_signed(&mut to, created);
    for at in instants.iter().filter_map(|(_, at)| *at) {
        put_signed(&mut to, at.as_micros().wrapping_sub(created));
    }
    for (_, n) in counts.iter().filter(|(_, n)| *n > 0) {
        put(&mut to, u64::from(*n));
    }
    if rest {
        let rest = Rest {
            m: life.last_error.clone(),
            f: life.failures.clone(),
            r: life.result.clone(),
            z: life.result_key.clone(),
            g: life.progress.clone(),
        };
        to.extend_from_slice(json("life", &rest)?.as_bytes());
    }
    Ok(to)
}

/// The beginning of a row: its stage, what there is, lane, worker and token.
fn read_head(row: &mut Row<'_>) -> Option<(StoredLife, u64)> {
    let [_, stage] = *row.0.split_off(..2)?.first_chunk::<2>()?;
    let there = row.number().filter(|there| there & !has::ALL == 0)?;
    let mut stored = StoredLife { s: stage, l: row.number()?, ..StoredLife::default() };
    if there & has::LEASE != 0 {
        (stored.w, stored.k) = (Some(row.worker()?), Some(row.number()?));
    }
    Some((stored, there))
}

/// A row up to what is JSON in it.
fn read_packed(row: &mut Row<'_>) -> Option<(StoredLife, bool)> {
    let (mut stored, there) = read_head(row)?;
    stored.t = row.signed()?;
    let created = stored.t;
    let mut instant = |bit: u64| -> Option<Option<i64>> {
        if there & bit == 0 {
            return Some(None);
        }
        Some(Some(row.signed()?.wrapping_add(created)))
    };
    (stored.d, stored.q) = (instant(has::DUE)?, instant(has::QUEUED)?);
    (stored.b, stored.y) = (instant(has::STARTED)?, instant(has::START_BY)?);
    let mut count = |bit: u64| if there & bit == 0 { Some(0) } else { row.count() };
    (stored.p, stored.a) = (count(has::PREREQUISITES)?, count(has::ATTEMPT)?);
    (stored.e, stored.c) = (count(has::EARLIER)?, count(has::CRASHES)?);
    stored.x = there & has::CANCEL != 0;
    Some((stored, there & has::REST != 0))
}

fn cut_off() -> Unreadable {
    Unreadable::new("life", "it is cut off")
}

/// The lane and life of a job.
pub fn read(job: JobId, life: &[u8]) -> Result<(LaneId, Life), Unreadable> {
    let mut stored: StoredLife = match life.first() {
        Some(&PACKED) => {
            let mut row = Row(life);
            let (mut stored, rest) = read_packed(&mut row).ok_or_else(cut_off)?;
            if rest {
                let Rest { m, f, r, z, g } = parsed("life", row.0)?;
                (stored.m, stored.f, stored.r, stored.z, stored.g) = (m, f, r, z, g);
            } else if !row.0.is_empty() {
                return Err(Unreadable::new("life", "it is too long"));
            }
            stored
        }
        _ => parsed("life", life)?,
    };
    let due = Timestamp::from_micros(stored.d.unwrap_or(0));
    let lease = |stored: &StoredLife| Lease {
        job,
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
    let life = Life {
        attempt: stored.a,
        earlier_attempts: stored.e,
        crashes: stored.c,
        queued_at: Timestamp::from_micros(stored.q.unwrap_or(stored.t)),
        started_at: stored.b.map(Timestamp::from_micros),
        finished_at: state.word().is_final().then_some(due),
        last_error: stored.m.take(),
        failures: stored.f,
        cancel_requested: stored.x,
        result: stored.r,
        result_key: stored.z,
        progress: stored.g,
        ..Life::begin(Timestamp::from_micros(stored.t), Wait::Turn)
    };
    Ok((LaneId(stored.l), Life { state, ..life }))
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

/// What a search looks at of a life of schema 1.
#[derive(Debug, Deserialize)]
struct StoredGlance {
    l: u64,
    s: u8,
    #[serde(default)]
    w: Option<WorkerId>,
}

/// The little that a search needs of a life.
pub fn glance(life: &[u8]) -> Result<Glance, Unreadable> {
    let StoredGlance { l, s, w } = match life.first() {
        Some(&PACKED) => {
            let (stored, _) = read_head(&mut Row(life)).ok_or_else(cut_off)?;
            StoredGlance { l: stored.l, s: stored.s, w: stored.w }
        }
        _ => parsed("life", life)?,
    };
    Ok(Glance { lane: LaneId(l), state: word(s)?, worker: w })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;
    use runcue_core::{ErrorKind, JobSpec, Seq, TaskName};

    use super::*;

    fn instants() -> impl Strategy<Value = Timestamp> {
        let usual = 1_700_000_000_000_000..1_800_000_000_000_000_i64;
        prop_oneof![8 => usual, 1 => any::<i64>()].prop_map(Timestamp::from_micros)
    }

    fn leases() -> impl Strategy<Value = Lease> {
        let ids = (any::<u128>(), any::<u64>());
        (ids, instants(), proptest::option::of(instants())).prop_map(
            |((worker, token), until, start_by)| Lease {
                job: JobId::from_u128(7),
                attempt: 0,
                worker: WorkerId::from_u128(worker),
                token: Token(token),
                until,
                start_by,
            },
        )
    }

    fn states() -> impl Strategy<Value = State> {
        prop_oneof![
            Just(State::Queued(Wait::Turn)),
            instants().prop_map(|at| State::Queued(Wait::Until(at))),
            (1..u32::MAX).prop_map(|left| State::Queued(Wait::Prerequisites(left))),
            leases().prop_map(State::Leased),
            leases().prop_map(State::Running),
            Just(State::Completed),
            Just(State::Failed),
            Just(State::Cancelled),
            Just(State::Quarantined),
        ]
    }

    prop_compose! {
        fn rests()(
            error in proptest::option::of(".*"),
            failures in 0..3_u32,
            result in proptest::option::of(prop_oneof![Just("null"), Just("[1,2]")]),
            key in proptest::option::of(".*"),
            percent in proptest::option::of(0..100_u8),
        ) -> Rest {
            let failure = |attempt| Failure {
                reason: "boom".to_owned(),
                kind: ErrorKind::Transient,
                attempt,
                worker_id: None,
                ts: Timestamp::from_micros(9),
            };
            Rest {
                m: error,
                f: (0..failures).map(failure).collect(),
                r: result.map(|text| Json::parse(text).unwrap()),
                z: key,
                g: percent.map(|n| Progress { percent: f32::from(n), message: "so far".to_owned() }),
            }
        }
    }

    prop_compose! {
        fn jobs()(
            state in states(),
            lane in any::<u64>(),
            counts in any::<(u32, u32, u32)>(),
            created in instants(),
            queued in proptest::option::of(instants()),
            started in proptest::option::of(instants()),
            finished in instants(),
            cancel in any::<bool>(),
            rest in proptest::option::of(rests()),
        ) -> Job {
            let (attempt, earlier_attempts, crashes) = counts;
            let state = match state {
                State::Leased(lease) => State::Leased(Lease { attempt, ..lease }),
                State::Running(lease) => State::Running(Lease { attempt, ..lease }),
                other => other,
            };
            let rest = rest.unwrap_or(Rest { m: None, f: Vec::new(), r: None, z: None, g: None });
            let life = Life {
                attempt,
                earlier_attempts,
                crashes,
                queued_at: queued.unwrap_or(created),
                started_at: started,
                finished_at: state.word().is_final().then_some(finished),
                last_error: rest.m,
                failures: rest.f,
                cancel_requested: cancel,
                result: rest.r,
                result_key: rest.z,
                progress: rest.g,
                ..Life::begin(created, Wait::Turn)
            };
            let spec = JobSpec::new(JobId::from_u128(7), TaskName::new("t").unwrap());
            Job {
                seq: Seq(1),
                lane: LaneId(lane),
                spec: Arc::new(spec),
                life: Life { state, ..life },
                has_dependents: false,
            }
        }
    }

    proptest! {
        #[test]
        fn every_life_reads_back_and_a_search_sees_the_same(job in jobs()) {
            let row = write(&job).unwrap();
            let (lane, life) = read(job.id(), &row).unwrap();
            prop_assert_eq!((lane, &life), (job.lane, &job.life));
            let seen = glance(&row).unwrap();
            let worker = job.life.state.lease().map(|lease| lease.worker);
            prop_assert_eq!((seen.lane, seen.state, seen.worker), (lane, life.state.word(), worker));
        }

        #[test]
        fn a_row_that_is_cut_off_is_refused(job in jobs(), at in 0.0..1.0) {
            let row = write(&job).unwrap();
            let cut = (row.len() as f64 * at) as usize;
            prop_assert!(read(job.id(), &row[..cut]).is_err());
        }

        #[test]
        fn any_bytes_are_refused_or_read(row in proptest::collection::vec(any::<u8>(), 0..64)) {
            let packed = [&[PACKED], &row[..]].concat();
            drop((read(JobId::from_u128(7), &packed), glance(&packed)));
        }
    }

    #[test]
    fn a_life_of_schema_1_is_read() {
        let row = br#"{"l":2,"s":4,"d":30,"a":1,"t":10,"b":11,"w":"00000000000000000000000000000001","k":4}"#;
        let (lane, life) = read(JobId::from_u128(7), row).unwrap();
        assert_eq!((lane, life.attempt), (LaneId(2), 1));
        let lease = life.state.lease().unwrap();
        assert_eq!((lease.token, lease.until), (Token(4), Timestamp::from_micros(30)));
        assert_eq!(glance(row).unwrap().worker, Some(WorkerId::from_u128(1)));
    }

    #[test]
    fn the_life_of_a_job_that_is_held_is_short() {
        let lease = Lease {
            job: JobId::from_u128(7),
            attempt: 1,
            worker: WorkerId::from_u128(u128::MAX),
            token: Token(1_000_000),
            until: Timestamp::from_micros(1_700_000_060_000_000),
            start_by: None,
        };
        let created = Timestamp::from_micros(1_700_000_000_000_000);
        let life =
            Life { attempt: 1, started_at: Some(created), ..Life::begin(created, Wait::Turn) };
        let spec = JobSpec::new(JobId::from_u128(7), TaskName::new("t").unwrap());
        let life = Life { state: State::Running(lease), ..life };
        let job = Job {
            seq: Seq(1),
            lane: LaneId(300),
            spec: Arc::new(spec),
            life,
            has_dependents: false,
        };
        assert!(write(&job).unwrap().len() <= 40);
    }
}
