//! The memory store's rows: ordered maps, and every index as a set that is kept in step with them.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};

use runcue_core::board::Head;
use runcue_core::map::Map;
use runcue_core::{
    Event, GroupName, Job, JobFilter, JobId, LaneId, LaneKey, QueueName, ScheduleName, Seq,
    ServiceName, State, StateWord, TaskName, TaskSpec, Timestamp, Wait, WorkerId,
};

use crate::Result;
use crate::reply::{GroupInfo, LogChunk, Page, QueueInfo, Record, ScheduleInfo, WorkerInfo};
use crate::request::{ListRequest, WorkerSpec};
use crate::tables::{Changes, Counters, Due, LOG_BYTES, ServiceRow, Tables, UsageRow};

#[derive(Debug, Default)]
pub struct MemoryTables {
    revision: u64,
    counters: Counters,
    jobs: BTreeMap<Seq, Job>,
    ids: HashMap<JobId, Seq>,
    keys: HashMap<String, Seq>,
    dependents: BTreeMap<Seq, BTreeSet<Seq>>,
    prerequisites: BTreeMap<Seq, BTreeSet<Seq>>,
    ready: BTreeMap<LaneId, BTreeSet<(Reverse<i32>, Seq)>>,
    delayed: BTreeSet<(Timestamp, Seq)>,
    held: BTreeSet<(Timestamp, Seq)>,
    deadlines: BTreeSet<(Timestamp, Seq)>,
    ended: BTreeMap<StateWord, BTreeSet<(Timestamp, Seq)>>,
    lanes: BTreeMap<LaneId, LaneKey>,
    lane_ids: HashMap<String, LaneId>,
    last_lane: u64,
    groups: HashMap<Option<GroupName>, GroupInfo>,
    queues: BTreeMap<QueueName, QueueInfo>,
    services: BTreeMap<ServiceName, ServiceRow>,
    tasks: BTreeMap<TaskName, TaskSpec>,
    records: BTreeMap<String, Record>,
    schedules: BTreeMap<ScheduleName, ScheduleInfo>,
    workers: BTreeMap<WorkerId, WorkerInfo>,
    usage: VecDeque<UsageRow>,
    events: VecDeque<Event>,
    logs: BTreeMap<Seq, VecDeque<LogChunk>>,
    next_log: u64,
}

impl MemoryTables {
    pub fn get(&self, id: JobId) -> Option<Job> {
        self.jobs.get(self.ids.get(&id)?).cloned()
    }

    pub fn list(&self, request: &ListRequest) -> Page<Job> {
        let before = request.before.unwrap_or(Seq(u64::MAX));
        let newest_first = self.jobs.range(..before).rev().map(|(_, job)| job);
        let mut rows: Vec<Job> = newest_first
            .filter(|job| request.filter.matches(job))
            .take(request.limit + 1)
            .cloned()
            .collect();
        let more = rows.len() > request.limit;
        rows.truncate(request.limit);
        let next = rows.last().map(|job| job.seq).filter(|_| more);
        Page { rows, next }
    }

    pub fn records(&self, kind: &str) -> Vec<Record> {
        self.records.values().filter(|record| record.kind == kind).cloned().collect()
    }

    /// Every task definition.
    pub fn tasks(&self) -> Vec<TaskSpec> {
        self.tasks.values().cloned().collect()
    }

    pub fn workers(&self) -> Vec<WorkerInfo> {
        let held = |id: WorkerId| {
            self.held.iter().filter(|(_, seq)| self.holder(*seq) == Some(id)).count()
        };
        let info = |worker: &WorkerInfo| WorkerInfo {
            held: held(worker.spec.id) as u64,
            ..worker.clone()
        };
        self.workers.values().map(info).collect()
    }

    pub fn events(&self, after: u64, limit: usize) -> Vec<Event> {
        let start = self.events.partition_point(|event| event.seq <= after);
        self.events.iter().skip(start).take(limit).cloned().collect()
    }

    pub fn logs(&self, id: JobId, after: u64) -> Vec<LogChunk> {
        let chunks = self.ids.get(&id).and_then(|seq| self.logs.get(seq));
        chunks.into_iter().flatten().filter(|chunk| chunk.n > after).cloned().collect()
    }

