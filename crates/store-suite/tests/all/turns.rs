//! The machine in turns, over a backend of plain maps: the contract on two handles, and replies that are lost
//! before and after the commit they belong to.

mod aside;
mod lending;
mod reading;
mod telling;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use runcue_core::{
    Event, GroupName, Job, JobFilter, JobId, Json, LaneId, LaneKey, QueueName, ScheduleName, Seq,
    ServiceName, State, TaskName, TaskSpec, Timestamp, Wait, WorkerId,
};
use runcue_store::overlay::{
    Answers, Backend, Changed, CommitId, Committed, Find, Haste, JobWrite, LARGE, LOG_BYTES, News,
    Numbers, OnRead, Opening, Places, PrunedEvents, Questions, Rank, Reader, ReadyQuestion,
    ServerStore, Settings, Timed, TouchedLane, WriteSet,
};
use runcue_store::tables::{InboxRow, ServiceRow, UsageRow};
use runcue_store::{
    GroupInfo, ListRequest, LogChunk, Page, QueueInfo, Record, Result, ScheduleInfo, Store,
    StoreError, WorkerInfo, WorkerSpec,
};
use runcue_store_suite::Maker;

/// What a revision changed.
#[derive(Clone, Default)]
struct Turn {
    id: Option<CommitId>,
    touched: BTreeMap<LaneId, Option<Rank>>,
    held: BTreeMap<LaneId, u32>,
    groups: BTreeSet<Option<GroupName>>,
    queues: BTreeSet<QueueName>,
    schedules: BTreeMap<ScheduleName, Option<ScheduleInfo>>,
    dropped: bool,
    services: BTreeSet<ServiceName>,
    usage: Vec<UsageRow>,
    jobs: Vec<Places>,
}

#[derive(Default)]
struct Rows {
    turns: Vec<Turn>,
    numbers: Numbers,
    jobs: BTreeMap<Seq, Job>,
    keys: BTreeMap<String, Seq>,
    ties: BTreeSet<(Seq, Seq)>,
    lanes: BTreeMap<LaneId, (LaneKey, String)>,
    held: BTreeMap<LaneId, u32>,
    groups: BTreeMap<Option<GroupName>, GroupInfo>,
    queues: BTreeMap<QueueName, QueueInfo>,
    schedules: BTreeMap<ScheduleName, Option<ScheduleInfo>>,
    services: Vec<ServiceRow>,
    tasks: BTreeMap<TaskName, TaskSpec>,
    records: BTreeMap<String, Option<Json>>,
    workers: BTreeMap<WorkerId, WorkerInfo>,
    usage: Vec<UsageRow>,
    events: Vec<Event>,
    logs: Vec<(Seq, LogChunk)>,
    taken: bool,
}

/// A server in this process.
#[derive(Default)]
struct Server {
    rows: Mutex<Rows>,
    free: Condvar,
    /// Every so many commits the reply is lost: in turn before and after it is written.
    lose_every: AtomicU32,
    /// Before every so many commits outside of a turn somebody else writes.
    overtake_every: u32,
    commits: AtomicU32,
    handles: AtomicU64,
    /// Turns that were begun, and in what haste.
    begun: AtomicU64,
    hastes: Mutex<Vec<Haste>>,
    /// Somebody with little to do always waits, as far as daemons are told, and how often a turn was lent to them.
    hurry: bool,
    lent: AtomicU64,
    /// How long a commit takes.
    takes: Duration,
    /// Commits that were refused, or whose reply was lost, while others waited for them.
    failed: AtomicU32,
    /// A job with this task cannot be written: the server refuses the commit for good.
    refused_task: Option<&'static str>,
    /// Ready jobs that were read beside a commit, and those that were read when a turn had begun.
    read: AtomicU64,
    put_off: AtomicU64,
    /// Whether daemons have a secret to sign with what they tell each other.
    tells: bool,
    listeners: Mutex<Vec<News>>,
}

