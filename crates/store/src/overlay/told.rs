//! What a small commit tells the other daemons along with the news: all that they would ask for when they next begin a
//! turn. Whoever was up to date before is up to date again without asking, and can claim the job that came in one round
//! trip.
//!
//! A daemon tells with its news what it has written since its last news, if nobody else has written in between and it is
//! little. A listener takes it in only if it knows exactly the revision that it begins with; otherwise it asks, as ever. It
//! relies on what it was told no further than its next commit, which the server refuses if there is a later revision.
//!
//! Channels are open to others than those who may use the queue, so a message is signed with a secret that is kept with
//! the queue ([`Voice`]).

mod message;
mod text;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use hmac::{Hmac, KeyInit as _, Mac as _};
use runcue_core::map::Map;
use runcue_core::{Job, Key, LaneId, LaneKey, Life, Seq, ServiceName, State, Timestamp, Wait};
use sha2::Sha256;

use super::kept::Places;
use super::{Changed, JobWrite, Numbers, Rank, TouchedLane, WriteSet};
use crate::reply::{GroupInfo, QueueInfo};
use crate::tables::UsageRow;

/// Jobs that are told of at the most.
const JOBS: usize = 16;
/// A message in bytes at the most: PostgreSQL takes less than 8000.
const BYTES: usize = 6000;
/// Messages that wait for the writer at the most. Whoever lets more come has other things to do than to begin turns.
const WAITING: usize = 16;

/// Signs what is told, and knows what was signed.
#[derive(Clone)]
pub struct Voice(Hmac<Sha256>);

impl std::fmt::Debug for Voice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Voice")
    }
}

impl Voice {
    /// The voice of all daemons of a queue that has this secret.
    pub fn new(secret: &[u8]) -> Option<Self> {
        Hmac::new_from_slice(secret).ok().map(Self)
    }

    fn sign(&self, text: &str) -> String {
        let signature = self.0.clone().chain_update(text).finalize().into_bytes();
        let digit = |value: u8| char::from(HEXADECIMAL[usize::from(value)]);
        signature.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 0xf)]).collect()
    }

    fn knows(&self, signature: &str, text: &str) -> bool {
        let value = |digit: u8| HEXADECIMAL.iter().position(|known| *known == digit);
        let byte = |pair: &[u8]| u8::try_from(value(pair[0])? * 16 + value(pair[1])?).ok();
        let mut bytes = [0; 32];
        let pairs = signature.as_bytes().chunks_exact(2);
        let is_one = signature.len() == 2 * bytes.len()
            && bytes
                .iter_mut()
                .zip(pairs)
                .all(|(to, pair)| byte(pair).map(|byte| *to = byte).is_some());
        is_one && self.0.clone().chain_update(text).verify_slice(&bytes).is_ok()
    }
}

const HEXADECIMAL: &[u8; 16] = b"0123456789abcdef";

/// A lane, with the priority and place of the best job that has become ready.
type Touched = (LaneId, LaneKey, Option<(i32, Seq)>);

/// A job that has become ready, and to which nothing else has happened.
#[derive(Clone, Debug, PartialEq)]
struct Came {
    seq: Seq,
    lane: LaneId,
    at: Timestamp,
    spec: Arc<runcue_core::JobSpec>,
}

impl Came {
    /// Nothing if there is more to say of the job.
    fn of(job: &Job) -> Option<Self> {
        let plain = job.life == Life::begin(job.life.created_at, Wait::Turn) && !job.has_dependents;
        let (seq, lane, at) = (job.seq, job.lane, job.life.created_at);
        plain.then(|| Self { seq, lane, at, spec: Arc::clone(&job.spec) })
    }

    fn job(self) -> Job {
        let Self { seq, lane, at, spec } = self;
        Job { seq, lane, spec, life: Life::begin(at, Wait::Turn), has_dependents: false }
    }
}

/// What has changed from one revision to another.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Told {
    /// The revision before.
    pub from: u64,
    /// The revision after.
    pub to: u64,
    /// The numbers of that.
    pub numbers: Numbers,
    groups: Vec<GroupInfo>,
    queues: Vec<QueueInfo>,
    /// Lanes whose ready jobs have changed.
    lanes: Vec<Touched>,
    held: Vec<(LaneId, u32)>,
    usage: Vec<(ServiceName, Option<Key>, Timestamp, i64)>,
    jobs: Vec<Places>,
    /// All jobs that have become ready: that is news, so it was in the latest of these commits.
    came: Vec<Came>,
}

