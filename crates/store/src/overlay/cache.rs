//! The [`Overlay`]: what is known of the backend's rows, what a turn changes of them, and how the rest is
//! asked for. `tables.rs` answers the machine from it.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::{Arc, MutexGuard};

use runcue_core::map::Map;
use runcue_core::{
    Job, JobId, LaneId, LaneKey, QueueName, ScheduleName, Seq, State, StateWord, Timestamp, Wait,
};

use super::desk::Desk;
use super::kept::{Kept, Left, left_of_each};
use super::told::{Telling, Told, Voice};
use super::window::{ReadyLane, TimedWindow};
use super::{
    Backend, Changed, CommitId, JobWrite, Numbers, Opening, Questions, Rank, ReadyQuestion, Timed,
    WriteSet,
};
use crate::Result;
use crate::reply::ScheduleInfo;
use crate::request::{ClaimRequest, SubmitBatch};
use crate::tables::Changes;

/// One commit in so many says how many jobs are held in all lanes.
const SUM_UP: u64 = 64;

/// What a request will probably need, so that it is asked for together with other rows.
#[derive(Clone, Debug, Default)]
pub struct Foresight {
    /// Jobs.
    pub ids: Vec<JobId>,
    /// A submission, with its keys, prerequisites and lanes.
    pub batch: Option<Arc<SubmitBatch>>,
    /// A claim of so many jobs.
    pub claim: usize,
    /// That claim, if it is one that is asked again and again.
    pub asked: Option<Arc<ClaimRequest>>,
}

impl Foresight {
    /// These jobs.
    pub fn of_ids(ids: impl IntoIterator<Item = JobId>) -> Self {
        Self { ids: ids.into_iter().collect(), ..Self::default() }
    }

    /// All that a submission touches.
    pub fn of_batch(batch: &Arc<SubmitBatch>) -> Self {
        Self { batch: Some(batch.clone()), ..Self::default() }
    }

    /// How many jobs it is about.
    pub(super) fn len(&self) -> usize {
        self.ids.len() + self.claim + self.batch.as_ref().map_or(0, |batch| batch.jobs.len())
    }

    /// The best jobs, or these.
    pub fn of_claim(request: &ClaimRequest) -> Self {
        let best = request.only.is_none() && request.filter.max_priority.is_none();
        let claim = if best { request.max } else { 0 };
        let asked = request.again.then(|| Arc::new(request.clone()));
        Self { claim, asked, ..Self::of_ids(request.only.iter().flatten().copied()) }
    }
}

/// The machine's tables over a backend. See the module's documentation.
#[derive(Debug)]
pub struct Overlay<B> {
    pub(super) desk: Desk<B>,
    /// Whether the backend can begin to read behind a place.
    pub(super) goes_on: bool,
    /// What is read while the latest commit is carried out.
    pub(super) reading: Option<ReadyQuestion>,
    /// The revision everything here builds on.
    pub(super) revision: u64,
    pub(super) numbers: Numbers,
    /// What this turn has changed so far.
    pub(super) writes: WriteSet,
    /// Jobs that were ready before the turn and that it has changed, by lane.
    pub(super) gone: Map<LaneId, usize>,
    /// What the turn began with, until the machine asks for it.
    opened: Option<Changed>,

    /// Jobs that the turn has read and not changed. Nothing for one that does not exist.
    pub(super) clean: Map<Seq, Option<Job>>,
    /// Those that outlast the turn.
    pub(super) kept: Kept,
    pub(super) ids: Map<JobId, Option<Seq>>,
    pub(super) keys: Map<String, Option<Seq>>,
    pub(super) dependents: Map<Seq, BTreeSet<Seq>>,
    pub(super) prerequisites: Map<Seq, BTreeSet<Seq>>,