    pub fn relatives(&self, id: JobId) -> Option<(Vec<JobId>, Vec<JobId>)> {
        let seq = self.ids.get(&id)?;
        let names = |ties: &BTreeMap<Seq, BTreeSet<Seq>>| {
            let seqs = ties.get(seq).into_iter().flatten();
            seqs.filter_map(|seq| self.jobs.get(seq)).map(Job::id).collect()
        };
        Some((names(&self.prerequisites), names(&self.dependents)))
    }

    fn holder(&self, seq: Seq) -> Option<WorkerId> {
        self.jobs.get(&seq)?.life.state.lease().map(|lease| lease.worker)
    }

    /// Adds a job to the index of its state, or takes it out.
    fn index(&mut self, job: &Job, state: &State, add: bool) {
        fn put<K: Ord>(set: &mut BTreeSet<K>, key: K, add: bool) {
            if add {
                set.insert(key);
            } else {
                set.remove(&key);
            }
        }
        match state {
            State::Queued(Wait::Turn) => {
                let lane = self.ready.entry(job.lane).or_default();
                put(lane, (Reverse(job.spec.priority), job.seq), add);
            }
            State::Queued(Wait::Until(at)) => put(&mut self.delayed, (*at, job.seq), add),
            State::Queued(Wait::Prerequisites(_)) => {}
            State::Leased(lease) | State::Running(lease) => {
                put(&mut self.held, (lease.until, job.seq), add)
            }
            ended => {
                let at = job.life.finished_at.unwrap_or_default();
                put(self.ended.entry(ended.word()).or_default(), (at, job.seq), add);
            }
        }
    }
}

impl Tables for MemoryTables {
    fn revision(&mut self) -> Result<u64> {
        Ok(self.revision)
    }

    fn changes(&mut self, _since: u64, _now: Timestamp) -> Result<Changes> {
        let mut held: BTreeMap<LaneId, u32> = BTreeMap::new();
        for (_, seq) in &self.held {
            *held.entry(self.jobs[seq].lane).or_default() += 1;
        }
        Ok(Changes {
            groups: self.groups.values().cloned().collect(),
            queues: self.queues.values().cloned().collect(),
            services: self.services.values().cloned().collect(),
            lanes: self.lanes.iter().map(|(id, key)| (*id, key.clone())).collect(),
            usage: self.usage.iter().cloned().collect(),
            held: held.into_iter().collect(),
            counters: self.counters.clone(),
            afresh: true,
        })
    }

    fn seal(&mut self, counters: &Counters) -> Result<u64> {
        self.counters = counters.clone();
        self.revision += 1;
        Ok(self.revision)
    }

    fn known(&mut self, ids: &[JobId], _sure: bool) -> Result<Map<JobId, Seq>> {
        Ok(ids.iter().filter_map(|id| Some((*id, *self.ids.get(id)?))).collect())
    }

    fn insert(&mut self, jobs: &[Job]) -> Result<()> {
        for job in jobs {
            self.ids.insert(job.id(), job.seq);
            if let Some(key) = &job.spec.idempotency_key {
                self.keys.insert(key.clone(), job.seq);
            }
            self.index(job, &job.life.state, true);
            if let Some(deadline) = job.life.deadline(&job.spec) {
                self.deadlines.insert((deadline, job.seq));
            }
            self.jobs.insert(job.seq, job.clone());
        }
        Ok(())
    }

    fn seq_of(&mut self, id: JobId) -> Result<Option<Seq>> {
        Ok(self.ids.get(&id).copied())
    }

    fn job(&mut self, seq: Seq) -> Result<Option<Job>> {
        Ok(self.jobs.get(&seq).cloned())
    }

    fn save(&mut self, job: &Job, before: &State) -> Result<()> {
        let Some(old) = self.jobs.insert(job.seq, job.clone()) else { return Ok(()) };
        self.index(&old, before, false);
        self.index(job, &job.life.state, true);
        if let Some(deadline) = old.life.deadline(&old.spec) {
            self.deadlines.remove(&(deadline, job.seq));
        }
        if let Some(deadline) = job.life.deadline(&job.spec) {
            self.deadlines.insert((deadline, job.seq));
        }
        Ok(())
    }