impl Server {
    fn tell(&self, message: &str) {
        self.listeners.lock().unwrap().iter().for_each(|news| news.told(message));
    }
}

impl Rows {
    fn revision(&self) -> u64 {
        self.turns.len() as u64 + 1
    }

    fn id(&self, id: JobId) -> Option<&Job> {
        self.jobs.values().find(|job| job.id() == id)
    }

    fn ready(&self, lane: LaneId) -> Vec<&Job> {
        let ready = |job: &&Job| job.lane == lane && job.life.state == State::Queued(Wait::Turn);
        let mut jobs: Vec<&Job> = self.jobs.values().filter(ready).collect();
        jobs.sort_by_key(|job| Rank::of(job));
        jobs
    }

    fn changed(&self, since: u64) -> Changed {
        let turns = &self.turns[usize::try_from(since.max(1)).unwrap() - 1..];
        if since == 0 || turns.iter().any(|turn| turn.dropped) {
            let lanes = self.lanes.iter().filter(|(lane, _)| !self.ready(**lane).is_empty());
            let touched = |(lane, (key, _)): (&LaneId, &(LaneKey, String))| TouchedLane {
                lane: *lane,
                key: key.clone(),
                from: None,
            };
            return Changed {
                whole: true,
                groups: self.groups.values().cloned().collect(),
                queues: self.queues.values().cloned().collect(),
                schedules: self.schedules.clone().into_iter().collect(),
                services: self.services.clone(),
                lanes: lanes.map(touched).collect(),
                usage: self.usage.clone(),
                held: self.held.iter().map(|(lane, n)| (*lane, *n)).collect(),
                jobs: Vec::new(),
            };
        }
        let mut all = Turn::default();
        for turn in turns {
            for (lane, from) in &turn.touched {
                let known = all.touched.entry(*lane).or_default();
                *known = (*known).into_iter().chain(*from).min();
            }
            all.held.extend(turn.held.clone());
            all.groups.extend(turn.groups.clone());
            all.queues.extend(turn.queues.clone());
            all.schedules.extend(turn.schedules.clone());
            all.services.extend(turn.services.clone());
            all.usage.extend(turn.usage.clone());
            all.jobs.extend(turn.jobs.clone());
        }
        let lane = |(lane, from): (LaneId, Option<Rank>)| TouchedLane {
            lane,
            key: self.lanes[&lane].0.clone(),
            from,
        };
        let services = self.services.iter().filter(|row| all.services.contains(&row.spec.name));
        Changed {
            whole: false,
            groups: all.groups.iter().map(|name| self.groups[name].clone()).collect(),
            queues: all.queues.iter().map(|name| self.queues[name].clone()).collect(),
            schedules: all.schedules.into_iter().collect(),
            services: services.cloned().collect(),
            lanes: all.touched.into_iter().map(lane).collect(),
            usage: all.usage,
            held: all.held.into_iter().collect(),
            jobs: all.jobs,
        }
    }

    /// The beginnings of lanes are those that a revision had, or that the turn has.
    fn answer(&self, questions: &Questions, in_turn: bool) -> Answers {
        let mut answers = Answers::default();
        answers.jobs.extend(questions.ids.iter().filter_map(|id| self.id(*id)).cloned());
        let seqs = questions.seqs.iter().chain(&questions.ready_seqs);
        answers.jobs.extend(seqs.filter_map(|seq| self.jobs.get(seq)).cloned());
        for key in &questions.keys {
            if let Some(seq) = self.keys.get(key) {
                answers.keys.push((key.clone(), *seq));
                answers.jobs.push(self.jobs[seq].clone());
            }
        }
        for question in &questions.ready {
            let jobs = self.ready(question.lane);
            let early = |job: &&Job| question.from.is_some_and(|from| Rank::of(job) < from);
            assert!(!in_turn || !jobs.iter().any(early), "a ready job stands before the beginning");
            let wanted = jobs
                .into_iter()
                .filter(|job| !early(job))
                .filter(|job| question.behind.is_none_or(|behind| Rank::of(job) > behind))
                .filter(|job| question.max_priority.is_none_or(|max| job.spec.priority <= max));
            answers.ready.push(wanted.take(question.limit).cloned().collect());
        }
        for (before, behind) in &self.ties {
            if questions.dependents.contains(before) {
                answers.ties.push((*before, *behind));
                answers.jobs.push(self.jobs[behind].clone());
            }
            if questions.prerequisites.contains(behind) {
                answers.ties.push((*before, *behind));
                answers.jobs.push(self.jobs[before].clone());
            }
        }
        for (lane, (key, canonical)) in &self.lanes {
            if questions.lanes.contains(canonical) {
                answers.lanes.push((canonical.clone(), *lane));
            }
            if questions.lane_keys.contains(lane) {
                answers.lane_keys.push((*lane, key.clone()));
            }
        }
        answers
    }

