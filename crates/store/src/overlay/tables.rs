//! The overlay as the machine's tables.

use std::collections::HashSet;

use runcue_core::board::Head;
use runcue_core::map::Map;
use runcue_core::{
    Event, EventKind, Job, JobFilter, JobId, LaneId, LaneKey, QueueName, ScheduleName, Seq, State,
    StateWord, TaskSpec, Timestamp, Wait, WorkerId,
};

use super::cache::Overlay;
use super::window::ReadyLane;
use super::{Backend, Find, PrunedEvents, Questions, Rank, Timed};
use crate::Result;
use crate::reply::{GroupInfo, LogChunk, QueueInfo, Record, ScheduleInfo};
use crate::request::WorkerSpec;
use crate::tables::{Changes, Counters, Due, InboxRow, ServiceRow, Tables, UsageRow};

/// Jobs that a search finds are fetched with it, unless there are more than this.
const FETCHED: usize = 4096;
/// Rows of a list by instant that are looked at for its beginning.
const FIRST: usize = 16;

fn list_of(what: Due) -> Timed {
    match what {
        Due::Delayed => Timed::Delayed,
        Due::Lapsed => Timed::Lapsing,
    }
}

impl<B: Backend> Overlay<B> {
    fn due_in(&mut self, list: Timed, now: Timestamp, limit: usize) -> Result<Vec<Seq>> {
        if self.numbers.earliest.get(list).is_none_or(|first| first > now) {
            return Ok(Vec::new());
        }
        self.look_at_list(list, Some(now), limit)?;
        let rows = self.timed[list as usize].rows().take_while(|(at, _)| *at <= now).take(limit);
        let seqs: Vec<Seq> = rows.map(|(_, seq)| seq).collect();
        self.fetch(&seqs)?;
        Ok(seqs)
    }

    /// When to look at a list again: no later than the first of it is due. Delayed jobs are known exactly. Of leases and
    /// deadlines the bound is good enough: to find the first of many whenever one has ended takes long, and whoever looks
    /// too early knows better afterwards.
    fn next_in(&mut self, list: Timed) -> Result<Option<Timestamp>> {
        let inexact = self.numbers.earliest.get(list).is_some() && !self.timed[list as usize].exact;
        if list == Timed::Delayed && inexact {
            self.look_at_list(list, None, FIRST)?;
        }
        Ok(self.numbers.earliest.get(list))
    }

    /// Jobs that are known, changed or not, of some kind.
    fn jobs_at_hand(&self, wanted: impl Fn(&Job) -> bool) -> Vec<Seq> {
        let jobs = self.changed_jobs().chain(self.clean_jobs());
        jobs.filter(|job| wanted(job)).map(|job| job.seq).take(FETCHED).collect()
    }

    fn found(&mut self, seqs: Vec<Seq>) -> Result<Vec<Seq>> {
        if seqs.len() <= FETCHED {
            self.fetch(&seqs)?;
        }
        Ok(seqs)
    }

    /// Asks for something that was not foreseen, together with all that was.
    fn ask_foreseen(&mut self, with: impl FnOnce(&mut Questions)) -> Result<()> {
        let mut questions = self.foreseen();
        with(&mut questions);
        self.ask(questions).map(drop)
    }

    fn ready_seqs(&mut self, lane: LaneId, max: Option<i32>, limit: usize) -> Result<Vec<Seq>> {
        self.look_ahead(lane, max, limit)?;
        let window = self.ready.get(&lane).and_then(|known| known.windows.get(&max));
        let seqs: Vec<Seq> = window
            .into_iter()
            .flat_map(super::window::Window::rows)
            .take(limit)
            .map(|rank| rank.seq)
            .collect();
        self.fetch_ready(lane, &seqs)?;
        Ok(seqs)
    }
}

impl<B: Backend> Tables for Overlay<B> {
    fn revision(&mut self) -> Result<u64> {
        Ok(self.revision)
    }

    fn changes(&mut self, _since: u64, now: Timestamp) -> Result<Changes> {
        self.all_changes(now)
    }

    fn seal(&mut self, counters: &Counters) -> Result<u64> {
        // A claim must know without asking when the next delayed job comes, whoever writes last.
        self.next_in(Timed::Delayed)?;
        self.numbers.counters = counters.clone();
        Ok(self.revision + 1)
    }

