//! A write set as changes for the commit script. Which index a job is in follows from its state alone.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use runcue_core::{Job, LaneId, Seq, State, StateWord, Timestamp, Wait};
use runcue_store::event_run::{EventRun, runs_of_a_kind};
use runcue_store::overlay::{JobWrite, LOG_BYTES, WriteSet};
use runcue_store::tables::EVENTS_PER_ROW;

use crate::failure::Unreadable;
use crate::keys::{self, PAGE, place, place_bytes, score};
use crate::life;
use crate::pack::Changes;
use crate::pack::Verb::{Own, Plain};
use crate::rows::{self, StoredService, UsedAt};

/// So many counts are changed by commands; more of them by one script.
const FEW: usize = 16;

/// Entries that pruning takes away, which were looked up before.
#[derive(Debug, Default)]
pub struct Pruned {
    /// Ids of entries of the usage log.
    pub usage: Vec<Vec<u8>>,
    /// The id of the first run of events that stays; nothing if no run goes.
    pub events_from: Option<EventsFrom>,
}

/// Where the events begin after pruning.
#[derive(Debug)]
pub enum EventsFrom {
    /// At this entry.
    Entry(Vec<u8>),
    /// Nowhere: all of them go.
    Nowhere,
}

/// The changes of a write set.
pub fn changes(writes: &WriteSet, pruned: &Pruned) -> Result<Changes, Unreadable> {
    let mut plan = Plan::default();
    plan.deletions(writes, pruned);
    plan.changes.then();
    // Short sorted sets are lists, which the server goes through from the beginning: what leaves them does so in
    // the order of the places, and what comes the latest first.
    for write in writes.jobs.values() {
        if let JobWrite::Change { job, before } = write {
            plan.leave_for_another(job, before);
        }
    }
    for (seq, write) in writes.jobs.iter().rev() {
        match write {
            JobWrite::Insert(job) => plan.insert(job, !writes.dropped_keys.contains(seq))?,
            JobWrite::Change { job, before } => plan.change(job, before)?,
            JobWrite::Delete { .. } => {}
        }
    }
    plan.ties(writes);
    plan.definitions(writes)?;
    plan.histories(writes)?;
    plan.counts();
    Ok(plan.changes)
}

/// The ids of new jobs, which must not be there yet.
pub fn new_ids(writes: &WriteSet) -> Vec<[u8; 16]> {
    let id = |write: &JobWrite| match write {
        JobWrite::Insert(job) => Some(job.id().as_u128().to_be_bytes()),
        _ => None,
    };
    writes.jobs.values().filter_map(id).collect()
}

#[derive(Debug, Default)]
struct Plan {
    changes: Changes,
    /// Lanes in which jobs have become ready.
    waiting: BTreeSet<LaneId>,
    pages: BTreeMap<u64, i64>,
    members: BTreeMap<LaneId, i64>,
    /// The latest score as text: many jobs have the same.
    score: Option<(i64, String)>,
    /// And the latest key of a lane.
    lane: Option<(LaneId, String)>,
}

/// The sorted set that a job in a state is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Index {
    Ready(LaneId),
    Delayed,
    Lapsing,
    Ended(StateWord),
}

impl Index {
    fn of(job: &Job, state: &State) -> Option<Self> {
        match state {
            State::Queued(Wait::Turn) => Some(Self::Ready(job.lane)),
            State::Queued(Wait::Until(_)) => Some(Self::Delayed),
            State::Queued(Wait::Prerequisites(_)) => None,
            State::Leased(_) | State::Running(_) => Some(Self::Lapsing),
            ended => Some(Self::Ended(ended.word())),
        }
    }

    /// The name of its key. Many jobs in a row are of the same lane, whose key is kept.
    fn key(self, latest: &mut Option<(LaneId, String)>) -> Cow<'_, str> {
        match self {
            Self::Ready(lane) => {
                if !matches!(latest, Some((known, _)) if *known == lane) {
                    *latest = Some((lane, keys::ready(lane)));
                }
                latest.as_ref().map_or("", |(_, key)| key).into()
            }
            Self::Delayed => "delayed".into(),
            Self::Lapsing => "lapsing".into(),
            Self::Ended(StateWord::Completed) => "ended:completed".into(),
            Self::Ended(state) => keys::ended(state).into(),
        }
    }
}