    fn timed(&self, list: Timed) -> BTreeSet<(Timestamp, Seq)> {
        let at = |job: &Job| match (list, &job.life.state) {
            (Timed::Delayed, State::Queued(Wait::Until(at))) => Some(*at),
            (Timed::Lapsing, state) => state.lease().map(|lease| lease.until),
            (Timed::Deadline, _) => job.life.deadline(&job.spec),
            _ => None,
        };
        self.jobs.values().filter_map(|job| Some((at(job)?, job.seq))).collect()
    }

    fn delete(&mut self, seq: Seq) {
        self.jobs.remove(&seq);
        self.keys.retain(|_, holder| *holder != seq);
        self.ties.retain(|(before, behind)| *before != seq && *behind != seq);
        self.logs.retain(|(of, _)| *of != seq);
    }

    fn write(&mut self, writes: &WriteSet) {
        for seq in &writes.dropped_keys {
            self.keys.retain(|_, holder| holder != seq);
        }
        if let Some(before) = writes.prune_usage {
            self.usage.retain(|row| row.at >= before);
        }
        if let Some(what) = writes.prune_events {
            self.events.retain(|event| event.at >= what.before && event.seq > what.through);
        }
        for (seq, write) in &writes.jobs {
            match write {
                JobWrite::Insert(job) => {
                    if let Some(key) = &job.spec.idempotency_key
                        && !writes.dropped_keys.contains(seq)
                    {
                        self.keys.insert(key.clone(), *seq);
                    }
                    assert!(self.jobs.insert(*seq, job.clone()).is_none());
                }
                JobWrite::Change { job, before } => {
                    let old = self.jobs.insert(*seq, job.clone()).unwrap();
                    assert_eq!(old.life.state, *before, "what it was before the turn");
                    assert_eq!((&old.spec, old.lane), (&job.spec, job.lane));
                }
                JobWrite::Delete { job } => self.delete(job.seq),
            }
        }
        self.ties.extend(writes.ties.iter().copied());
        for (lane, row) in &writes.lanes {
            assert!(self.lanes.insert(*lane, row.clone()).is_none());
        }
        for lane in writes.dropped_lanes.keys() {
            assert!(self.jobs.values().all(|job| job.lane != *lane), "its jobs are gone");
            assert!(self.lanes.remove(lane).is_some());
        }
        for name in &writes.dropped_groups {
            self.groups.remove(name);
        }
        self.held.extend(writes.held.clone());
        self.groups.extend(writes.groups.clone());
        self.queues.extend(writes.queues.clone());
        self.schedules.extend(writes.schedules.clone());
        for row in writes.services.values() {
            match self.services.iter_mut().find(|known| known.spec.name == row.spec.name) {
                Some(known) => *known = row.clone(),
                None => self.services.push(row.clone()),
            }
        }
        self.tasks.extend(writes.tasks.clone());
        self.records.extend(writes.records.clone());
        for (id, (spec, now)) in &writes.workers {
            let started_at = self.workers.get(id).map_or(*now, |known| known.started_at);
            let info = WorkerInfo { spec: spec.clone(), started_at, seen_at: *now, held: 0 };
            self.workers.insert(*id, info);
        }
        for id in &writes.dropped_workers {
            self.workers.remove(id);
        }
        for (id, now) in &writes.seen_workers {
            if let Some(worker) = self.workers.get_mut(id) {
                worker.seen_at = *now;
            }
        }
        self.usage.extend(writes.usage.clone());
        self.events.extend(writes.events.clone());
        self.logs.extend(writes.logs.clone());
        for (seq, _) in &writes.logs {
            self.trim_log(*seq);
        }
        self.numbers = writes.numbers.clone();
        for list in [Timed::Delayed, Timed::Lapsing, Timed::Deadline] {
            let first = self.timed(list).first().map(|(at, _)| *at);
            let bound = self.numbers.earliest.get(list);
            assert!(first.is_none() || bound.is_some_and(|bound| Some(bound) <= first));
            assert!(list != Timed::Delayed || bound == first, "that bound is exact");
        }
        self.turns.push(Turn {
            id: writes.id,
            touched: writes.touched.clone(),
            held: writes.held.clone(),
            groups: writes.groups.keys().cloned().collect(),
            queues: writes.queues.keys().cloned().collect(),
            schedules: writes.schedules.clone(),
            dropped: !writes.dropped_lanes.is_empty() || !writes.dropped_groups.is_empty(),
            services: writes.services.keys().cloned().collect(),
            usage: writes.usage.clone(),
            jobs: writes.changed(),
        });
    }