    fn save_progress(&mut self, job: &Job) -> Result<()> {
        if let Some(row) = self.jobs.get_mut(&job.seq) {
            row.life.progress.clone_from(&job.life.progress);
        }
        Ok(())
    }

    fn delete(&mut self, job: &Job) -> Result<()> {
        self.index(job, &job.life.state, false);
        self.jobs.remove(&job.seq);
        self.ids.remove(&job.id());
        self.drop_key(job.seq)?;
        self.logs.remove(&job.seq);
        for dependent in self.dependents.remove(&job.seq).unwrap_or_default() {
            self.prerequisites.entry(dependent).or_default().remove(&job.seq);
        }
        for prerequisite in self.prerequisites.remove(&job.seq).unwrap_or_default() {
            self.dependents.entry(prerequisite).or_default().remove(&job.seq);
        }
        Ok(())
    }

    fn key_holder(&mut self, key: &str) -> Result<Option<Seq>> {
        Ok(self.keys.get(key).copied())
    }

    fn drop_key(&mut self, seq: Seq) -> Result<()> {
        self.keys.retain(|_, holder| *holder != seq);
        Ok(())
    }

    fn tie(&mut self, prerequisite: Seq, dependent: Seq) -> Result<()> {
        self.dependents.entry(prerequisite).or_default().insert(dependent);
        self.prerequisites.entry(dependent).or_default().insert(prerequisite);
        if let Some(job) = self.jobs.get_mut(&prerequisite) {
            job.has_dependents = true;
        }
        Ok(())
    }

    fn dependents(&mut self, seq: Seq) -> Result<Vec<Seq>> {
        Ok(self.dependents.get(&seq).into_iter().flatten().copied().collect())
    }

    fn prerequisites(&mut self, seq: Seq) -> Result<Vec<Seq>> {
        Ok(self.prerequisites.get(&seq).into_iter().flatten().copied().collect())
    }

    fn ready(
        &mut self,
        lane: LaneId,
        max_priority: Option<i32>,
        limit: usize,
    ) -> Result<Vec<Head>> {
        let Some(set) = self.ready.get(&lane) else { return Ok(Vec::new()) };
        let from = (Reverse(max_priority.unwrap_or(i32::MAX)), Seq(0));
        let heads = set.range(from..).take(limit);
        Ok(heads.map(|(_, seq)| Head::of(*seq, &self.jobs[seq].spec)).collect())
    }

    fn ready_jobs(&mut self, lane: LaneId, limit: usize) -> Result<Vec<Job>> {
        let ranks = self.ready.get(&lane).into_iter().flatten().take(limit);
        Ok(ranks.map(|(_, seq)| self.jobs[seq].clone()).collect())
    }

    fn ahead(&mut self, job: &Job) -> Result<u64> {
        let rank = (Reverse(job.spec.priority), job.seq);
        Ok(self.ready.get(&job.lane).map_or(0, |set| set.range(..rank).count()) as u64)
    }

    fn due(&mut self, what: Due, now: Timestamp, limit: usize) -> Result<Vec<Seq>> {
        let set = match what {
            Due::Delayed => &self.delayed,
            Due::Lapsed => &self.held,
        };
        Ok(set.range(..=(now, Seq(u64::MAX))).take(limit).map(|(_, seq)| *seq).collect())
    }

    fn next_due(&mut self, what: Due) -> Result<Option<Timestamp>> {
        let set = match what {
            Due::Delayed => &self.delayed,
            Due::Lapsed => &self.held,
        };
        Ok(set.first().map(|(at, _)| *at))
    }

    fn overdue(&mut self, now: Timestamp, limit: usize) -> Result<Vec<Seq>> {
        Ok(self.deadlines.range(..=(now, Seq(u64::MAX))).take(limit).map(|(_, seq)| *seq).collect())
    }

    fn next_deadline(&mut self) -> Result<Option<Timestamp>> {
        Ok(self.deadlines.first().map(|(at, _)| *at))
    }