/// Puts a row in the place of an earlier one of the same name, or behind all.
fn put<T>(rows: &mut Vec<T>, row: T, is_same: impl Fn(&T) -> bool) {
    match rows.iter_mut().find(|known| is_same(known)) {
        Some(known) => *known = row,
        None => rows.push(row),
    }
}

impl Told {
    /// Adds the next commit. Nothing comes of one that says more than can be told.
    fn add(mut self, writes: &WriteSet, keys: &Map<LaneId, LaneKey>) -> Option<Self> {
        let tellable = writes.services.is_empty()
            && writes.schedules.is_empty()
            && writes.dropped_lanes.is_empty()
            && writes.dropped_groups.is_empty()
            && writes.jobs.len() + self.jobs.len() <= JOBS;
        if !tellable || writes.follows != self.to {
            return None;
        }
        self.to = writes.follows + 1;
        self.numbers = writes.numbers.clone();
        for group in writes.groups.values() {
            put(&mut self.groups, group.clone(), |known| known.name == group.name);
        }
        for queue in writes.queues.values() {
            put(&mut self.queues, queue.clone(), |known| known.name == queue.name);
        }
        for (lane, best) in &writes.touched {
            let before = self.lanes.iter().find(|(known, ..)| known == lane);
            let before = before.and_then(|(_, _, best)| *best).map(rank);
            let best = before.into_iter().chain(*best).min();
            let row = (*lane, keys.get(lane)?.clone(), best.map(|best| (best.priority, best.seq)));
            put(&mut self.lanes, row, |(known, ..)| known == lane);
        }
        for (lane, jobs) in &writes.held {
            put(&mut self.held, (*lane, *jobs), |(known, _)| known == lane);
        }
        for row in &writes.usage {
            self.usage.push((row.service.clone(), row.key.clone(), row.at, row.units));
        }
        for write in writes.jobs.values() {
            if let JobWrite::Insert(job) | JobWrite::Change { job, .. } = write
                && job.life.state == State::Queued(Wait::Turn)
            {
                self.came.push(Came::of(job)?);
            }
        }
        self.jobs.extend(writes.changed());
        Some(self)
    }

    /// What has changed, as it is answered at the beginning of a turn, and the jobs that came.
    pub fn changed(self) -> (Changed, Vec<Job>) {
        let touched = |(lane, key, best): Touched| TouchedLane { lane, key, from: best.map(rank) };
        let used = |(service, key, at, units)| UsageRow { service, key, at, units };
        let changed = Changed {
            groups: self.groups,
            queues: self.queues,
            lanes: self.lanes.into_iter().map(touched).collect(),
            held: self.held,
            usage: self.usage.into_iter().map(used).collect(),
            jobs: self.jobs,
            ..Changed::default()
        };
        (changed, self.came.into_iter().map(Came::job).collect())
    }
}

fn rank((priority, seq): (i32, Seq)) -> Rank {
    Rank { priority, seq }
}

/// What this daemon has written and not told yet.
#[derive(Debug, Default)]
pub struct Telling(Option<Told>);

impl Telling {
    /// From a revision on; what came before is known to whoever listens, or has to be asked for.
    pub fn from(revision: u64) -> Self {
        Self(Some(Told { from: revision, to: revision, ..Told::default() }))
    }

    /// Takes in a commit.
    pub fn add(&mut self, writes: &WriteSet, keys: &Map<LaneId, LaneKey>) {
        self.0 = self.0.take().and_then(|told| told.add(writes, keys));
    }

    /// All of it as a message without its first word, which is the revision.
    pub fn message(&self, voice: &Voice) -> Option<String> {
        let told = self.0.as_ref()?;
        let text = told.write()?;
        let message = format!("{} {text}", voice.sign(&text));
        (message.len() <= BYTES).then_some(message)
    }
}

/// Messages that have come and that the writer has not looked at.
#[derive(Clone, Debug, Default)]
pub struct Messages(Arc<Mutex<VecDeque<String>>>);

impl Messages {
    /// One has come.
    pub fn push(&self, message: &str) {
        if message.len() > BYTES {
            return;
        }
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.len() >= WAITING {
            waiting.pop_front();
        }
        waiting.push_back(message.to_owned());
    }

    /// How many have come.
    pub fn len(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// All of them that were signed, in the order they came.
    pub fn take(&self, voice: Option<&Voice>) -> Vec<Told> {
        let waiting = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        let Some(voice) = voice else { return Vec::new() };
        let read = |message: &String| {
            let (signature, text) = message.split_once(' ')?;
            voice.knows(signature, text).then(|| Told::read(text))?
        };
        waiting.iter().filter_map(read).collect()
    }
}