    fn trim_log(&mut self, seq: Seq) {
        let len = |rows: &[(Seq, LogChunk)]| -> usize {
            rows.iter().filter(|(of, _)| *of == seq).map(|(_, chunk)| chunk.text.len()).sum()
        };
        while len(&self.logs) > LOG_BYTES
            && self.logs.iter().filter(|(of, _)| *of == seq).count() > 1
        {
            let oldest = self.logs.iter().position(|(of, _)| *of == seq).unwrap();
            self.logs.remove(oldest);
        }
    }
}

/// A connection.
struct Maps {
    server: Arc<Server>,
    in_turn: bool,
    /// What is read beside the next commit, and what was.
    reading: Option<(ReadyQuestion, Option<Vec<Job>>)>,
    reading_since: u64,
    when_begun: Option<ReadyQuestion>,
}

impl Maps {
    fn read(&self, question: &ReadyQuestion) -> Vec<Job> {
        let questions = Questions { ready: vec![question.clone()], ..Questions::default() };
        self.server.rows.lock().unwrap().answer(&questions, false).ready.remove(0)
    }
}

impl Backend for Maps {
    fn connect(&mut self) -> Result<()> {
        self.abandon();
        Ok(())
    }

    fn begin(
        &mut self,
        known: u64,
        _: Option<Timestamp>,
        questions: &Questions,
        haste: Haste,
    ) -> Result<Opening> {
        let rows = self.server.rows.lock().unwrap();
        let mut rows = self.server.free.wait_while(rows, |rows| rows.taken).unwrap();
        rows.taken = true;
        self.in_turn = true;
        self.server.begun.fetch_add(1, Ordering::Relaxed);
        self.server.hastes.lock().unwrap().push(haste);
        let revision = rows.revision();
        if let Some(question) = self.when_begun.take() {
            let questions = Questions { ready: vec![question.clone()], ..Questions::default() };
            let read = rows.answer(&questions, false).ready.remove(0);
            self.server.put_off.fetch_add(read.len() as u64, Ordering::Relaxed);
            self.reading = Some((question, Some(read)));
        }
        Ok(Opening {
            revision,
            now: Timestamp::ZERO,
            numbers: rows.numbers.clone(),
            changed: (known != revision).then(|| rows.changed(known)),
            answers: rows.answer(questions, false),
        })
    }

    fn look(&mut self) -> Result<(u64, Timestamp)> {
        Ok((self.server.rows.lock().unwrap().revision(), Timestamp::ZERO))
    }