    fn expect_lanes(&mut self, lanes: &[LaneId]) {
        self.expected_lanes.extend_from_slice(lanes);
    }

    fn known(&mut self, ids: &[JobId], sure: bool) -> Result<Map<JobId, Seq>> {
        // An id that nobody has asked about is taken for new. The commit is refused if it is not.
        if sure && ids.iter().any(|id| self.known_id(*id).is_none()) {
            let mut questions = self.foreseen();
            let asked: HashSet<JobId> = questions.ids.iter().copied().collect();
            let wanted = |id: &&JobId| self.known_id(**id).is_none() && !asked.contains(id);
            questions.ids.extend(ids.iter().filter(wanted));
            self.ask(questions)?;
        }
        Ok(ids.iter().filter_map(|id| Some((*id, self.known_id(*id)??))).collect())
    }

    fn insert(&mut self, jobs: &[Job]) -> Result<()> {
        jobs.iter().for_each(|job| self.note_insert(job));
        Ok(())
    }

    fn seq_of(&mut self, id: JobId) -> Result<Option<Seq>> {
        if let Some(known) = self.known_id(id) {
            return Ok(known);
        }
        self.ask_foreseen(|questions| {
            if !questions.ids.contains(&id) {
                questions.ids.push(id);
            }
        })?;
        Ok(self.known_id(id).flatten())
    }

    fn job(&mut self, seq: Seq) -> Result<Option<Job>> {
        if self.known_job(seq).is_none() {
            self.fetch_one(seq)?;
        }
        Ok(self.known_job(seq).flatten().cloned())
    }

    fn save(&mut self, job: &Job, before: &State) -> Result<()> {
        // That others depend on a job is never taken back by whoever did not know of it.
        let known = self.known_job(job.seq).flatten().is_some_and(|known| known.has_dependents);
        if known && !job.has_dependents {
            self.note_change(&Job { has_dependents: true, ..job.clone() }, before);
        } else {
            self.note_change(job, before);
        }
        Ok(())
    }

    fn save_progress(&mut self, job: &Job) -> Result<()> {
        if let Some(mut known) = self.job(job.seq)? {
            known.life.progress.clone_from(&job.life.progress);
            let state = known.life.state.clone();
            self.note_change(&known, &state);
        }
        Ok(())
    }

    fn delete(&mut self, job: &Job) -> Result<()> {
        self.note_delete(job);
        Ok(())
    }

    fn key_holder(&mut self, key: &str) -> Result<Option<Seq>> {
        if !self.keys.contains_key(key) {
            self.ask_foreseen(|questions| {
                if !questions.keys.iter().any(|known| known == key) {
                    questions.keys.push(key.to_owned());
                }
            })?;
        }
        Ok(self.keys.get(key).copied().flatten())
    }

    fn drop_key(&mut self, seq: Seq) -> Result<()> {
        if let Some(job) = self.job(seq)?
            && let Some(key) = &job.spec.idempotency_key
            && self.key_holder(key)? == Some(seq)
        {
            self.keys.insert(key.clone(), None);
            self.writes.dropped_keys.insert(seq);
        }
        Ok(())
    }

    fn tie(&mut self, prerequisite: Seq, dependent: Seq) -> Result<()> {
        self.writes.ties.insert((prerequisite, dependent));
        if let Some(known) = self.dependents.get_mut(&prerequisite) {
            known.insert(dependent);
        }
        if let Some(known) = self.prerequisites.get_mut(&dependent) {
            known.insert(prerequisite);
        }
        if let Some(mut job) = self.job(prerequisite)?
            && !job.has_dependents
        {
            job.has_dependents = true;
            let state = job.life.state.clone();
            self.note_change(&job, &state);
        }
        Ok(())
    }

    fn dependents(&mut self, seq: Seq) -> Result<Vec<Seq>> {
        if !self.dependents.contains_key(&seq) {
            if self.job(seq)?.is_some_and(|job| !job.has_dependents) {
                return Ok(Vec::new());
            }
            // Whoever asks for one of several jobs at hand will ask for the others.
            let wanted = |job: &Job| job.has_dependents && !self.dependents.contains_key(&job.seq);
            let mut dependents = self.jobs_at_hand(wanted);
            dependents.push(seq);
            self.ask(Questions { dependents, ..Questions::default() })?;
        }
        Ok(self.dependents.get(&seq).into_iter().flatten().copied().collect())
    }

