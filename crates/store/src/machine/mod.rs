//! The machine: every operation of an embedded store, written once over [`Tables`].
//!
//! It asks `runcue_core` what follows, writes the answer to the tables, and keeps the [`Board`] beside
//! them as a cache of what a claim looks at. When another process has changed the tables, the parts of
//! the cache that are concerned are read again; after a failed write all of it is.
//!
//! A store calls [`Machine::begin`] inside its transaction, any number of operations, and
//! [`Machine::end`] before it commits. An error of kind [`StoreError::is_refusal`] leaves the
//! transaction good; after any other the store rolls back and calls [`Machine::reset`].
//!
//! One file per verb; this one holds what they share: [`Machine::apply`], through which every change
//! of a job's state goes.

mod admit;
mod cancel;
mod candidates;
mod claim;
mod define;
mod extend;
mod fetched;
mod finish;
mod hand_over;
mod inspect;
mod prune;
mod reap;
mod retry;
mod schedule;
mod submit;
mod take_over;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use runcue_core::board::{Board, Head};
use runcue_core::breaker::Change;
use runcue_core::map::Map;
use runcue_core::transition::{Input, Refused, Unmet, transition};
use runcue_core::{
    Event, EventKind, Final, GroupName, Job, JobId, JobSpec, Key, LaneId, LaneKey, QueueName, Seq,
    ServiceName, State, StateWord, Timestamp, Wait,
};

use self::fetched::Fetched;
use crate::reply::{GroupInfo, QueueInfo};
use crate::tables::{Changes, Counters, ServiceRow, Tables, UsageRow};
use crate::{Result, StoreError};

/// Jobs handled between two looks at whether there are more.
const CHUNK: usize = 1000;

/// Of so many lanes the jobs at their heads are read with them.
const WHOLE: usize = 8;

/// The operations of an embedded store over its tables.
#[derive(Debug)]
pub struct Machine<T> {
    tables: T,
    board: Board,
    /// The revision up to which the cache is good; nothing before the first load.
    seen: Option<u64>,
    counters: Counters,
    groups: Map<Option<GroupName>, Group>,
    queues: Map<QueueName, QueueInfo>,
    /// Jobs claimed through this machine, as long as nobody else has written since.
    held: Map<JobId, Job>,
    lanes: Map<LaneKey, LaneId>,
    /// Jobs read ahead of their claim; as good as the cache they belong to.
    fetched: Fetched,
    /// The next firing of any schedule; nothing while that is not known.
    firing: Option<Option<Timestamp>>,
    /// Rows of the inbox up to this one wait for room in their queues; the next look begins behind them.
    passed: u64,
    news: News,
    /// Jobs that ended in this operation and whose dependents are to be told.
    ended: Vec<(Seq, Final, bool)>,
}

/// A group as it is, and whether that is to be written.
#[derive(Debug)]
struct Group {
    info: GroupInfo,
    /// It is among the news.
    changed: bool,
}

/// What is to be written at the end of the transaction.
#[derive(Debug, Default)]
struct News {
    /// Each of them once: [`Group::changed`].
    groups: Vec<Option<GroupName>>,
    queues: BTreeSet<QueueName>,
    services: BTreeSet<ServiceName>,
    lanes: BTreeSet<LaneId>,
    usage: BTreeMap<(ServiceName, Option<Key>, Timestamp), i64>,
    events: Vec<Event>,
    any: bool,
}

impl<T: Tables> Machine<T> {
    /// A machine over tables; the cache is loaded by the first operation.
    pub fn new(tables: T) -> Self {
        Self {
            tables,
            board: Board::default(),
            seen: None,
            counters: Counters::default(),
            groups: Map::default(),
            queues: Map::default(),
            held: Map::default(),
            lanes: Map::default(),
            fetched: Fetched::default(),
            firing: None,
            passed: 0,
            news: News::default(),
            ended: Vec::new(),
        }
    }

    /// The tables, for what concerns them alone.
    pub fn tables(&mut self) -> &mut T {
        &mut self.tables
    }