    fn ask(&mut self, questions: &Questions) -> Result<Answers> {
        Ok(self.server.rows.lock().unwrap().answer(questions, self.in_turn))
    }

    fn secret(&mut self) -> Result<Option<Vec<u8>>> {
        Ok(self.server.tells.then(|| b"only daemons know it".to_vec()))
    }

    fn begins_behind(&self) -> bool {
        true
    }

    fn read_when_begun(&mut self, question: &ReadyQuestion) -> bool {
        self.when_begun = Some(question.clone());
        true
    }

    /// Now and then it is read before the commit, now and then after it.
    fn begin_reading(&mut self, question: &ReadyQuestion, known: u64) {
        let early = known.is_multiple_of(2).then(|| self.read(question));
        self.reading = Some((question.clone(), early));
        self.reading_since = known;
    }

    fn end_reading(&mut self) -> Option<Vec<Job>> {
        let jobs = self.reading.take()?.1?;
        self.server.read.fetch_add(jobs.len() as u64, Ordering::Relaxed);
        Some(jobs)
    }

    fn whole(&mut self, _: Timestamp, _: Duration) -> Result<Changed> {
        Ok(self.server.rows.lock().unwrap().changed(0))
    }

    fn timed(
        &mut self,
        list: Timed,
        from: Option<Timestamp>,
        limit: usize,
    ) -> Result<Vec<(Timestamp, Seq)>> {
        let all = self.server.rows.lock().unwrap().timed(list);
        let first = all.first().map(|(at, _)| *at);
        assert!(from.is_none() || first.is_none() || from <= first, "a bound that is too late");
        Ok(all.into_iter().take(limit).collect())
    }

    fn find(&mut self, what: &Find<'_>) -> Result<Vec<Seq>> {
        let rows = self.server.rows.lock().unwrap();
        let jobs = rows.jobs.values();
        let seqs = |jobs: &mut dyn Iterator<Item = &Job>, limit| {
            jobs.map(|job| job.seq).take(limit).collect::<Vec<Seq>>()
        };
        Ok(match what {
            Find::HeldBy(worker) => {
                let held = |job: &&Job| job.life.state.lease().is_some_and(|l| l.worker == *worker);
                seqs(&mut jobs.filter(held), usize::MAX)
            }
            Find::OldestQueued { queue, limit } => {
                let queued = |job: &&Job| {
                    job.spec.queue == **queue && matches!(job.life.state, State::Queued(_))
                };
                seqs(&mut jobs.filter(queued), *limit)
            }
            Find::Matching { filter, after, limit } => {
                let later = jobs.filter(|job| after.is_none_or(|after| job.seq > after));
                seqs(&mut later.filter(|job| filter.matches(job)), *limit)
            }
            Find::Stale { state, ended_before, keep, limit } => {
                let ended = jobs.filter(|job| job.life.state.word() == *state);
                let set: BTreeSet<(Timestamp, Seq)> =
                    ended.map(|job| (job.life.finished_at.unwrap(), job.seq)).collect();
                let keep = usize::try_from(*keep).unwrap_or(usize::MAX);
                let old = set.range(..(*ended_before, Seq(0))).count();
                let gone = old.max(set.len().saturating_sub(keep)).min(*limit);
                set.into_iter().take(gone).map(|(_, seq)| seq).collect()
            }
        })
    }

    fn ahead(&mut self, lane: LaneId, place: Rank) -> Result<u64> {
        let rows = self.server.rows.lock().unwrap();
        Ok(rows.ready(lane).iter().filter(|job| Rank::of(job) < place).count() as u64)
    }

    fn idle_lanes(
        &mut self,
        going: &BTreeMap<LaneId, u64>,
        limit: usize,
    ) -> Result<Vec<(LaneId, String)>> {
        let rows = self.server.rows.lock().unwrap();
        let idle = |lane: &LaneId| {
            let jobs = rows.jobs.values().filter(|job| job.lane == *lane).count() as u64;
            jobs == going.get(lane).copied().unwrap_or(0)
        };
        let lanes = rows.lanes.iter().filter(|(lane, _)| idle(lane));
        Ok(lanes.take(limit).map(|(lane, (_, canonical))| (*lane, canonical.clone())).collect())
    }

