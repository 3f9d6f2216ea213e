//! The [`Overlay`]: what is known of the backend's rows, what a turn changes of them, and how the rest is
//! asked for. `tables.rs` answers the machine from it.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use runcue_core::submission::normalise;
use runcue_core::{
    Job, JobId, LaneId, LaneKey, QueueName, ScheduleName, Seq, State, StateWord, Timestamp, Wait,
};

use super::window::{ReadyLane, TimedWindow, Window};
use super::{
    Answers, Backend, Changed, CommitId, JobWrite, Numbers, Opening, Questions, Rank,
    ReadyQuestion, Timed, WriteSet,
};
use crate::Result;
use crate::reply::ScheduleInfo;
use crate::request::SubmitBatch;
use crate::tables::Changes;

/// Lanes whose ready jobs are asked for together.
const LANES_TOGETHER: usize = 64;
/// What unchanged jobs are kept from one turn to the next, roughly, in bytes.
const KEPT_BYTES: usize = 32 * 1024 * 1024;

/// What a request will probably need, so that it is asked for together with other rows.
#[derive(Clone, Debug, Default)]
pub struct Foresight {
    /// Jobs.
    pub ids: Vec<JobId>,
    /// A submission, with its keys, prerequisites and lanes.
    pub batch: Option<Arc<SubmitBatch>>,
}

impl Foresight {
    /// These jobs.
    pub fn of_ids(ids: impl IntoIterator<Item = JobId>) -> Self {
        Self { ids: ids.into_iter().collect(), batch: None }
    }

    /// All that a submission touches.
    pub fn of_batch(batch: &Arc<SubmitBatch>) -> Self {
        Self { ids: Vec::new(), batch: Some(batch.clone()) }
    }
}

/// The machine's tables over a backend. See the module's documentation.
#[derive(Debug)]
pub struct Overlay<B> {
    pub(super) backend: B,
    /// The revision everything here builds on.
    pub(super) revision: u64,
    pub(super) numbers: Numbers,
    /// What this turn has changed so far.
    pub(super) writes: WriteSet,
    /// Jobs that were ready before the turn and that it has changed, by lane.
    gone: HashMap<LaneId, usize>,
    /// What the turn began with, until the machine asks for it.
    opened: Option<Changed>,

    /// Jobs that the turn has not changed. Nothing for one that does not exist.
    clean: HashMap<Seq, Option<Job>>,
    pub(super) ids: HashMap<JobId, Option<Seq>>,
    pub(super) keys: HashMap<String, Option<Seq>>,
    pub(super) dependents: HashMap<Seq, BTreeSet<Seq>>,
    pub(super) prerequisites: HashMap<Seq, BTreeSet<Seq>>,

    pub(super) lanes: HashMap<String, LaneId>,
    pub(super) lane_keys: HashMap<LaneId, LaneKey>,
    pub(super) held: HashMap<LaneId, u32>,
    pub(super) ready: HashMap<LaneId, ReadyLane>,
    pub(super) timed: [TimedWindow; 3],
    /// Caps and pauses, to tell a definition from a count.
    pub(super) queues: HashMap<QueueName, (Option<u64>, bool)>,
    /// All of them: there are few, and every claim asks when the next one fires.
    pub(super) schedules: BTreeMap<ScheduleName, ScheduleInfo>,

    /// What the requests of this turn will probably need.
    expected: Vec<Foresight>,
    pub(super) expected_lanes: Vec<LaneId>,
}

impl<B: Backend> Overlay<B> {
    /// An overlay that knows nothing yet.
    pub fn new(backend: B) -> Self {
        Self {
            backend,
            revision: 0,
            numbers: Numbers::default(),
            writes: WriteSet::default(),
            gone: HashMap::new(),
            opened: None,
            clean: HashMap::new(),
            ids: HashMap::new(),
            keys: HashMap::new(),
            dependents: HashMap::new(),
            prerequisites: HashMap::new(),
            lanes: HashMap::new(),
            lane_keys: HashMap::new(),
            held: HashMap::new(),
            ready: HashMap::new(),
            timed: closed_lists(),
            queues: HashMap::new(),
            schedules: BTreeMap::new(),
            expected: Vec::new(),
            expected_lanes: Vec::new(),
        }
    }

    /// What is beneath.
    pub fn backend(&mut self) -> &mut B {
        &mut self.backend
    }