/// The score of a job in the set that it is in.
fn score_of(job: &Job) -> i64 {
    match &job.life.state {
        State::Queued(Wait::Until(at)) => at.as_micros(),
        State::Queued(_) => -i64::from(job.spec.priority),
        State::Leased(lease) | State::Running(lease) => lease.until.as_micros(),
        _ => job.life.finished_at.unwrap_or_default().as_micros(),
    }
}

impl Plan {
    fn deletions(&mut self, writes: &WriteSet, pruned: &Pruned) {
        for write in writes.jobs.values() {
            if let JobWrite::Delete { job } = write {
                self.delete(job);
            }
        }
        for seq in &writes.dropped_keys {
            self.changes.add(Own("unkey"), "key", &[place(*seq).as_bytes()]);
        }
        for (lane, canonical) in &writes.dropped_lanes {
            let lane = lane.0.to_string();
            self.changes.add(Plain("HDEL"), "lane", &[lane.as_bytes()]);
            self.changes.add(Plain("HDEL"), "lanes", &[canonical.as_bytes()]);
            self.changes.add(Plain("HDEL"), "waiting", &[lane.as_bytes()]);
        }
        for name in &writes.dropped_groups {
            let name = name.as_ref().map_or("", |name| name.as_str());
            self.changes.add(Plain("HDEL"), "group", &[name.as_bytes()]);
        }
        for worker in &writes.dropped_workers {
            for key in ["worker", "started", "seen"] {
                self.changes.add(Plain("HDEL"), key, &[worker.to_string().as_bytes()]);
            }
        }
        for id in &pruned.usage {
            self.changes.add(Plain("XDEL"), "usage", &[id]);
        }
        match &pruned.events_from {
            Some(EventsFrom::Entry(id)) => {
                self.changes.alone(Plain("XTRIM"), "event", &[b"MINID", id])
            }
            Some(EventsFrom::Nowhere) => {
                self.changes.alone(Plain("XTRIM"), "event", &[b"MAXLEN", b"0"])
            }
            None => {}
        }
    }

    fn delete(&mut self, job: &Job) {
        let seq = &place_bytes(job.seq)[..];
        self.leave(job, &job.life.state);
        for key in ["spec", "life", "logsize"] {
            self.changes.add(Plain("HDEL"), key, &[seq]);
        }
        self.changes.add(Plain("ZREM"), "deadline", &[seq]);
        self.changes.add(Plain("HDEL"), "id", &[&job.id().as_u128().to_be_bytes()]);
        self.changes.add(Own("unkey"), "key", &[seq]);
        self.changes.add(Own("untie"), "tied", &[seq]);
        self.changes.alone(Plain("UNLINK"), &format!("log:{}", place(job.seq)), &[]);
        *self.pages.entry(job.seq.0 / PAGE).or_default() -= 1;
        *self.members.entry(job.lane).or_default() -= 1;
    }

    fn insert(&mut self, job: &Job, with_key: bool) -> Result<(), Unreadable> {
        let seq = &place_bytes(job.seq)[..];
        let spec = rows::json("spec", &*job.spec)?;
        self.changes.add(Plain("HSET"), "spec", &[seq, spec.as_bytes()]);
        self.changes.add(Plain("HSET"), "life", &[seq, &life::write(job)?]);
        self.changes.add(Plain("HSET"), "id", &[&job.id().as_u128().to_be_bytes(), seq]);
        if let Some(key) = job.spec.idempotency_key.as_ref().filter(|_| with_key) {
            self.changes.add(Plain("HSET"), "key", &[key.as_bytes(), seq]);
            self.changes.add(Plain("HSET"), "keyof", &[seq, key.as_bytes()]);
        }
        self.join(job);
        if let Some(at) = job.life.deadline(&job.spec) {
            self.changes.add(Plain("ZADD"), "deadline", &[score(at).as_bytes(), seq]);
        }
        *self.pages.entry(job.seq.0 / PAGE).or_default() += 1;
        *self.members.entry(job.lane).or_default() += 1;
        Ok(())
    }