    fn live_workers(&mut self, since: Timestamp) -> Result<Vec<WorkerSpec>> {
        let rows = self.server.rows.lock().unwrap();
        let live = rows.workers.values().filter(|worker| worker.seen_at >= since);
        Ok(live.map(|worker| worker.spec.clone()).collect())
    }

    fn count_usage(&mut self, before: Timestamp) -> Result<u64> {
        let rows = self.server.rows.lock().unwrap();
        Ok(rows.usage.iter().filter(|row| row.at < before).count() as u64)
    }

    fn count_events(&mut self, what: PrunedEvents) -> Result<u64> {
        let rows = self.server.rows.lock().unwrap();
        let gone = |event: &&Event| event.at < what.before || event.seq <= what.through;
        Ok(rows.events.iter().filter(gone).count() as u64)
    }

    fn inbox(&mut self, _: u64, _: usize) -> Result<Vec<InboxRow>> {
        Ok(Vec::new())
    }

    fn check(&mut self) -> Result<Vec<String>> {
        let rows = self.server.rows.lock().unwrap();
        let mut held: BTreeMap<LaneId, u32> = BTreeMap::new();
        for job in rows.jobs.values() {
            if job.life.state.lease().is_some() && !job.spec.services.is_empty() {
                *held.entry(job.lane).or_default() += 1;
            }
        }
        let kept: BTreeMap<LaneId, u32> =
            rows.held.iter().filter(|(_, n)| **n > 0).map(|(lane, n)| (*lane, *n)).collect();
        Ok((held != kept).then(|| format!("held are {held:?}, not {kept:?}")).into_iter().collect())
    }

    fn commit_and_tell(&mut self, writes: &WriteSet, read: &mut OnRead<'_>) -> Result<Committed> {
        // Now and then it leaves that to whoever asks for it.
        let before = self.reading.is_some() && self.reading_since < writes.follows;
        if before && !writes.follows.is_multiple_of(3) {
            read(self.end_reading());
        }
        let every = self.server.lose_every.load(Ordering::Relaxed);
        let n = self.server.commits.fetch_add(1, Ordering::Relaxed);
        let server = Arc::clone(&self.server);
        let lost = || {
            server.failed.fetch_add(1, Ordering::Relaxed);
            Err(StoreError::Unavailable("the reply was lost".to_owned()))
        };
        std::thread::sleep(self.server.takes);
        if every > 0 && n % (2 * every) == 1 {
            return lost();
        }
        let mut rows = self.server.rows.lock().unwrap();
        assert_eq!(self.in_turn, writes.in_turn);
        assert!(!writes.lends_turn || (writes.in_turn && !writes.keeps_turn));
        self.server.lent.fetch_add(writes.lends_turn.into(), Ordering::Relaxed);
        let overtake = self.server.overtake_every;
        if overtake > 0 && !self.in_turn && !rows.taken && n.is_multiple_of(overtake) {
            rows.turns.push(Turn::default());
        }
        let behind = writes.follows != rows.revision() || (rows.taken && !self.in_turn);
        let ids = writes.jobs.values().filter_map(|write| match write {
            JobWrite::Insert(job) => Some(job.id()),
            _ => None,
        });
        let known: Vec<JobId> = ids.filter(|id| rows.id(*id).is_some()).collect();
        let refused = |write: &JobWrite| {
            self.server.refused_task.is_some_and(|task| write.job().spec.task.as_str() == task)
        };
        if writes.jobs.values().any(refused) {
            let (place, why) = ("maps".to_owned(), "it is full".to_owned());
            return Err(StoreError::ReadOnly { place, why });
        }
        let committed = if behind {
            self.server.failed.fetch_add(1, Ordering::Relaxed);
            Committed::Behind
        } else if !known.is_empty() {
            Committed::Known(known)
        } else {
            rows.write(writes);
            self.server.tell(&writes.message().unwrap_or_default());
            Committed::Done {
                now: Timestamp::ZERO,
                kept: writes.keeps_turn,
                hurry: self.server.hurry,
                line: None,
            }
        };
        drop(rows);
        if let Some((question, None)) = &self.reading {
            self.reading = Some((question.clone(), Some(self.read(question))));
        }
        if !matches!(committed, Committed::Done { kept: true, .. }) {
            self.abandon();
        }
        if every > 0 && n % (2 * every) == every + 1 {
            return lost();
        }
        Ok(committed)
    }