    /// Says what the requests of the coming turn will probably need.
    pub(super) fn expect(&mut self, foresight: &Foresight) {
        if !foresight.ids.is_empty() || foresight.batch.is_some() {
            self.expected.push(foresight.clone());
        }
    }

    /// The jobs that are expected to be asked for, for the question that begins a turn.
    pub(super) fn first_questions(&self) -> Questions {
        let ids = self.expected.iter().flat_map(|expected| expected.ids.iter().copied()).collect();
        Questions { ids, ..Questions::default() }
    }

    /// Takes over what a turn begins with. Answers whether that is everything: then the machine must forget
    /// what it knows.
    pub(super) fn open(&mut self, opening: Opening, questions: &Questions) -> bool {
        let Opening { revision, numbers, changed, answers, .. } = opening;
        self.revision = revision;
        let whole = changed.as_ref().is_some_and(|changed| changed.whole);
        if whole {
            self.held.clear();
            self.ready.clear();
            self.queues.clear();
            self.schedules.clear();
            self.lanes.clear();
            self.lane_keys.clear();
        }
        if let Some(changed) = changed {
            self.numbers = numbers;
            self.timed = closed_lists();
            self.clean.retain(|_, job| job.is_some());
            for (lane, count) in &changed.held {
                self.held.insert(*lane, *count);
            }
            for touched in &changed.lanes {
                self.learn_lane(touched.lane, &touched.key);
                if let Some(lane) = self.ready.get_mut(&touched.lane) {
                    lane.forget(touched.from);
                }
            }
            for queue in &changed.queues {
                self.queues.insert(queue.name.clone(), (queue.max_queued, queue.paused));
            }
            for (name, schedule) in &changed.schedules {
                match schedule {
                    Some(schedule) => self.schedules.insert(name.clone(), schedule.clone()),
                    None => self.schedules.remove(name),
                };
            }
            self.keep_ready_jobs();
            self.opened = Some(changed);
        }
        self.absorb(questions, answers);
        whole
    }

    /// Forgets everything, as after a turn that was not written.
    pub(super) fn reset(&mut self) {
        self.revision = 0;
        self.opened = None;
        self.writes = WriteSet::default();
        self.gone.clear();
        self.forget_rows();
        self.clean.clear();
        self.ready.clear();
        self.held.clear();
        self.lanes.clear();
        self.lane_keys.clear();
        self.timed = closed_lists();
    }

    /// What the turn writes. The overlay holds it as done from here on.
    pub(super) fn take_writes(&mut self, id: CommitId, in_turn: bool) -> WriteSet {
        let mut writes = std::mem::take(&mut self.writes);
        writes.id = Some(id);
        writes.follows = self.revision;
        writes.in_turn = in_turn;
        writes.numbers = self.numbers.clone();
        self.gone.clear();
        writes
    }

    /// The turn is written: what it changed is what there is.
    pub(super) fn written(&mut self, writes: WriteSet) {
        self.revision = writes.follows + 1;
        for (seq, write) in writes.jobs {
            let job = match write {
                JobWrite::Insert(job) | JobWrite::Change { job, .. } => Some(job),
                JobWrite::Delete { .. } => None,
            };
            self.clean.insert(seq, job);
        }
        self.end();
    }

    /// A turn is over. Only what others cannot have changed without telling is kept for the next.
    pub(super) fn end(&mut self) {
        self.opened = None;
        self.forget_rows();
        self.keep_ready_jobs();
    }

    fn forget_rows(&mut self) {
        self.ids.clear();
        self.keys.clear();
        self.dependents.clear();
        self.prerequisites.clear();
        self.expected.clear();
        self.expected_lanes.clear();
    }

    /// Of the jobs that are at hand only the ready ones of known windows are kept: whoever changes one
    /// touches its lane.
    fn keep_ready_jobs(&mut self) {
        if self.clean.is_empty() {
            return;
        }
        let mut bytes = 0;
        let mut kept = HashMap::new();
        for lane in self.ready.values() {
            for rank in lane.windows.values().flat_map(Window::rows) {
                if let Some(job) = self.clean.remove(&rank.seq).flatten() {
                    bytes += 1024 + job.spec.params.as_str().len();
                    kept.insert(rank.seq, Some(job));
                }
            }
        }
        self.clean = kept;
        if bytes > KEPT_BYTES {
            self.clean.clear();
            self.ready.values_mut().for_each(|lane| lane.forget(None));
        }
    }