    fn held_by(&mut self, worker: WorkerId) -> Result<Vec<Seq>> {
        let held = self.held.iter().map(|(_, seq)| *seq);
        let mut seqs: Vec<Seq> = held.filter(|seq| self.holder(*seq) == Some(worker)).collect();
        seqs.sort();
        Ok(seqs)
    }

    fn oldest_queued(&mut self, queue: &QueueName, limit: usize) -> Result<Vec<Seq>> {
        let queued =
            |job: &&Job| job.spec.queue == *queue && matches!(job.life.state, State::Queued(_));
        Ok(self.jobs.values().filter(queued).take(limit).map(|job| job.seq).collect())
    }

    fn matching(
        &mut self,
        filter: &JobFilter,
        after: Option<Seq>,
        limit: usize,
    ) -> Result<Vec<Seq>> {
        let from = Seq(after.map_or(0, |seq| seq.0 + 1));
        let jobs = self.jobs.range(from..).map(|(_, job)| job);
        Ok(jobs.filter(|job| filter.matches(job)).take(limit).map(|job| job.seq).collect())
    }

    fn stale(
        &mut self,
        state: StateWord,
        ended_before: Timestamp,
        keep: u64,
        limit: usize,
    ) -> Result<Vec<Seq>> {
        let Some(set) = self.ended.get(&state) else { return Ok(Vec::new()) };
        let over = set.len().saturating_sub(usize::try_from(keep).unwrap_or(usize::MAX));
        let old = set.range(..(ended_before, Seq(0))).count();
        Ok(set.iter().take(over.max(old).min(limit)).map(|(_, seq)| *seq).collect())
    }

    fn lane(&mut self, key: &LaneKey, canonical: &str) -> Result<LaneId> {
        if let Some(lane) = self.lane_ids.get(canonical) {
            return Ok(*lane);
        }
        // A number is not used again: somebody may still know the lane that had it.
        self.last_lane += 1;
        let lane = LaneId(self.last_lane);
        self.lanes.insert(lane, key.clone());
        self.lane_ids.insert(canonical.to_owned(), lane);
        Ok(lane)
    }

    fn lane_key(&mut self, lane: LaneId) -> Result<Option<LaneKey>> {
        Ok(self.lanes.get(&lane).cloned())
    }

    fn touch_lane(&mut self, _lane: LaneId) -> Result<()> {
        Ok(())
    }

    fn prune_lanes(&mut self, limit: usize) -> Result<bool> {
        let used: HashSet<LaneId> = self.jobs.values().map(|job| job.lane).collect();
        let unused = self.lanes.keys().filter(|lane| !used.contains(lane));
        let gone: HashSet<LaneId> = unused.take(limit).copied().collect();
        let groups = self.groups.len();
        self.groups.retain(|_, group| group.paused || group.counts.total() > 0);
        self.lanes.retain(|lane, _| !gone.contains(lane));
        self.lane_ids.retain(|_, lane| !gone.contains(lane));
        self.ready.retain(|lane, _| !gone.contains(lane));
        Ok(!gone.is_empty() || self.groups.len() < groups)
    }

    fn put_groups(&mut self, groups: &[&GroupInfo]) -> Result<()> {
        self.groups.extend(groups.iter().map(|group| (group.name.clone(), (*group).clone())));
        Ok(())
    }

    fn put_queue(&mut self, queue: &QueueInfo) -> Result<()> {
        self.queues.insert(queue.name.clone(), queue.clone());
        Ok(())
    }

    fn put_service(&mut self, service: &ServiceRow) -> Result<()> {
        self.services.insert(service.spec.name.clone(), service.clone());
        Ok(())
    }

    fn put_record(&mut self, record: &Record) -> Result<()> {
        match &record.value {
            Some(_) => self.records.insert(record.key(), record.clone()),
            None => self.records.remove(&record.key()),
        };
        Ok(())
    }

    fn put_task(&mut self, task: &TaskSpec) -> Result<()> {
        self.tasks.insert(task.name.clone(), task.clone());
        Ok(())
    }

    fn put_worker(&mut self, worker: &WorkerSpec, now: Timestamp) -> Result<()> {
        let started_at = self.workers.get(&worker.id).map_or(now, |known| known.started_at);
        let info = WorkerInfo { spec: worker.clone(), started_at, seen_at: now, held: 0 };
        self.workers.insert(worker.id, info);
        Ok(())
    }