    pub(super) lanes: Map<String, LaneId>,
    /// Lanes that were asked for in this turn and are not there.
    pub(super) no_lanes: HashSet<String>,
    pub(super) lane_keys: Map<LaneId, LaneKey>,
    pub(super) held: Map<LaneId, u32>,
    pub(super) ready: Map<LaneId, ReadyLane>,
    pub(super) timed: [TimedWindow; 3],
    /// Caps and pauses, to tell a definition from a count.
    pub(super) queues: Map<QueueName, (Option<u64>, bool)>,
    /// All of them: there are few, and every claim asks when the next one fires.
    pub(super) schedules: BTreeMap<ScheduleName, ScheduleInfo>,

    /// What the requests of this turn will probably need.
    pub(super) expected: Vec<Foresight>,
    pub(super) expected_lanes: Vec<LaneId>,
    /// Jobs that will be claimed, and how many it were when it last was any.
    pub(super) expected_claims: usize,
    pub(super) latest_claims: usize,
    /// Whether others have written between the last two turns.
    pub(super) shared: bool,
    /// Lanes that claims have looked at, of late.
    pub(super) recent_lanes: Vec<LaneId>,

    /// The latest claim that found too little and will be asked again, for what was missing.
    pub(super) awaited: Option<ClaimRequest>,

    /// What this daemon tells the others, and how they know that it was said by one of them.
    telling: Telling,
    pub(super) voice: Option<Voice>,
}

impl<B: Backend> Overlay<B> {
    /// An overlay that knows nothing yet.
    pub fn new(backend: B) -> Self {
        Self {
            goes_on: backend.begins_behind(),
            desk: Desk::new(backend),
            reading: None,
            revision: 0,
            numbers: Numbers::default(),
            writes: WriteSet::default(),
            gone: Map::default(),
            opened: None,
            clean: Map::default(),
            kept: Kept::default(),
            ids: Map::default(),
            keys: Map::default(),
            dependents: Map::default(),
            prerequisites: Map::default(),
            lanes: Map::default(),
            no_lanes: HashSet::new(),
            lane_keys: Map::default(),
            held: Map::default(),
            ready: Map::default(),
            timed: closed_lists(),
            queues: Map::default(),
            schedules: BTreeMap::new(),
            expected: Vec::new(),
            expected_lanes: Vec::new(),
            expected_claims: 0,
            latest_claims: 0,
            shared: false,
            recent_lanes: Vec::new(),
            awaited: None,
            telling: Telling::default(),
            voice: None,
        }
    }