    /// What the machine is to take over at the beginning of a turn, or anew in the middle of one.
    pub(super) fn all_changes(&mut self, now: Timestamp) -> Result<Changes> {
        let changed = match self.opened.take() {
            Some(changed) => changed,
            None => self.whole_with_writes(now)?,
        };
        let held = self.held.iter().filter(|(_, count)| **count > 0).map(|(l, n)| (*l, *n));
        Ok(Changes {
            afresh: changed.whole,
            groups: changed.groups,
            queues: changed.queues,
            services: changed.services,
            lanes: changed.lanes.into_iter().map(|touched| (touched.lane, touched.key)).collect(),
            usage: changed.usage,
            held: held.collect(),
            counters: self.numbers.counters.clone(),
        })
    }

    /// Lanes and groups without jobs go.
    pub(super) fn drop_idle(&mut self, limit: usize) -> Result<bool> {
        let (mut going, mut coming) = (BTreeMap::new(), HashSet::new());
        for write in self.writes.jobs.values() {
            match write {
                JobWrite::Delete { job } => *going.entry(job.lane).or_default() += 1,
                JobWrite::Insert(job) => drop(coming.insert(job.lane)),
                JobWrite::Change { .. } => {}
            }
        }
        let mut lanes = self.backend.idle_lanes(&going, limit)?;
        lanes.retain(|(lane, _)| !coming.contains(lane));
        // No use of a service counts at the end of time: groups alone are asked for.
        let mut groups = self.whole_with_writes(Timestamp::MAX)?.groups;
        groups.retain(|group| !group.paused && group.counts.total() == 0);
        let any = !lanes.is_empty() || !groups.is_empty();
        for (lane, canonical) in lanes {
            self.lanes.remove(&canonical);
            self.lane_keys.remove(&lane);
            self.ready.remove(&lane);
            self.held.remove(&lane);
            self.writes.touched.remove(&lane);
            self.writes.held.remove(&lane);
            self.writes.dropped_lanes.insert(lane, canonical);
        }
        for group in groups {
            self.writes.groups.remove(&group.name);
            self.writes.dropped_groups.insert(group.name);
        }
        Ok(any)
    }

    fn whole_with_writes(&mut self, now: Timestamp) -> Result<Changed> {
        let longest = self.writes.services.values().map(|row| row.spec.memory()).max();
        let mut changed = self.backend.whole(now, longest.unwrap_or_default())?;
        let writes = &self.writes;
        changed.groups.retain(|group| {
            let (changed, dropped) = (&writes.groups, &writes.dropped_groups);
            !changed.contains_key(&group.name) && !dropped.contains(&group.name)
        });
        changed.groups.extend(writes.groups.values().cloned());
        changed.queues.retain(|queue| !writes.queues.contains_key(&queue.name));
        changed.queues.extend(writes.queues.values().cloned());
        for service in writes.services.values() {
            match changed.services.iter_mut().find(|row| row.spec.name == service.spec.name) {
                Some(row) => *row = service.clone(),
                None => changed.services.push(service.clone()),
            }
        }
        changed.usage.extend(writes.usage.iter().cloned());
        for touched in &changed.lanes {
            self.lane_keys.entry(touched.lane).or_insert_with(|| touched.key.clone());
        }
        for (lane, from) in &writes.touched {
            let known = changed.lanes.iter().any(|touched| touched.lane == *lane);
            if !known && let Some(key) = self.lane_keys.get(lane) {
                changed.lanes.push(super::TouchedLane {
                    lane: *lane,
                    key: key.clone(),
                    from: *from,
                });
            }
        }
        Ok(changed)
    }

    pub(super) fn learn_lane(&mut self, lane: LaneId, key: &LaneKey) {
        if !self.lane_keys.contains_key(&lane) {
            self.lanes.insert(key.canonical(), lane);
            self.lane_keys.insert(lane, key.clone());
        }
    }

    // What a turn changes.

    /// A job as it is now, if that is known.
    pub(super) fn known_job(&self, seq: Seq) -> Option<Option<&Job>> {
        match self.writes.jobs.get(&seq) {
            Some(JobWrite::Insert(job) | JobWrite::Change { job, .. }) => Some(Some(job)),
            Some(JobWrite::Delete { .. }) => Some(None),
            None => self.clean.get(&seq).map(Option::as_ref),
        }
    }