    fn change(&mut self, job: &Job, before: &State) -> Result<(), Unreadable> {
        let seq = &place_bytes(job.seq)[..];
        self.changes.add(Plain("HSET"), "life", &[seq, &life::write(job)?]);
        let same_set = Index::of(job, before) == Index::of(job, &job.life.state);
        let was_ready = *before == State::Queued(Wait::Turn);
        // In the same set only the instant moves; a ready job has none.
        if !same_set || !was_ready {
            self.join(job);
        }
        match job.life.deadline(&job.spec) {
            Some(at) => self.changes.add(Plain("ZADD"), "deadline", &[score(at).as_bytes(), seq]),
            None if job.spec.expires_at.is_some() || job.spec.dependency_timeout.is_some() => {
                self.changes.add(Plain("ZREM"), "deadline", &[seq]);
            }
            None => {}
        }
        Ok(())
    }

    fn join(&mut self, job: &Job) {
        let Some(index) = Index::of(job, &job.life.state) else { return };
        let score = score_of(job);
        if !matches!(&self.score, Some((latest, _)) if *latest == score) {
            self.score = Some((score, score.to_string()));
        }
        let text = self.score.as_ref().map_or("", |(_, text)| text);
        let key = index.key(&mut self.lane);
        self.changes.add(Plain("ZADD"), &key, &[text.as_bytes(), &place_bytes(job.seq)]);
        if let Index::Ready(lane) = index {
            self.waiting.insert(lane);
        }
    }

    fn leave_for_another(&mut self, job: &Job, before: &State) {
        if Index::of(job, before) != Index::of(job, &job.life.state) {
            self.leave(job, before);
        }
    }

    fn leave(&mut self, job: &Job, state: &State) {
        let Some(index) = Index::of(job, state) else { return };
        self.changes.add(Plain("ZREM"), &index.key(&mut self.lane), &[&place_bytes(job.seq)]);
    }

    fn ties(&mut self, writes: &WriteSet) {
        for (prerequisite, dependent) in &writes.ties {
            let (before, behind) = (place(*prerequisite), place(*dependent));
            self.changes.add(Plain("SADD"), &format!("before:{behind}"), &[before.as_bytes()]);
            self.changes.add(Plain("SADD"), &format!("behind:{before}"), &[behind.as_bytes()]);
            self.changes.add(Plain("SADD"), "tied", &[before.as_bytes()]);
        }
    }

    fn definitions(&mut self, writes: &WriteSet) -> Result<(), Unreadable> {
        for (lane, (_, canonical)) in &writes.lanes {
            let lane = lane.0.to_string();
            self.changes.add(Plain("HSET"), "lane", &[lane.as_bytes(), canonical.as_bytes()]);
            self.changes.add(Plain("HSET"), "lanes", &[canonical.as_bytes(), lane.as_bytes()]);
        }
        for (name, group) in &writes.groups {
            let name = name.as_ref().map_or("", |name| name.as_str());
            self.put("group", name, &rows::json("group", group)?);
        }
        for (name, queue) in &writes.queues {
            self.put("queue", name.as_str(), &rows::json("queue", queue)?);
        }
        for (name, schedule) in &writes.schedules {
            match schedule {
                Some(schedule) => {
                    self.put("schedule", name.as_str(), &rows::json("schedule", schedule)?);
                }
                None => self.changes.add(Plain("HDEL"), "schedule", &[name.as_str().as_bytes()]),
            }
        }
        for (key, value) in &writes.records {
            match value {
                Some(value) => self.put("record", key, value.as_str()),
                None => self.changes.add(Plain("HDEL"), "record", &[key.as_bytes()]),
            }
        }
        for (name, task) in &writes.tasks {
            self.put("task", name.as_str(), &rows::json("task", task)?);
        }
        for (name, service) in &writes.services {
            let row = rows::json("service", &StoredService::from(service))?;
            self.changes.alone(
                Own("service"),
                "service",
                &[name.as_str().as_bytes(), row.as_bytes()],
            );
        }
        for (worker, (spec, at)) in &writes.workers {
            let (worker, at) = (worker.to_string(), at.as_micros().to_string());
            self.put("worker", &worker, &rows::json("worker", spec)?);
            self.put("seen", &worker, &at);
            self.changes.alone(Plain("HSETNX"), "started", &[worker.as_bytes(), at.as_bytes()]);
        }
        for (worker, at) in &writes.seen_workers {
            let (worker, at) = (worker.to_string(), at.as_micros().to_string());
            self.changes.add(Own("seen"), "seen", &[worker.as_bytes(), at.as_bytes()]);
        }
        Ok(())
    }