    /// What is beneath.
    pub fn backend(&mut self) -> MutexGuard<'_, B> {
        self.desk.backend()
    }

    /// Says what the requests of the coming turn will probably need.
    pub(super) fn expect(&mut self, foresight: &Foresight) {
        self.expected_claims += foresight.claim;
        if !foresight.ids.is_empty() || foresight.batch.is_some() {
            self.expected.push(foresight.clone());
        }
    }

    /// A claim has found so many jobs.
    pub(super) fn note_found(&mut self, request: &ClaimRequest, found: usize) {
        let missing = request.max.saturating_sub(found);
        if request.again {
            let awaited = ClaimRequest { max: missing, ..request.clone() };
            self.awaited = (missing > 0).then_some(awaited);
        }
    }

    /// Takes over what a turn begins with. Answers whether that is everything: then the machine must forget
    /// what it knows.
    pub(super) fn open(&mut self, opening: Opening, questions: &Questions) -> bool {
        let Opening { revision, numbers, changed, answers, .. } = opening;
        self.revision = revision;
        let whole = changed.as_ref().is_some_and(|changed| changed.whole);
        self.shared = changed.is_some();
        if whole {
            self.held.clear();
            self.ready.clear();
            self.queues.clear();
            self.schedules.clear();
            self.lanes.clear();
            self.lane_keys.clear();
            self.kept.clear();
            self.recent_lanes.clear();
        }
        if let Some(changed) = changed {
            self.numbers = numbers;
            self.follow(&changed);
            for touched in &changed.lanes {
                if let Some(lane) = self.ready.get_mut(&touched.lane) {
                    for rank in lane.touch(touched.from) {
                        self.kept.forget(rank.seq);
                    }
                }
            }
            for (name, schedule) in &changed.schedules {
                match schedule {
                    Some(schedule) => self.schedules.insert(name.clone(), schedule.clone()),
                    None => self.schedules.remove(name),
                };
            }
            self.opened = Some(changed);
        }
        let ready = self.absorb(questions, answers);
        for (question, jobs) in questions.ready.iter().zip(ready) {
            // The search began where the lane did when this daemon last knew.
            let lane = self.ready.get(&question.lane);
            if !whole && lane.is_some_and(|lane| lane.begins_behind(question.from)) {
                self.fill_ready(question, jobs);
            }
        }
        whole
    }

    /// What does not depend on whether the jobs that came are known.
    fn follow(&mut self, changed: &Changed) {
        self.telling = Telling::from(self.revision);
        self.timed = closed_lists();
        for (lane, count) in &changed.held {
            self.held.insert(*lane, *count);
        }
        for (lane, rank) in self.kept.forget_all(&changed.jobs) {
            if let Some(lane) = self.ready.get_mut(&lane) {
                lane.remove(rank);
            }
        }
        for touched in &changed.lanes {
            self.learn_lane(touched.lane, &touched.key);
        }
        for queue in &changed.queues {
            self.queues.insert(queue.name.clone(), (queue.max_queued, queue.paused));
        }
    }

    /// Takes over what others have told, between two turns. Answers whether it follows what is known; otherwise it has
    /// to be asked for.
    pub(super) fn hear(&mut self, told: Told) -> bool {
        let too_much = self.opened.as_ref().is_some_and(Changed::is_much);
        if told.from != self.revision || told.to <= told.from || too_much {
            return false;
        }
        // That is as of the revision which is known until here.
        self.end_reading();
        self.revision = told.to;
        self.numbers = told.numbers.clone();
        self.shared = true;
        let (changed, came) = told.changed();
        self.follow(&changed);
        for touched in &changed.lanes {
            if let Some(lane) = self.ready.get_mut(&touched.lane) {
                lane.learn(touched.from);
            }
        }
        for job in came {
            let Some(lane) = self.ready.get_mut(&job.lane) else { continue };
            lane.insert(Rank::of(&job));
            if lane.shows(Rank::of(&job)) {
                self.kept.keep(job);
            }
        }
        match &mut self.opened {
            Some(opened) => opened.go_on(changed),
            opened => *opened = Some(changed),
        }
        true
    }

    /// Forgets everything, as after a turn that was not written.
    pub(super) fn reset(&mut self) {
        self.revision = 0;
        self.reading = None;
        self.awaited = None;
        self.telling = Telling::default();
        self.opened = None;
        self.writes = WriteSet::default();
        self.gone.clear();
        self.forget_rows();
        self.kept.clear();
        self.recent_lanes.clear();
        self.ready.clear();
        self.held.clear();
        self.lanes.clear();
        self.lane_keys.clear();
        self.timed = closed_lists();
    }

    /// How many jobs the turn hands out, and how many of those that were handed out come back.
    pub(super) fn handed_out_and_back(&self) -> (usize, usize) {
        self.writes.handed_out_and_back()
    }

    /// What the turn writes. The overlay holds it as done from here on.
    pub(super) fn take_writes(&mut self, id: CommitId, in_turn: bool, keep: bool) -> WriteSet {
        let mut writes = std::mem::take(&mut self.writes);
        writes.id = Some(id);
        writes.follows = self.revision;
        writes.in_turn = in_turn;
        writes.keeps_turn = keep;
        writes.numbers = self.numbers.clone();
        writes.all_held = self.is_to_sum_up(self.revision + 1).then(|| self.all_held().collect());
        self.telling.add(&writes, &self.lane_keys);
        if writes.news {
            writes.tells = self.voice.as_ref().and_then(|voice| self.telling.message(voice));
        }
        self.gone.clear();
        writes
    }

    /// Whether a commit says how many jobs are held in all lanes. One in a while always does, so that nobody has to
    /// look back further than that.
    fn is_to_sum_up(&self, revision: u64) -> bool {
        let often = revision.is_multiple_of(SUM_UP) && !self.held.is_empty();
        often || revision.is_multiple_of(SUM_UP * 16)
    }

    fn all_held(&self) -> impl Iterator<Item = (LaneId, u32)> {
        self.held.iter().filter(|(_, count)| **count > 0).map(|(lane, count)| (*lane, *count))
    }

    /// The turn is written, or about to be: what it changed is what there is.
    pub(super) fn written(&mut self, writes: &WriteSet) {
        self.revision = writes.follows + 1;
        // Out of turn that is refused if anybody else has written.
        self.shared &= writes.in_turn;
        if writes.news {
            self.telling = Telling::from(self.revision);
        }
        for (seq, write) in &writes.jobs {
            match write {
                JobWrite::Insert(job) | JobWrite::Change { job, .. } if self.is_to_keep(job) => {
                    self.kept.keep(job.clone());
                }
                _ => drop(self.kept.forget(*seq)),
            }
        }
        self.end();
    }

    /// A ready job of a known window, or one that is held here.
    fn is_to_keep(&self, job: &Job) -> bool {
        match job.life.state {
            State::Queued(Wait::Turn) => {
                self.ready.get(&job.lane).is_some_and(|lane| lane.shows(Rank::of(job)))
            }
            ref state => state.lease().is_some(),
        }
    }

    /// A turn is over. Only what others cannot have changed without telling is kept for the next.
    pub(super) fn end(&mut self) {
        self.opened = None;
        self.forget_rows();
        if self.kept.is_too_much() {
            self.thin_out();
        }
    }

    /// Of jobs that are ready only the first few of each lane stay at hand, of the others where they stand.
    fn thin_out(&mut self) {
        let Self { kept, ready, .. } = self;
        let left = left_of_each(ready.len());
        let first = |lane: &ReadyLane| -> Vec<Rank> {
            lane.windows.values().flat_map(|window| window.rows().take(left)).collect()
        };
        let first: HashSet<Seq> = ready.values().flat_map(first).map(|rank| rank.seq).collect();
        kept.thin_out(|lane, rank| match ready.get(&lane) {
            _ if first.contains(&rank.seq) => Left::Job,
            Some(lane) if lane.shows(rank) => Left::Place,
            _ => Left::Nothing,
        });
    }

    fn forget_rows(&mut self) {
        self.clean.clear();
        self.ids.clear();
        self.keys.clear();
        self.dependents.clear();
        self.prerequisites.clear();
        self.no_lanes.clear();
        self.expected.clear();
        self.expected_lanes.clear();
        if self.expected_claims > 0 {
            self.latest_claims = std::mem::take(&mut self.expected_claims);
        }
    }

    /// What the machine is to take over at the beginning of a turn, or anew in the middle of one.
    pub(super) fn all_changes(&mut self, now: Timestamp) -> Result<Changes> {
        let changed = match self.opened.take() {
            Some(changed) => changed,
            None => self.whole_with_writes(now)?,
        };
        let held = self.all_held().collect();
        Ok(Changes {
            afresh: changed.whole,
            groups: changed.groups,
            queues: changed.queues,
            services: changed.services,
            lanes: changed.lanes.into_iter().map(|touched| (touched.lane, touched.key)).collect(),
            usage: changed.usage,
            held,
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
        let mut lanes = self.desk.backend().idle_lanes(&going, limit)?;
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
        let mut changed = self.desk.backend().whole(now, longest.unwrap_or_default())?;
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
            None => match self.kept.get(seq) {
                Some(job) => Some(Some(job)),
                None => self.clean.get(&seq).map(Option::as_ref),
            },
        }
    }

    /// The place of a job by its id, if that is known; nothing in it if there is no such job.
    pub(super) fn known_id(&self, id: JobId) -> Option<Option<Seq>> {
        self.ids.get(&id).copied().or_else(|| self.kept.seq_of(id).map(Some))
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
        self.clean
            .values()
            .flatten()
            .chain(self.kept.jobs())
            .filter(|job| !self.is_changed(job.seq))
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
        self.kept.forget(seq);
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
pub(super) fn instant_of(list: Timed, state: &State) -> Option<Timestamp> {
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