    /// Whether the turn has changed a job, so that what the backend says of it is out of date.
    pub(super) fn is_changed(&self, seq: Seq) -> bool {
        self.writes.jobs.contains_key(&seq)
    }

    /// The jobs that the turn has changed and not deleted, as they are now.
    pub(super) fn changed_jobs(&self) -> impl Iterator<Item = &Job> {
        self.writes.jobs.values().filter_map(|write| match write {
            JobWrite::Insert(job) | JobWrite::Change { job, .. } => Some(job),
            JobWrite::Delete { .. } => None,
        })
    }

    /// The jobs that are known and not changed.
    pub(super) fn clean_jobs(&self) -> impl Iterator<Item = &Job> {
        self.clean.values().flatten()
    }

    /// Notes that a job is new.
    pub(super) fn note_insert(&mut self, job: &Job) {
        self.ids.insert(job.id(), Some(job.seq));
        if let Some(key) = &job.spec.idempotency_key {
            self.keys.insert(key.clone(), Some(job.seq));
        }
        self.dependents.insert(job.seq, BTreeSet::new());
        self.prerequisites.insert(job.seq, BTreeSet::new());
        self.place(job, None);
        self.writes.jobs.insert(job.seq, JobWrite::Insert(job.clone()));
    }

    /// Notes what a job is now, which was in this state.
    pub(super) fn note_change(&mut self, job: &Job, before: &State) {
        use std::collections::btree_map::Entry;
        self.place(job, Some(before));
        match self.writes.jobs.entry(job.seq) {
            Entry::Vacant(vacant) => {
                if *before == State::Queued(Wait::Turn) {
                    *self.gone.entry(job.lane).or_default() += 1;
                }
                vacant.insert(JobWrite::Change { job: job.clone(), before: before.clone() });
                self.clean.remove(&job.seq);
            }
            Entry::Occupied(mut known) => match known.get_mut() {
                JobWrite::Insert(known) | JobWrite::Change { job: known, .. } => {
                    known.clone_from(job);
                }
                JobWrite::Delete { .. } => {}
            },
        }
    }

    /// Notes that a job is gone.
    pub(super) fn note_delete(&mut self, job: &Job) {
        self.unplace(job);
        self.ids.insert(job.id(), None);
        if let Some(key) = &job.spec.idempotency_key
            && self.keys.get(key) == Some(&Some(job.seq))
        {
            self.keys.insert(key.clone(), None);
        }
        for dependent in self.dependents.remove(&job.seq).unwrap_or_default() {
            if let Some(known) = self.prerequisites.get_mut(&dependent) {
                known.remove(&job.seq);
            }
        }
        for prerequisite in self.prerequisites.remove(&job.seq).unwrap_or_default() {
            if let Some(known) = self.dependents.get_mut(&prerequisite) {
                known.remove(&job.seq);
            }
        }
        let seq = job.seq;
        self.writes.ties.retain(|(before, behind)| *before != seq && *behind != seq);
        self.writes.logs.retain(|(of, _)| *of != seq);
        if let Some(JobWrite::Insert(_)) = self.writes.jobs.get(&seq) {
            self.writes.jobs.remove(&seq);
        } else {
            self.writes.jobs.insert(seq, JobWrite::Delete { job: job.clone() });
        }
        self.clean.insert(seq, None);
    }

    /// Keeps lists, counts and news in step with a job's change of state.
    fn place(&mut self, job: &Job, before: Option<&State>) {
        let was_ready = before == Some(&State::Queued(Wait::Turn));
        let is_ready = job.life.state == State::Queued(Wait::Turn);
        let rank = Rank::of(job);
        if was_ready && !is_ready {
            self.unready(job);
        }
        if is_ready {
            self.ready.entry(job.lane).or_default().insert(rank);
            let best = self.writes.touched.entry(job.lane).or_default();
            *best = Some(best.map_or(rank, |best| best.min(rank)));
        }
        let life = &job.life;
        for list in [Timed::Delayed, Timed::Lapsing] {
            let was = before.and_then(|state| instant_of(list, state));
            self.set_timed(list, job.seq, was, instant_of(list, &life.state));
        }
        if job.spec.expires_at.is_some() || job.spec.dependency_timeout.is_some() {
            // When it was due before is not at hand; it may have been the first.
            let was = before.map(|_| Timestamp::from_micros(i64::MIN));
            self.set_timed(Timed::Deadline, job.seq, was, life.deadline(&job.spec));
        }
        let was_held = before.is_some_and(|state| state.lease().is_some());
        let is_held = life.state.lease().is_some();
        if was_held != is_held && !job.spec.services.is_empty() {
            let count = self.held.entry(job.lane).or_default();
            *count = if is_held { *count + 1 } else { count.saturating_sub(1) };
            self.writes.held.insert(job.lane, *count);
        }
        let ended = before.is_some_and(|state| state.word() != life.state.word())
            && life.state.word().is_final();
        self.writes.news |= (is_ready && !was_ready) || ended || life.cancel_requested;
    }