    fn histories(&mut self, writes: &WriteSet) -> Result<(), Unreadable> {
        let mut runs: BTreeMap<Timestamp, Vec<UsedAt>> = BTreeMap::new();
        for row in &writes.usage {
            let used = (row.service.clone(), row.key.clone(), row.units);
            runs.entry(row.at).or_default().push(used);
        }
        for (n, (at, run)) in runs.iter().enumerate() {
            let id = format!("{}-{n}", writes.follows + 1);
            let (at, body) = (at.as_micros().to_string(), rows::json("usage", run)?);
            let words = [id.as_bytes(), b"at", at.as_bytes(), b"used", body.as_bytes()];
            self.changes.alone(Plain("XADD"), "usage", &words);
        }
        for run in runs_of_a_kind(&writes.events, EVENTS_PER_ROW) {
            let (Some(first), Some(last)) = (run.first(), run.last()) else { continue };
            let id = format!("{}-0", last.seq);
            let (number, at) = (first.seq.to_string(), last.at.as_micros().to_string());
            let EventRun { shared, each } = EventRun::write(run, last.at);
            let words = [
                id.as_bytes(),
                b"first",
                number.as_bytes(),
                b"at",
                at.as_bytes(),
                b"events",
                each.as_bytes(),
                b"shared",
                shared.as_bytes(),
            ];
            self.changes.alone(Plain("XADD"), "event", &words);
        }
        for (seq, chunk) in &writes.logs {
            let (seq, id) = (place(*seq), format!("{}-0", chunk.n));
            let (bytes, bound) = (chunk.text.len().to_string(), LOG_BYTES.to_string());
            let row = rows::json("log", chunk)?;
            let words = [&seq, &id, &bytes, &bound, &row].map(|word| word.as_bytes());
            self.changes.alone(Own("log"), "log:", &words);
        }
        Ok(())
    }

    fn counts(&mut self) {
        // Whether a lane has ready jobs is said by their set; that it may have some is all that is noted.
        for lane in std::mem::take(&mut self.waiting) {
            self.put("waiting", &lane.0.to_string(), "1");
        }
        let pages = std::mem::take(&mut self.pages).into_iter().map(|(page, n)| ("page", page, n));
        let members = std::mem::take(&mut self.members).into_iter();
        let members = members.map(|(lane, n)| ("members", lane.0, n));
        let counts: Vec<(&str, u64, i64)> =
            pages.chain(members).filter(|(_, _, n)| *n != 0).collect();
        // Only a count that falls can come to nothing, and is gone then.
        let few = counts.len() <= FEW && counts.iter().all(|(_, _, n)| *n > 0);
        for (key, field, n) in counts {
            let (field, n) = (field.to_string(), n.to_string());
            match few {
                true => {
                    self.changes.alone(Plain("HINCRBY"), key, &[field.as_bytes(), n.as_bytes()])
                }
                false => self.changes.add(Own("count"), key, &[field.as_bytes(), n.as_bytes()]),
            }
        }
    }

    fn put(&mut self, key: &'static str, field: &str, value: &str) {
        self.changes.add(Plain("HSET"), key, &[field.as_bytes(), value.as_bytes()]);
    }
}

/// The first place of a page.
pub fn first_of(page: u64) -> Seq {
    Seq(page * PAGE)
}