    fn prerequisites(&mut self, seq: Seq) -> Result<Vec<Seq>> {
        if !self.prerequisites.contains_key(&seq) {
            if self.job(seq)?.is_some_and(|job| job.spec.depends_on.is_empty()) {
                return Ok(Vec::new());
            }
            let wanted = |job: &Job| {
                !job.spec.depends_on.is_empty() && !self.prerequisites.contains_key(&job.seq)
            };
            let mut prerequisites = self.jobs_at_hand(wanted);
            prerequisites.push(seq);
            self.ask(Questions { prerequisites, ..Questions::default() })?;
        }
        Ok(self.prerequisites.get(&seq).into_iter().flatten().copied().collect())
    }

    fn ready(
        &mut self,
        lane: LaneId,
        max_priority: Option<i32>,
        limit: usize,
    ) -> Result<Vec<Head>> {
        let seqs = self.ready_seqs(lane, max_priority, limit)?;
        let head = |seq: &Seq| {
            let job = self.known_job(*seq)??;
            Some(Head::of(*seq, &job.spec))
        };
        Ok(seqs.iter().filter_map(head).collect())
    }

    fn ready_jobs(&mut self, lane: LaneId, limit: usize) -> Result<Vec<Job>> {
        let seqs = self.ready_seqs(lane, None, limit)?;
        Ok(seqs.iter().filter_map(|seq| self.known_job(*seq)?.cloned()).collect())
    }

    fn ahead(&mut self, job: &Job) -> Result<u64> {
        let place = Rank::of(job);
        let mut count = self.desk.backend().ahead(job.lane, place)?;
        for write in self.writes.jobs.values() {
            let (other, before, after) = match write {
                super::JobWrite::Insert(other) => (other, None, Some(&other.life.state)),
                super::JobWrite::Change { job, before } => {
                    (job, Some(before), Some(&job.life.state))
                }
                super::JobWrite::Delete { job } => (job, Some(&job.life.state), None),
            };
            if other.lane == job.lane && Rank::of(other) < place {
                let ready = |state: Option<&State>| state == Some(&State::Queued(Wait::Turn));
                count = count.saturating_sub(u64::from(ready(before))) + u64::from(ready(after));
            }
        }
        Ok(count)
    }

    fn due(&mut self, what: Due, now: Timestamp, limit: usize) -> Result<Vec<Seq>> {
        self.due_in(list_of(what), now, limit)
    }

    fn next_due(&mut self, what: Due) -> Result<Option<Timestamp>> {
        self.next_in(list_of(what))
    }

    fn overdue(&mut self, now: Timestamp, limit: usize) -> Result<Vec<Seq>> {
        self.due_in(Timed::Deadline, now, limit)
    }

    fn next_deadline(&mut self) -> Result<Option<Timestamp>> {
        self.next_in(Timed::Deadline)
    }

    fn held_by(&mut self, worker: WorkerId) -> Result<Vec<Seq>> {
        let found = self.desk.backend().find(&Find::HeldBy(worker))?;
        let held = |job: &Job| job.life.state.lease().is_some_and(|lease| lease.worker == worker);
        let seqs = self.merged(found, usize::MAX, held);
        self.found(seqs)
    }

    fn oldest_queued(&mut self, queue: &QueueName, limit: usize) -> Result<Vec<Seq>> {
        let asked = limit.saturating_add(self.writes.jobs.len());
        let found = self.desk.backend().find(&Find::OldestQueued { queue, limit: asked })?;
        let queued =
            |job: &Job| job.spec.queue == *queue && job.life.state.word() == StateWord::Queued;
        let seqs = self.merged(found, limit, queued);
        self.found(seqs)
    }