    fn unready(&mut self, job: &Job) {
        self.ready.entry(job.lane).or_default().remove(Rank::of(job));
        self.writes.touched.entry(job.lane).or_default();
    }

    fn unplace(&mut self, job: &Job) {
        if job.life.state == State::Queued(Wait::Turn) {
            self.unready(job);
        }
        for list in [Timed::Delayed, Timed::Lapsing] {
            self.set_timed(list, job.seq, instant_of(list, &job.life.state), None);
        }
        self.set_timed(Timed::Deadline, job.seq, job.life.deadline(&job.spec), None);
    }

    /// Moves a job in a list by instant and keeps the list's bound.
    fn set_timed(&mut self, list: Timed, seq: Seq, was: Option<Timestamp>, is: Option<Timestamp>) {
        if was == is {
            return;
        }
        let bound = self.numbers.earliest.of(list);
        let window = &mut self.timed[list as usize];
        window.set(seq, is);
        if is.is_some_and(|is| bound.is_none_or(|bound| is < bound)) {
            *bound = is;
            window.exact = true;
        } else if was.is_some_and(|was| bound.is_some_and(|bound| was <= bound)) {
            // The job that the bound stood for has gone; it is still a bound.
            window.exact = false;
        }
        if let Some(first) = window.first() {
            *bound = first;
            window.exact = true;
        }
    }

    // How the rest is asked for.

    /// Asks the backend and keeps the answers.
    pub(super) fn ask(&mut self, questions: Questions) -> Result<Vec<Vec<Job>>> {
        let answers = self.backend.ask(&questions)?;
        Ok(self.absorb(&questions, answers))
    }

    /// Keeps answers, except where the turn knows better. Answers the ready jobs.
    fn absorb(&mut self, questions: &Questions, answers: Answers) -> Vec<Vec<Job>> {
        for id in &questions.ids {
            self.ids.entry(*id).or_insert(None);
        }
        for seq in &questions.seqs {
            if !self.is_changed(*seq) {
                self.clean.entry(*seq).or_insert(None);
            }
        }
        for key in &questions.keys {
            self.keys.entry(key.clone()).or_insert(None);
        }
        for job in answers.jobs {
            if self.is_changed(job.seq) {
                continue;
            }
            self.ids.insert(job.id(), Some(job.seq));
            self.clean.insert(job.seq, Some(job));
        }
        for (key, seq) in answers.keys {
            let changed = self.writes.dropped_keys.contains(&seq) || self.is_deleted(seq);
            let known = self.keys.entry(key).or_insert(None);
            if !changed && known.is_none() {
                *known = Some(seq);
            }
        }
        self.absorb_ties(questions, answers.ties);
        for (canonical, lane) in answers.lanes {
            self.lanes.insert(canonical, lane);
        }
        for (lane, key) in answers.lane_keys {
            self.lane_keys.insert(lane, key);
        }
        answers.ready
    }

    fn absorb_ties(&mut self, questions: &Questions, ties: Vec<(Seq, Seq)>) {
        let written = self.writes.ties.clone();
        let all: Vec<(Seq, Seq)> = ties
            .into_iter()
            .chain(written)
            .filter(|(before, behind)| !self.is_deleted(*before) && !self.is_deleted(*behind))
            .collect();
        let gather = |wanted: &[Seq], pick: fn(&(Seq, Seq)) -> (Seq, Seq)| {
            let mut sets: BTreeMap<Seq, BTreeSet<Seq>> =
                wanted.iter().map(|seq| (*seq, BTreeSet::new())).collect();
            for (of, other) in all.iter().map(pick) {
                if let Some(set) = sets.get_mut(&of) {
                    set.insert(other);
                }
            }
            sets
        };
        self.dependents.extend(gather(&questions.dependents, |(p, d)| (*p, *d)));
        self.prerequisites.extend(gather(&questions.prerequisites, |(p, d)| (*d, *p)));
    }