    fn abandon(&mut self) {
        if std::mem::take(&mut self.in_turn) {
            self.server.rows.lock().unwrap().taken = false;
            self.server.free.notify_all();
        }
    }

    fn settle(&mut self, commit: CommitId, follows: u64) -> Result<bool> {
        let rows = self.server.rows.lock().unwrap();
        let mut rows = self.server.free.wait_while(rows, |rows| rows.taken).unwrap();
        let turn = rows.turns.get(usize::try_from(follows).unwrap() - 1);
        let through = turn.is_some_and(|turn| turn.id == Some(commit));
        if !through {
            rows.turns.push(Turn::default());
        }
        Ok(through)
    }
}

/// Questions of people.
struct Look(Arc<Server>);

#[async_trait]
impl Reader for Look {
    async fn get(&self, ids: Vec<JobId>) -> Result<Vec<Option<Job>>> {
        let rows = self.0.rows.lock().unwrap();
        Ok(ids.into_iter().map(|id| rows.id(id).cloned()).collect())
    }

    async fn list(&self, request: ListRequest) -> Result<Page<Job>> {
        let rows = self.0.rows.lock().unwrap();
        let before = request.before.unwrap_or(Seq(u64::MAX));
        let newest_first = rows.jobs.range(..before).rev().map(|(_, job)| job);
        let filter: &JobFilter = &request.filter;
        let wanted = newest_first.filter(|job| filter.matches(job)).take(request.limit + 1);
        let mut found: Vec<Job> = wanted.cloned().collect();
        let more = found.len() > request.limit;
        found.truncate(request.limit);
        let next = found.last().map(|job| job.seq).filter(|_| more);
        Ok(Page { rows: found, next })
    }

    async fn records(&self, kind: &str) -> Result<Vec<Record>> {
        let rows = self.0.rows.lock().unwrap();
        let kept = rows.records.iter().filter_map(|(key, value)| Record::of(key, value.clone()?));
        Ok(kept.filter(|record| record.kind == kind).collect())
    }

    async fn tasks(&self) -> Result<Vec<TaskSpec>> {
        Ok(self.0.rows.lock().unwrap().tasks.values().cloned().collect())
    }

    async fn workers(&self) -> Result<Vec<WorkerInfo>> {
        let rows = self.0.rows.lock().unwrap();
        let held = |id: WorkerId| {
            let leases = rows.jobs.values().filter_map(|job| job.life.state.lease());
            leases.filter(|lease| lease.worker == id).count() as u64
        };
        let info = |known: &WorkerInfo| WorkerInfo { held: held(known.spec.id), ..known.clone() };
        Ok(rows.workers.values().map(info).collect())
    }

    async fn events(&self, after: u64, limit: usize) -> Result<Vec<Event>> {
        let rows = self.0.rows.lock().unwrap();
        Ok(rows.events.iter().filter(|event| event.seq > after).take(limit).cloned().collect())
    }

    async fn last_event(&self) -> Result<u64> {
        Ok(self.0.rows.lock().unwrap().numbers.counters.event)
    }

    async fn logs(&self, id: JobId, after: u64) -> Result<Vec<LogChunk>> {
        let rows = self.0.rows.lock().unwrap();
        let chunks = rows.logs.iter().map(|(_, chunk)| chunk);
        Ok(chunks.filter(|chunk| chunk.job == id && chunk.n > after).cloned().collect())
    }