    fn matching(
        &mut self,
        filter: &JobFilter,
        after: Option<Seq>,
        limit: usize,
    ) -> Result<Vec<Seq>> {
        let later = |seq: Seq| after.is_none_or(|after| seq > after);
        let changed = self.writes.jobs.keys().filter(|seq| later(**seq)).count();
        let asked = limit.saturating_add(changed);
        let found = self.desk.backend().find(&Find::Matching { filter, after, limit: asked })?;
        let seqs = self.merged(found, limit, |job| later(job.seq) && filter.matches(job));
        self.found(seqs)
    }

    fn stale(
        &mut self,
        state: StateWord,
        ended_before: Timestamp,
        keep: u64,
        limit: usize,
    ) -> Result<Vec<Seq>> {
        let mut seqs =
            self.desk.backend().find(&Find::Stale { state, ended_before, keep, limit })?;
        seqs.retain(|seq| self.still(*seq, state));
        self.found(seqs)
    }

    fn lane(&mut self, key: &LaneKey, canonical: &str) -> Result<LaneId> {
        if let Some(lane) = self.lanes.get(canonical) {
            return Ok(*lane);
        }
        if !self.no_lanes.contains(canonical) {
            self.ask_foreseen(|questions| {
                if !questions.lanes.iter().any(|known| known == canonical) {
                    questions.lanes.push(canonical.to_owned());
                }
                questions.ids.clear();
                questions.keys.clear();
            })?;
        }
        if let Some(lane) = self.lanes.get(canonical) {
            self.lane_keys.insert(*lane, key.clone());
            return Ok(*lane);
        }
        self.numbers.lane += 1;
        let lane = LaneId(self.numbers.lane);
        self.lanes.insert(canonical.to_owned(), lane);
        self.lane_keys.insert(lane, key.clone());
        self.ready.insert(lane, ReadyLane::new_lane());
        self.writes.lanes.insert(lane, (key.clone(), canonical.to_owned()));
        Ok(lane)
    }

    fn lane_key(&mut self, lane: LaneId) -> Result<Option<LaneKey>> {
        if !self.lane_keys.contains_key(&lane) {
            let others = self.held.keys().copied().filter(|other| *other != lane);
            let mut lane_keys: Vec<LaneId> =
                others.filter(|other| !self.lane_keys.contains_key(other)).collect();
            lane_keys.push(lane);
            self.ask(Questions { lane_keys, ..Questions::default() })?;
        }
        Ok(self.lane_keys.get(&lane).cloned())
    }

    fn touch_lane(&mut self, lane: LaneId) -> Result<()> {
        self.writes.touched.entry(lane).or_default();
        Ok(())
    }

    fn prune_lanes(&mut self, limit: usize) -> Result<bool> {
        self.drop_idle(limit)
    }

    fn put_groups(&mut self, groups: &[&GroupInfo]) -> Result<()> {
        let named = groups.iter().map(|group| (group.name.clone(), (*group).clone()));
        self.writes.groups.extend(named);
        Ok(())
    }

    fn put_queue(&mut self, queue: &QueueInfo) -> Result<()> {
        let rules = (queue.max_queued, queue.paused);
        self.writes.news |= self.queues.insert(queue.name.clone(), rules) != Some(rules);
        self.writes.queues.insert(queue.name.clone(), queue.clone());
        Ok(())
    }

    fn put_service(&mut self, service: &ServiceRow) -> Result<()> {
        self.writes.services.insert(service.spec.name.clone(), service.clone());
        Ok(())
    }

    fn put_schedule(&mut self, schedule: &ScheduleInfo) -> Result<()> {
        let name = schedule.spec.name.clone();
        self.schedules.insert(name.clone(), schedule.clone());
        self.writes.schedules.insert(name, Some(schedule.clone()));
        self.writes.news = true;
        Ok(())
    }

    fn drop_schedule(&mut self, name: &ScheduleName) -> Result<bool> {
        let dropped = self.schedules.remove(name).is_some();
        if dropped {
            self.writes.schedules.insert(name.clone(), None);
            self.writes.news = true;
        }
        Ok(dropped)
    }

    fn schedule(&mut self, name: &ScheduleName) -> Result<Option<ScheduleInfo>> {
        Ok(self.schedules.get(name).cloned())
    }

    fn schedules(&mut self) -> Result<Vec<ScheduleInfo>> {
        Ok(self.schedules.values().cloned().collect())
    }