    fn is_deleted(&self, seq: Seq) -> bool {
        matches!(self.writes.jobs.get(&seq), Some(JobWrite::Delete { .. }))
    }

    /// Everything that was foreseen and is not known, as one question.
    pub(super) fn foreseen(&mut self) -> Questions {
        let mut questions = Questions::default();
        for expected in std::mem::take(&mut self.expected) {
            questions.ids.extend(expected.ids);
            let Some(batch) = expected.batch else { continue };
            for spec in &batch.jobs {
                questions.ids.push(spec.id);
                questions.ids.extend(spec.depends_on.iter().copied());
                questions.keys.extend(spec.idempotency_key.clone());
            }
            questions.lanes.extend(self.unknown_lanes(&batch));
        }
        questions.ids.retain(|id| !self.ids.contains_key(id));
        questions.keys.retain(|key| !self.keys.contains_key(key));
        questions
    }

    fn unknown_lanes(&self, batch: &SubmitBatch) -> Vec<String> {
        let mut seen: HashSet<LaneKey> = HashSet::new();
        let mut unknown = Vec::new();
        for spec in &batch.jobs {
            let key = if spec.services.is_empty() {
                LaneKey::of(spec)
            } else {
                let mut spec = spec.clone();
                normalise(&mut spec);
                LaneKey::of(&spec)
            };
            if seen.contains(&key) {
                continue;
            }
            let canonical = key.canonical();
            if !self.lanes.contains_key(&canonical) {
                unknown.push(canonical);
            }
            seen.insert(key);
        }
        unknown
    }

    /// Makes sure that jobs are at hand.
    pub(super) fn fetch(&mut self, seqs: &[Seq]) -> Result<()> {
        let unknown = |seq: &&Seq| self.known_job(**seq).is_none();
        let seqs: Vec<Seq> = seqs.iter().filter(unknown).copied().collect();
        if seqs.is_empty() {
            return Ok(());
        }
        self.ask(Questions { seqs, ..Questions::default() }).map(drop)
    }

    /// Makes sure that the first ready jobs of a lane are known, so many or all. Other lanes that are
    /// expected to be looked at are asked for on the way.
    pub(super) fn look_ahead(
        &mut self,
        lane: LaneId,
        max: Option<i32>,
        limit: usize,
    ) -> Result<()> {
        if self.sees(lane, max, limit) {
            return Ok(());
        }
        let mut ready = vec![self.ready_question(lane, max, limit)];
        if max.is_none() {
            let others = std::mem::take(&mut self.expected_lanes);
            let mut others = others.into_iter().filter(|other| *other != lane);
            while ready.len() < LANES_TOGETHER {
                let Some(other) = others.next() else { break };
                if !self.sees(other, None, limit) {
                    ready.push(self.ready_question(other, None, limit));
                }
            }
            self.expected_lanes = others.collect();
        }
        let questions = Questions { ready, ..Questions::default() };
        let answers = self.ask(questions.clone())?;
        for (question, jobs) in questions.ready.into_iter().zip(answers) {
            self.fill_ready(question, jobs);
        }
        Ok(())
    }

    fn sees(&self, lane: LaneId, max: Option<i32>, limit: usize) -> bool {
        let window = self.ready.get(&lane).and_then(|known| known.windows.get(&max));
        window.is_some_and(|window| window.is_whole() || window.len() >= limit)
    }

    fn ready_question(&mut self, lane: LaneId, max: Option<i32>, limit: usize) -> ReadyQuestion {
        let gone = self.gone.get(&lane).copied().unwrap_or(0);
        let known = self.ready.entry(lane).or_default();
        let ahead = known.ahead.max(limit);
        if max.is_none() {
            known.ahead = (ahead * 2).min(ReadyLane::MOST / 2);
        }
        ReadyQuestion { lane, from: known.from, max_priority: max, limit: ahead + gone }
    }