    /// Brings the cache up to date. The first call of every transaction.
    pub fn begin(&mut self, now: Timestamp) -> Result<()> {
        let revision = self.tables.revision()?;
        if self.seen == Some(revision) {
            return Ok(());
        }
        let since = self.seen.unwrap_or(0);
        let changes = self.tables.changes(since, now)?;
        self.held.clear();
        self.fetched.clear();
        self.firing = None;
        if changes.afresh {
            self.board = Board::default();
            self.groups.clear();
            self.queues.clear();
            self.lanes.clear();
        }
        self.take_in(changes)?;
        self.seen = Some(revision);
        Ok(())
    }

    /// Writes what the operations left to be written. The last call of every transaction. Answers
    /// whether anything changed at all.
    pub fn end(&mut self) -> Result<bool> {
        if !self.news.any {
            return Ok(false);
        }
        self.flush()?;
        self.counters.served = self.board.served();
        let revision = self.tables.seal(&self.counters)?;
        self.seen = Some(revision);
        self.news.any = false;
        Ok(true)
    }

    fn flush(&mut self) -> Result<()> {
        let mut news = std::mem::take(&mut self.news);
        for name in &news.groups {
            if let Some(group) = self.groups.get_mut(name) {
                group.info.turn = self.board.turn(name.as_ref());
                group.changed = false;
            }
        }
        let group = |name| self.groups.get(name).map(|group| &group.info);
        let groups: Vec<&GroupInfo> = news.groups.iter().filter_map(group).collect();
        if !groups.is_empty() {
            self.tables.put_groups(&groups)?;
        }
        for name in &news.queues {
            if let Some(queue) = self.queues.get(name) {
                self.tables.put_queue(queue)?;
            }
        }
        for name in &news.services {
            if let Some(service) = self.board.service(name) {
                self.tables.put_service(&ServiceRow {
                    spec: service.spec().clone(),
                    breaker: service.breaker,
                    held_until: service.held_until,
                })?;
            }
        }
        for lane in &news.lanes {
            self.tables.touch_lane(*lane)?;
        }
        let row = |((service, key, at), units)| UsageRow { service, key, at, units };
        let counts = |(_, units): &(_, i64)| *units != 0;
        let rows: Vec<UsageRow> = news.usage.into_iter().filter(counts).map(row).collect();
        if !rows.is_empty() {
            self.tables.note_usage(&rows)?;
        }
        if !news.events.is_empty() {
            self.tables.append_events(&news.events)?;
            // The next transaction tends to have as many: it takes over their room.
            news.events.clear();
            self.news.events = news.events;
        }
        self.news.any = news.any;
        Ok(())
    }

    /// Builds the board anew from the tables, in the middle of a transaction: limits that have changed
    /// count what is in use and what was used before, whatever they were then.
    fn rebuild(&mut self, now: Timestamp) -> Result<()> {
        self.flush()?;
        let served = self.board.served();
        let counters = self.counters.clone();
        self.board = Board::default();
        self.lanes.clear();
        let changes = self.tables.changes(0, now)?;
        self.take_in(changes)?;
        self.counters = counters;
        self.board.set_served(served);
        Ok(())
    }

    /// The revision up to which this machine knows everything.
    pub fn revision(&self) -> Option<u64> {
        self.seen
    }

    /// Forgets everything after a transaction that was rolled back.
    pub fn reset(&mut self) {
        self.seen = None;
        self.groups.clear();
        self.held.clear();
        self.fetched.clear();
        self.firing = None;
        self.news = News::default();
        self.ended.clear();
    }

    /// Panics if the cache contradicts itself. For tests.
    pub fn check_invariants(&self) {
        self.board.check_invariants();
    }

    fn take_in(&mut self, changes: Changes) -> Result<()> {
        self.counters = changes.counters;
        self.board.set_served(self.counters.served);
        for group in changes.groups {
            self.board.set_group(group.name.as_ref(), group.paused, group.turn);
            self.groups.insert(group.name.clone(), Group { info: group, changed: false });
        }
        for queue in changes.queues {
            self.board.set_queue_paused(&queue.name, queue.paused);
            self.queues.insert(queue.name.clone(), queue);
        }
        for row in changes.services {
            let name = row.spec.name.clone();
            self.board.define_service(row.spec);
            if let Some(service) = self.board.service_mut(&name) {
                service.breaker = row.breaker;
                service.held_until = row.held_until;
            }
        }
        self.take_in_usage(changes.usage);
        for (lane, key) in changes.lanes {
            self.board.add_lane(lane, &key, true);
            self.lanes.insert(key, lane);
        }
        self.recount_held(&changes.held)?;
        self.board.unpark_all();
        Ok(())
    }