    fn drop_worker(&mut self, worker: WorkerId) -> Result<()> {
        self.workers.remove(&worker);
        Ok(())
    }

    fn live_workers(&mut self, since: Timestamp) -> Result<Vec<WorkerSpec>> {
        let live = self.workers.values().filter(|worker| worker.seen_at >= since);
        Ok(live.map(|worker| worker.spec.clone()).collect())
    }

    fn seen_worker(&mut self, worker: WorkerId, now: Timestamp) -> Result<()> {
        if let Some(worker) = self.workers.get_mut(&worker) {
            worker.seen_at = now;
        }
        Ok(())
    }

    fn put_schedule(&mut self, schedule: &ScheduleInfo) -> Result<()> {
        self.schedules.insert(schedule.spec.name.clone(), schedule.clone());
        Ok(())
    }

    fn drop_schedule(&mut self, name: &ScheduleName) -> Result<bool> {
        Ok(self.schedules.remove(name).is_some())
    }

    fn schedule(&mut self, name: &ScheduleName) -> Result<Option<ScheduleInfo>> {
        Ok(self.schedules.get(name).cloned())
    }

    fn schedules(&mut self) -> Result<Vec<ScheduleInfo>> {
        Ok(self.schedules.values().cloned().collect())
    }

    fn due_schedules(&mut self, now: Timestamp) -> Result<Vec<ScheduleInfo>> {
        let due = |schedule: &&ScheduleInfo| schedule.next_at.is_some_and(|at| at <= now);
        let mut due: Vec<ScheduleInfo> = self.schedules.values().filter(due).cloned().collect();
        due.sort_by_key(|schedule| schedule.next_at);
        Ok(due)
    }

    fn next_firing(&mut self) -> Result<Option<Timestamp>> {
        Ok(self.schedules.values().filter_map(|schedule| schedule.next_at).min())
    }

    fn note_usage(&mut self, rows: &[UsageRow]) -> Result<()> {
        self.usage.extend(rows.iter().cloned());
        Ok(())
    }

    fn prune_usage(&mut self, before: Timestamp, dry_run: bool) -> Result<u64> {
        let old = self.usage.iter().filter(|row| row.at < before).count();
        if !dry_run {
            self.usage.retain(|row| row.at >= before);
        }
        Ok(old as u64)
    }

    fn append_events(&mut self, events: &[Event]) -> Result<()> {
        self.events.extend(events.iter().cloned());
        Ok(())
    }

    fn prune_events(&mut self, before: Timestamp, keep: u64, dry_run: bool) -> Result<u64> {
        let over = self.events.len().saturating_sub(usize::try_from(keep).unwrap_or(usize::MAX));
        let old = self.events.iter().take_while(|event| event.at < before).count();
        let gone = over.max(old);
        if !dry_run {
            self.events.drain(..gone);
        }
        Ok(gone as u64)
    }

    fn append_log(&mut self, seq: Seq, chunk: &LogChunk) -> Result<()> {
        self.next_log += 1;
        let chunks = self.logs.entry(seq).or_default();
        chunks.push_back(LogChunk { n: self.next_log, ..chunk.clone() });
        let mut bytes: usize = chunks.iter().map(|chunk| chunk.text.len()).sum();
        while bytes > LOG_BYTES && chunks.len() > 1 {
            bytes -= chunks.pop_front().map_or(0, |chunk| chunk.text.len());
        }
        Ok(())
    }

    fn check(&mut self) -> Result<Vec<String>> {
        let mut findings = Vec::new();
        let mut counts: HashMap<Option<GroupName>, crate::reply::Counts> = HashMap::new();
        for job in self.jobs.values() {
            *counts.entry(job.spec.group.clone()).or_default().of(job.life.state.word()) += 1;
        }
        for (name, group) in &self.groups {
            let real = counts.remove(name).unwrap_or_default();
            if real != group.counts {
                findings.push(format!(
                    "group {name:?} counts {:?}, its jobs are {real:?}",
                    group.counts
                ));
            }
        }
        Ok(findings)
    }
}