    fn fill_ready(&mut self, question: ReadyQuestion, jobs: Vec<Job>) {
        let whole = jobs.len() < question.limit;
        let last = jobs.last().map(Rank::of);
        let mut rows = Vec::with_capacity(jobs.len());
        for job in jobs {
            if !self.is_changed(job.seq) {
                rows.push(Rank::of(&job));
                self.clean.insert(job.seq, Some(job));
            }
        }
        let max = question.max_priority;
        let mine = self.changed_jobs().filter(|job| {
            job.lane == question.lane
                && job.life.state == State::Queued(Wait::Turn)
                && max.is_none_or(|max| job.spec.priority <= max)
                && (whole || last.is_some_and(|last| Rank::of(job) <= last))
        });
        let mine: Vec<Rank> = mine.map(Rank::of).collect();
        rows.extend(mine);
        let unchanged = !self.gone.contains_key(&question.lane);
        let known = self.ready.entry(question.lane).or_default();
        if max.is_none() && unchanged {
            // The backend still has what this turn takes; the place moves on only behind what is gone.
            let first = rows.iter().copied().chain(last).min();
            known.from = Some(first.unwrap_or(Rank::END));
        }
        let window = known.windows.entry(max).or_insert_with(|| Window::closed(ReadyLane::MOST));
        window.fill(rows, last, whole);
    }

    /// Makes sure that the beginning of a list by instant is known: everything up to an instant, or so many.
    pub(super) fn look_at_list(
        &mut self,
        list: Timed,
        until: Option<Timestamp>,
        limit: usize,
    ) -> Result<()> {
        let window = &self.timed[list as usize];
        let covered = match until {
            Some(until) => window.covers(until) || window.rows().nth(limit - 1).is_some(),
            None => window.first().is_some(),
        };
        if covered {
            return Ok(());
        }
        let from = self.numbers.earliest.get(list);
        let asked = limit + self.writes.jobs.len();
        let found = self.backend.timed(list, from, asked)?;
        let (whole, last) = (found.len() < asked, found.last().copied());
        let mut rows: Vec<(Timestamp, Seq)> =
            found.into_iter().filter(|(_, seq)| !self.is_changed(*seq)).collect();
        for job in self.changed_jobs() {
            let at = match list {
                Timed::Deadline => job.life.deadline(&job.spec),
                list => instant_of(list, &job.life.state),
            };
            if let Some(at) = at
                && (whole || last.is_some_and(|last| (at, job.seq) <= last))
            {
                rows.push((at, job.seq));
            }
        }
        let window = &mut self.timed[list as usize];
        window.fill(rows, last, whole);
        if let Some(first) = window.first() {
            *self.numbers.earliest.of(list) = first;
            window.exact = true;
        }
        Ok(())
    }

    /// What a search of the backend comes to when the turn's own changes are counted: those it no longer
    /// fits go, those it fits now come, in the order of their places.
    pub(super) fn merged(
        &self,
        found: Vec<Seq>,
        limit: usize,
        fits: impl Fn(&Job) -> bool,
    ) -> Vec<Seq> {
        let mut all: BTreeSet<Seq> =
            found.into_iter().filter(|seq| !self.is_changed(*seq)).collect();
        all.extend(self.changed_jobs().filter(|job| fits(job)).map(|job| job.seq));
        all.into_iter().take(limit).collect()
    }

    /// Whether a job is in a state, as far as the turn knows better than the backend.
    pub(super) fn still(&self, seq: Seq, state: StateWord) -> bool {
        match self.writes.jobs.get(&seq) {
            None => true,
            Some(JobWrite::Delete { .. }) => false,
            Some(JobWrite::Insert(job) | JobWrite::Change { job, .. }) => {
                job.life.state.word() == state
            }
        }
    }
}

/// The instant by which a job in a state is found in a list.
fn instant_of(list: Timed, state: &State) -> Option<Timestamp> {
    match (list, state) {
        (Timed::Delayed, State::Queued(Wait::Until(at))) => Some(*at),
        (Timed::Lapsing, state) => state.lease().map(|lease| lease.until),
        _ => None,
    }
}

/// Nothing is known of the lists but the bounds; that of the delayed jobs is always exact.
fn closed_lists() -> [TimedWindow; 3] {
    [TimedWindow::closed(true), TimedWindow::closed(false), TimedWindow::closed(false)]
}