    /// In the order of time, which is what windows are quick with. What was taken back may be listed before what
    /// was used, so where there is any, uses of one instant are summed up first.
    fn take_in_usage(&mut self, mut usage: Vec<UsageRow>) {
        if usage.iter().any(|row| row.units < 0) {
            let row = |((service, key, at), units)| UsageRow { service, key, at, units };
            usage = in_all(usage).into_iter().map(row).collect();
            usage.sort_by_key(|row| row.at);
        }
        for UsageRow { service, key, at, units } in usage {
            let Some(service) = self.board.service_mut(&service) else { continue };
            match units {
                0 => {}
                1.. => service.note(key.as_ref(), units.unsigned_abs(), at),
                ..0 => service.take_back(key.as_ref(), units.unsigned_abs(), at),
            }
        }
    }

    /// Slots in use are not stored: they are the leased and running jobs.
    fn recount_held(&mut self, held: &[(LaneId, u32)]) -> Result<()> {
        let names: Vec<ServiceName> =
            self.board.services().iter().map(|s| s.spec().name.clone()).collect();
        for name in names {
            if let Some(service) = self.board.service_mut(&name) {
                service.vacate();
            }
        }
        for (lane, count) in held {
            let Some(key) = self.lane_key(*lane)? else { continue };
            for name in &key.services {
                if let Some(service) = self.board.service_mut(name) {
                    for _ in 0..*count {
                        service.occupy(key.key.as_ref());
                    }
                }
            }
        }
        Ok(())
    }

    fn lane_key(&mut self, lane: LaneId) -> Result<Option<Arc<LaneKey>>> {
        if let Some(key) = self.board.lane_key(lane) {
            return Ok(Some(key.clone()));
        }
        let key = self.tables.lane_key(lane)?;
        if let Some(key) = &key {
            self.board.add_lane(lane, key, true);
        }
        Ok(key.map(Arc::new))
    }

    /// Lanes whose heads the board does not know are looked up before a claim.
    fn fill_hungry(&mut self) -> Result<()> {
        use runcue_core::board::HEADS;
        let hungry = self.board.take_hungry();
        self.tables.expect_lanes(&hungry);
        for lane in hungry {
            let heads = self.heads_of(lane, HEADS)?;
            let (heads, asked) = self.that_could_run(lane, heads, HEADS)?;
            self.board.fill(lane, heads, asked);
        }
        Ok(())
    }

    /// The heads of a lane, and their jobs if they are to be read now.
    fn heads_of(&mut self, lane: LaneId, limit: usize) -> Result<Vec<Head>> {
        if !self.fetched.has_room() {
            return self.tables.ready(lane, None, limit);
        }
        if !T::NEIGHBOURS || self.board.lane_count() <= WHOLE {
            let jobs = self.tables.ready_jobs(lane, limit)?;
            let heads = jobs.iter().map(|job| Head::of(job.seq, &job.spec)).collect();
            jobs.into_iter().for_each(|job| self.fetched.keep(job));
            return Ok(heads);
        }
        let heads = self.tables.ready(lane, None, limit)?;
        // Where jobs of many lanes are mixed, those of one are read with their neighbours when they are taken.
        let (first, last) = (heads.iter().map(|h| h.seq).min(), heads.iter().map(|h| h.seq).max());
        if let (Some(first), Some(last)) = (first, last) {
            let span = usize::try_from(last.0 - first.0).unwrap_or(usize::MAX).saturating_add(1);
            if span < heads.len() * 2 {
                let jobs = self.tables.ready_from(first, span)?;
                jobs.into_iter().for_each(|job| self.fetched.keep(job));
            }
        }
        Ok(heads)
    }