    async fn relatives(&self, id: JobId) -> Result<Option<(Vec<JobId>, Vec<JobId>)>> {
        let rows = self.0.rows.lock().unwrap();
        let Some(seq) = rows.id(id).map(|job| job.seq) else { return Ok(None) };
        let before = rows.ties.iter().filter(|(_, behind)| *behind == seq).map(|(p, _)| p);
        let behind = rows.ties.iter().filter(|(before, _)| *before == seq).map(|(_, d)| d);
        let id = |seq: &Seq| rows.jobs[seq].id();
        Ok(Some((before.map(id).collect(), behind.map(id).collect())))
    }

    fn listen(&self, news: &News) {
        self.0.listeners.lock().unwrap().push(news.clone());
    }

    fn durability(&self) -> &'static str {
        "maps"
    }

    async fn close(&self) {}
}

/// Servers of maps; the latest one is what is opened again.
pub struct Servers {
    latest: Mutex<Arc<Server>>,
    lose_every: u32,
    tells: bool,
    takes: Duration,
    large: usize,
    overtake_every: u32,
    refused_task: Option<&'static str>,
    hurry: bool,
}

impl Servers {
    pub fn new() -> Self {
        let latest = Mutex::default();
        let takes = Duration::ZERO;
        let (lose_every, overtake_every, tells) = (0, 0, false);
        let (refused_task, hurry, large) = (None, false, LARGE);
        Self { latest, lose_every, tells, takes, large, overtake_every, refused_task, hurry }
    }

    /// Servers whose handles let every commit be carried out by their second thread, where it takes so long.
    pub fn aside(self, takes: Duration) -> Self {
        Self { large: 0, takes, ..self }
    }

    /// Servers that lose every so many replies.
    pub fn losing(every: u32) -> Self {
        Self { lose_every: every, ..Self::new() }
    }

    /// Servers whose handles listen, and are told of what the others change.
    pub fn telling(self) -> Self {
        Self { tells: true, ..self }
    }

    async fn handle(&self) -> Arc<dyn Store> {
        let server = self.latest.lock().unwrap().clone();
        let instance = u128::from(server.handles.fetch_add(1, Ordering::Relaxed) + 1) << 64;
        let backend = Maps {
            server: server.clone(),
            in_turn: false,
            reading: None,
            reading_since: 0,
            when_begun: None,
        };
        let settings = Settings {
            place: "maps".to_owned(),
            instance,
            callers_clock: true,
            patience: Duration::from_secs(20),
            listens_apart: false,
            large: self.large,
        };
        let store = Arc::new(ServerStore::new(backend, Look(server), settings).unwrap());
        if self.tells {
            store.changed(0).await;
        }
        store
    }
}

#[async_trait]
impl Maker for Servers {
    async fn open(&self) -> Arc<dyn Store> {
        let (lose_every, tells) = (self.lose_every.into(), self.tells);
        let (takes, overtake_every) = (self.takes, self.overtake_every);
        let server = Server {
            lose_every,
            tells,
            takes,
            overtake_every,
            refused_task: self.refused_task,
            hurry: self.hurry,
            ..Server::default()
        };
        *self.latest.lock().unwrap() = Arc::new(server);
        self.handle().await
    }

    async fn reopen(&self, store: Arc<dyn Store>) -> Option<Arc<dyn Store>> {
        drop(store);
        Some(self.handle().await)
    }

    async fn second_handle(&self, _: &Arc<dyn Store>) -> Option<Arc<dyn Store>> {
        Some(self.handle().await)
    }
}

runcue_store_suite::contract_suite!(Servers::new());
runcue_store_suite::durable_suite!(Servers::new());
runcue_store_suite::model_suite!(Servers::new(), 60);

/// The same with some of the replies lost.
mod losing {
    use super::Servers;

    runcue_store_suite::durable_suite!(Servers::losing(3));
    runcue_store_suite::model_suite!(Servers::losing(9), 8);
}