    fn due_schedules(&mut self, now: Timestamp) -> Result<Vec<ScheduleInfo>> {
        let is_due = |schedule: &&ScheduleInfo| schedule.next_at.is_some_and(|at| at <= now);
        let mut due: Vec<_> = self.schedules.values().filter(is_due).cloned().collect();
        due.sort_by_key(|schedule| schedule.next_at);
        Ok(due)
    }

    fn next_firing(&mut self) -> Result<Option<Timestamp>> {
        Ok(self.schedules.values().filter_map(|schedule| schedule.next_at).min())
    }

    fn put_record(&mut self, record: &Record) -> Result<()> {
        self.writes.records.insert(record.key(), record.value.clone());
        Ok(())
    }

    fn put_task(&mut self, task: &TaskSpec) -> Result<()> {
        self.writes.tasks.insert(task.name.clone(), task.clone());
        Ok(())
    }

    fn put_worker(&mut self, worker: &WorkerSpec, now: Timestamp) -> Result<()> {
        self.writes.dropped_workers.remove(&worker.id);
        self.writes.seen_workers.remove(&worker.id);
        self.writes.workers.insert(worker.id, (worker.clone(), now));
        Ok(())
    }

    fn drop_worker(&mut self, worker: WorkerId) -> Result<()> {
        self.writes.workers.remove(&worker);
        self.writes.seen_workers.remove(&worker);
        self.writes.dropped_workers.insert(worker);
        Ok(())
    }

    fn live_workers(&mut self, since: Timestamp) -> Result<Vec<WorkerSpec>> {
        let mut live = self.desk.backend().live_workers(since)?;
        let writes = &self.writes;
        live.retain(|worker| {
            !writes.dropped_workers.contains(&worker.id) && !writes.workers.contains_key(&worker.id)
        });
        let mine = writes.workers.values().filter(|(_, seen)| *seen >= since);
        live.extend(mine.map(|(worker, _)| worker.clone()));
        Ok(live)
    }

    fn seen_worker(&mut self, worker: WorkerId, now: Timestamp) -> Result<()> {
        if let Some((_, seen)) = self.writes.workers.get_mut(&worker) {
            *seen = now;
        } else if !self.writes.dropped_workers.contains(&worker) {
            self.writes.seen_workers.insert(worker, now);
        }
        Ok(())
    }

    fn note_usage(&mut self, rows: &[UsageRow]) -> Result<()> {
        self.writes.usage.extend(rows.iter().cloned());
        Ok(())
    }

    fn prune_usage(&mut self, before: Timestamp, dry_run: bool) -> Result<u64> {
        let count = self.desk.backend().count_usage(before)?;
        if !dry_run && count > 0 {
            self.writes.prune_usage = Some(before);
        }
        Ok(count)
    }

    fn append_events(&mut self, events: &[Event]) -> Result<()> {
        let quiet = |event: &Event| {
            use EventKind::{Leased, Progress, Queued, Started};
            matches!(event.kind, Leased | Started | Progress | Queued)
        };
        self.writes.news |= !events.iter().all(quiet);
        self.writes.events.extend(events.iter().cloned());
        Ok(())
    }

    fn prune_events(&mut self, before: Timestamp, keep: u64, dry_run: bool) -> Result<u64> {
        let through = self.numbers.counters.event.saturating_sub(keep);
        let what = PrunedEvents { before, through };
        let count = self.desk.backend().count_events(what)?;
        if !dry_run && count > 0 {
            self.writes.prune_events = Some(what);
        }
        Ok(count)
    }

    fn append_log(&mut self, seq: Seq, chunk: &LogChunk) -> Result<()> {
        self.numbers.log += 1;
        self.writes.logs.push((seq, LogChunk { n: self.numbers.log, ..chunk.clone() }));
        Ok(())
    }

    fn inbox(&mut self, after: u64, limit: usize) -> Result<Vec<InboxRow>> {
        self.desk.backend().inbox(after, limit)
    }

    fn clear_inbox(&mut self, n: u64, refused: Option<&str>) -> Result<()> {
        match refused {
            None => self.writes.admitted.push(n),
            Some(why) => self.writes.refused.push((n, why.to_owned())),
        }
        Ok(())
    }

    fn check(&mut self) -> Result<Vec<String>> {
        self.desk.backend().check()
    }
}