    /// A job by id: from the cache if it is held here, else from the tables.
    fn load(&mut self, id: JobId) -> Result<Option<Job>> {
        if let Some(job) = self.held.get(&id) {
            return Ok(Some(job.clone()));
        }
        match self.tables.seq_of(id)? {
            Some(seq) => self.tables.job(seq),
            None => Ok(None),
        }
    }

    /// The one way a job changes: asks core, writes the answer, and keeps counts, board, events and
    /// services in step. Dependents are told by [`Machine::resolve`] at the end of the operation.
    fn apply(
        &mut self,
        now: Timestamp,
        job: &mut Job,
        input: Input<'_>,
        blamed: Option<&ServiceName>,
    ) -> Result<std::result::Result<(), Refused>> {
        let with_dependents =
            matches!(input, Input::PrerequisiteUnmet(Unmet::CancelledWithDependents));
        let is_claim = matches!(input, Input::Claim { .. });
        let before = job.life.state.clone();
        let worker = before.lease().map(|lease| lease.worker);
        let outcome = match transition(&mut job.life, &job.spec, now, input) {
            Ok(outcome) => outcome,
            Err(refused) => return Ok(Err(refused)),
        };
        self.news.any = true;
        self.fetched.take(job.seq);
        self.tables.save(job, &before)?;
        self.count(&job.spec, Some(&before), Some(&job.life.state));
        // What is claimed leaves the board together with its group's turn: `Board::taken`.
        if !is_claim {
            self.move_on_board(job, &before);
        }
        if let Some(verdict) = outcome.released {
            self.held.remove(&job.spec.id);
            let changes = self.board.release(job.spec.id, &job.spec, verdict, blamed, now);
            self.note_released(now, &job.spec, changes);
        }
        if let Some(at) = outcome.unused {
            self.take_use_back(&job.spec, at);
        }
        if let Some(kind) = outcome.event {
            let event = describe(kind, now, job, worker);
            self.emit(event);
        }
        if let Some(end) = outcome.ended
            && job.has_dependents
        {
            self.ended.push((job.seq, end, with_dependents));
        }
        Ok(Ok(()))
    }

    /// Tells the dependents of every job that ended, and theirs in turn.
    fn resolve(&mut self, now: Timestamp) -> Result<()> {
        while let Some((seq, end, cascade)) = self.ended.pop() {
            for dependent in self.tables.dependents(seq)? {
                let Some(mut job) = self.tables.job(dependent)? else { continue };
                let input = match Unmet::after(end, cascade) {
                    None => Input::PrerequisiteDone,
                    Some(unmet) => Input::PrerequisiteUnmet(unmet),
                };
                // A dependent that has ended on its own account is left as it is.
                let _ = self.apply(now, &mut job, input, None)?;
            }
        }
        Ok(())
    }

    fn move_on_board(&mut self, job: &Job, before: &State) {
        let was_ready = *before == State::Queued(Wait::Turn);
        let is_ready = job.life.state == State::Queued(Wait::Turn);
        if was_ready && !is_ready {
            self.board.remove(job.lane, job.seq);
        }
        if !was_ready && is_ready {
            self.ready_now(job);
        }
    }

    /// A job waits for nothing but its turn now.
    fn ready_now(&mut self, job: &Job) {
        self.news.lanes.insert(job.lane);
        if self.board.has_lane(job.lane) {
            self.board.push(job.lane, Head::of(job.seq, &job.spec));
        } else {
            self.board.add_lane(job.lane, &LaneKey::of(&job.spec), true);
        }
    }

    fn note_released(
        &mut self,
        now: Timestamp,
        spec: &JobSpec,
        changes: Vec<(ServiceName, Change)>,
    ) {
        for used in &spec.services {
            let judged = self
                .board
                .service(&used.service)
                .is_some_and(|s| s.spec().circuit_threshold.is_some());
            if judged {
                self.news.services.insert(used.service.clone());
            }
        }
        for (service, change) in changes {
            let message = match change {
                Change::Opened(_) => "circuit_opened",
                Change::Closed => "circuit_closed",
            };
            let retry_at = match change {
                Change::Opened(until) => Some(until),
                Change::Closed => None,
            };
            self.emit(Event {
                service: Some(service),
                message: Some(message.to_owned()),
                retry_at,
                ..Event::new(EventKind::ServiceStatus, now)
            });
        }
    }

    fn emit(&mut self, mut event: Event) {
        self.counters.event += 1;
        event.seq = self.counters.event;
        self.news.any = true;
        self.news.events.push(event);
    }

    /// Keeps the counts of groups, queues and stages in step with a job's change of state.
    fn count(&mut self, spec: &JobSpec, before: Option<&State>, after: Option<&State>) {
        let group = self.change_group(&spec.group);
        let was_idle = group.counts.queued == 0;
        let (old, new) = (before.map(State::word), after.map(State::word));
        if old != new {
            if let Some(word) = old {
                let count = group.counts.of(word);
                *count = count.saturating_sub(1);
            }
            if let Some(word) = new {
                *group.counts.of(word) += 1;
            }
        }
        let joins = was_idle && group.counts.queued > 0;
        if joins {
            self.board.activate(spec.group.as_ref());
        }
        self.count_stage(before, false);
        self.count_stage(after, true);
        let queued = |word: Option<StateWord>| word == Some(StateWord::Queued);
        if queued(old) != queued(new) {
            let queue = self.queue(&spec.queue);
            queue.queued =
                if queued(new) { queue.queued + 1 } else { queue.queued.saturating_sub(1) };
            self.news.queues.insert(spec.queue.clone());
        }
    }

    fn count_stage(&mut self, state: Option<&State>, up: bool) {
        let counter = match state {
            Some(State::Queued(Wait::Until(_))) => &mut self.counters.delayed,
            Some(State::Queued(Wait::Prerequisites(_))) => &mut self.counters.blocked,
            _ => return,
        };
        *counter = if up { *counter + 1 } else { counter.saturating_sub(1) };
    }

    /// A group that is to be written when the transaction ends.
    fn change_group(&mut self, name: &Option<GroupName>) -> &mut GroupInfo {
        let group = self.groups.entry(name.clone()).or_insert_with(|| Group {
            info: GroupInfo { name: name.clone(), ..GroupInfo::default() },
            changed: false,
        });
        if !group.changed {
            group.changed = true;
            self.news.groups.push(name.clone());
        }
        &mut group.info
    }

    fn queue(&mut self, name: &QueueName) -> &mut QueueInfo {
        self.queues
            .entry(name.clone())
            .or_insert_with(|| QueueInfo { name: name.clone(), ..QueueInfo::default() })
    }
}

/// Units in all that were used at each instant.
fn in_all(
    usage: impl IntoIterator<Item = UsageRow>,
) -> BTreeMap<(ServiceName, Option<Key>, Timestamp), i64> {
    let mut sums = BTreeMap::new();
    for row in usage {
        *sums.entry((row.service, row.key, row.at)).or_default() += row.units;
    }
    sums
}

fn signed(units: u64) -> i64 {
    i64::try_from(units).unwrap_or(i64::MAX)
}

fn describe(
    kind: EventKind,
    now: Timestamp,
    job: &Job,
    worker: Option<runcue_core::WorkerId>,
) -> Event {
    let life = &job.life;
    let mut event = Event::of_job(kind, now, job);
    event.worker = life.state.lease().map(|lease| lease.worker).or(worker);
    if kind.is_final() {
        event.state = Some(life.state.word());
        event.took = life
            .started_at
            .filter(|_| worker.is_some())
            .and_then(|start| u64::try_from(now.since(start).as_micros()).ok());
    }
    if matches!(kind, EventKind::Failed | EventKind::Retrying | EventKind::Cancelled) {
        event.error.clone_from(&life.last_error);
    }
    if let State::Queued(Wait::Until(at)) = life.state {
        event.retry_at = Some(at);
    }
    event
}

impl StoreError {
    /// Whether the request was refused before anything was written.
    pub fn is_refusal(&self) -> bool {
        matches!(
            self,
            Self::Invalid { .. }
                | Self::TooMany { .. }
                | Self::UnknownService { .. }
                | Self::NeverFits { .. }
                | Self::UnknownPrerequisite { .. }
                | Self::Cycle(_)
                | Self::RepeatedId { .. }
                | Self::KeyTaken { .. }
                | Self::Full { .. }
                | Self::BadSchedule { .. }
                | Self::NotFound(_)
        )
    }
}
