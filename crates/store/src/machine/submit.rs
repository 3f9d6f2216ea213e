//! submit: a batch is checked whole, then written whole. Nothing is written before every check passed,
//! so a refusal needs no rollback.

use super::*;
use crate::reply::Submitted;
use crate::request::SubmitBatch;
use runcue_core::submission::{AfterFailure, Duplicate, MAX_BATCH, check, duplicate, normalise};
use runcue_core::transition::first_wait;
use runcue_core::{Life, OnFull, cycle};

/// A queue this full is told about, in percent.
const NEARLY_FULL: u64 = 80;

/// What is known of the batch after the checks.
struct Checked {
    /// Jobs of the batch that are there already, under their own id.
    here: Map<JobId, Seq>,
    /// Per job: the job it turned out to be.
    known: Vec<Option<JobId>>,
    /// Idempotency keys that change hands.
    given_up: Vec<Seq>,
    /// Prerequisites outside the batch, or in it and known already.
    prerequisites: Known,
}

/// Jobs that were there before: their place, their state, and the id they really have.
type Known = Map<JobId, (Seq, StateWord, JobId)>;

impl<T: Tables> Machine<T> {
    /// Accepts a batch, or refuses it and changes nothing.
    pub fn submit(&mut self, now: Timestamp, mut batch: SubmitBatch) -> Result<Vec<Submitted>> {
        for (index, spec) in batch.jobs.iter_mut().enumerate() {
            check(spec).map_err(|why| StoreError::Invalid { index, why })?;
            normalise(spec);
        }
        let checked = self.check_batch(&batch)?;
        let dropped = self.make_room(&batch, &checked)?;
        for seq in &checked.given_up {
            self.tables.drop_key(*seq)?;
        }
        let answers = self.insert_batch(now, batch.jobs, checked)?;
        self.drop_oldest(now, dropped)?;
        self.resolve(now)?;
        Ok(answers)
    }

    fn check_batch(&mut self, batch: &SubmitBatch) -> Result<Checked> {
        if batch.jobs.len() > MAX_BATCH {
            return Err(StoreError::TooMany { len: batch.jobs.len(), max: MAX_BATCH });
        }
        let mut places = Map::default();
        places.reserve(batch.jobs.len());
        for (index, spec) in batch.jobs.iter().enumerate() {
            if places.insert(spec.id, index).is_some() {
                return Err(StoreError::RepeatedId { index, id: spec.id });
            }
            self.check_services(index, spec)?;
        }
        let edges = batch.jobs.iter().map(|spec| (spec.id, spec.depends_on.as_slice()));
        if let Some(cycle) = cycle::find_cycle(edges) {
            return Err(StoreError::Cycle(cycle));
        }
        let ids: Vec<JobId> = batch.jobs.iter().map(|spec| spec.id).collect();
        // A key or a cap is judged by whether the job is there already.
        let capped = |spec: &JobSpec| {
            self.queues.get(&spec.queue).is_some_and(|queue| queue.max_queued.is_some())
        };
        let sure = batch.jobs.iter().any(|spec| spec.idempotency_key.is_some() || capped(spec));
        let mut checked = Checked {
            here: self.tables.known(&ids, sure)?,
            known: vec![None; batch.jobs.len()],
            given_up: Vec::new(),
            prerequisites: Map::default(),
        };
        self.check_keys(batch, &mut checked)?;
        self.check_prerequisites(batch, &places, &mut checked)?;
        Ok(checked)
    }

    pub(super) fn check_services(&self, index: usize, spec: &JobSpec) -> Result<()> {
        for used in &spec.services {
            let Some(service) = self.board.service(&used.service) else {
                return Err(StoreError::UnknownService { index, service: used.service.clone() });
            };
            if let Some(most) = service.spec().most_units()
                && used.units > most
            {
                let (service, units) = (used.service.clone(), used.units);
                return Err(StoreError::NeverFits { index, service, units, most });
            }
        }
        Ok(())
    }

    fn check_keys(&mut self, batch: &SubmitBatch, checked: &mut Checked) -> Result<()> {
        let mut first: Map<&str, JobId> = Map::default();
        for (index, spec) in batch.jobs.iter().enumerate() {
            let Some(key) = &spec.idempotency_key else { continue };
            // A job that is sent again after a lost reply answers for itself.
            if checked.here.contains_key(&spec.id) {
                continue;
            }
            if let Some(id) = first.get(key.as_str()) {
                checked.known[index] = Some(*id);
                continue;
            }
            first.insert(key, spec.id);
            let Some(seq) = self.tables.key_holder(key)? else { continue };
            let Some(holder) = self.tables.job(seq)? else { continue };
            if holder.id() == spec.id {
                continue;
            }
            match duplicate(holder.life.state.word(), batch.after_failure) {
                Duplicate::Existing => {
                    checked.known[index] = Some(holder.id());
                    first.insert(key, holder.id());
                }
                Duplicate::Refused => {
                    return Err(StoreError::KeyTaken { index, existing: holder.id() });
                }
                Duplicate::Accepted => {
                    debug_assert_eq!(batch.after_failure, AfterFailure::Resubmit);
                    checked.given_up.push(seq);
                }
            }
        }
        Ok(())
    }

    fn check_prerequisites(
        &mut self,
        batch: &SubmitBatch,
        places: &Map<JobId, usize>,
        checked: &mut Checked,
    ) -> Result<()> {
        for (index, spec) in batch.jobs.iter().enumerate() {
            for id in &spec.depends_on {
                if checked.prerequisites.contains_key(id) {
                    continue;
                }
                // A prerequisite in the batch may turn out to be a job that is there already.
                let place = places.get(id);
                let real = place.and_then(|place| checked.known[*place]).unwrap_or(*id);
                match self.load(real)? {
                    Some(job) => {
                        checked
                            .prerequisites
                            .insert(*id, (job.seq, job.life.state.word(), job.id()));
                    }
                    None if place.is_some() => {}
                    None => {
                        return Err(StoreError::UnknownPrerequisite { index, prerequisite: *id });
                    }
                }
            }
        }
        Ok(())
    }

    /// Looks whether the queues can take the batch. Answers from which queues the oldest must go.
    fn make_room(
        &mut self,
        batch: &SubmitBatch,
        checked: &Checked,
    ) -> Result<Vec<(QueueName, u64)>> {
        let capped: Vec<QueueInfo> =
            self.queues.values().filter(|q| q.max_queued.is_some()).cloned().collect();
        let mut dropped = Vec::new();
        for queue in capped {
            let Some(max) = queue.max_queued else { continue };
            let new = |(index, spec): &(usize, &JobSpec)| {
                spec.queue == queue.name
                    && checked.known[*index].is_none()
                    && !checked.here.contains_key(&spec.id)
            };
            let coming = batch.jobs.iter().enumerate().filter(new).count() as u64;
            let over = (queue.queued + coming).saturating_sub(max);
            if coming == 0 || over == 0 {
                continue;
            }
            if queue.on_full == OnFull::DropOldest {
                dropped.push((queue.name.clone(), over));
                continue;
            }
            let (queue, queued, block) = (queue.name, queue.queued, queue.on_full == OnFull::Block);
            return Err(StoreError::Full { queue, queued, max, block });
        }
        Ok(dropped)
    }

    fn insert_batch(
        &mut self,
        now: Timestamp,
        jobs: Vec<JobSpec>,
        checked: Checked,
    ) -> Result<Vec<Submitted>> {
        let mut answers = Vec::with_capacity(jobs.len());
        let mut new = Vec::with_capacity(jobs.len());
        for (spec, known) in jobs.into_iter().zip(checked.known) {
            if known.is_some() || checked.here.contains_key(&spec.id) {
                answers.push(Submitted::Existing(known.unwrap_or(spec.id)));
                continue;
            }
            let wait = match open_prerequisites(&spec, &checked.prerequisites) {
                0 => first_wait(spec.run_at, now),
                left => Wait::Prerequisites(left),
            };
            let lane = self.lane_of(&spec)?;
            let seq = Seq(self.counters.seq.0 + 1);
            self.counters.seq = seq;
            answers.push(Submitted::New(spec.id));
            let life = Life::begin(now, wait);
            new.push(Job { seq, lane, spec: Arc::new(spec), life, has_dependents: false });
        }
        self.tables.insert(&new)?;
        let mut depths: BTreeMap<QueueName, u64> = BTreeMap::new();
        for job in &new {
            if let Some(queue) = self.queues.get(&job.spec.queue)
                && queue.max_queued.is_some()
            {
                depths.entry(job.spec.queue.clone()).or_insert(queue.queued);
            }
            self.welcome(now, job);
        }
        let has_ties = new.iter().any(|job| !job.spec.depends_on.is_empty());
        let places = new.iter().filter(|_| has_ties).map(|job| (job.id(), job.seq));
        let seqs: Map<JobId, Seq> = places.collect();
        let tied = new.into_iter().filter(|job| !job.spec.depends_on.is_empty()).collect();
        self.tie_batch(now, tied, &seqs, &checked.prerequisites)?;
        self.tell_nearly_full(now, depths);
        Ok(answers)
    }

    fn welcome(&mut self, now: Timestamp, job: &Job) {
        self.news.any = true;
        self.count(&job.spec, None, Some(&job.life.state));
        if job.life.state == State::Queued(Wait::Turn) {
            self.ready_now(job);
        }
        let mut event = Event::of_job(EventKind::Queued, now, job);
        if let State::Queued(Wait::Until(at)) = job.life.state {
            event.retry_at = Some(at);
        }
        self.emit(event);
    }

    fn tie_batch(
        &mut self,
        now: Timestamp,
        tied: Vec<Job>,
        seqs: &Map<JobId, Seq>,
        outside: &Known,
    ) -> Result<()> {
        let mut doomed = Vec::new();
        for job in tied {
            for id in &job.spec.depends_on {
                let prerequisite =
                    outside.get(id).map(|(seq, _, _)| *seq).or_else(|| seqs.get(id).copied());
                if let Some(seq) = prerequisite {
                    self.tables.tie(seq, job.seq)?;
                    let real = outside.get(id).map_or(id, |(_, _, real)| real);
                    self.fetched.take(seq);
                    if let Some(held) = self.held.get_mut(real) {
                        held.has_dependents = true;
                    }
                }
            }
            let states = job
                .spec
                .depends_on
                .iter()
                .filter_map(|id| outside.get(id))
                .map(|(_, state, _)| *state);
            if let Some(unmet) = states.filter_map(unmet_by).next() {
                doomed.push((job, unmet));
            }
        }
        for (job, unmet) in doomed {
            // Read again: a later job of the batch may have been tied to it.
            let Some(mut job) = self.tables.job(job.seq)? else { continue };
            let _ = self.apply(now, &mut job, Input::PrerequisiteUnmet(unmet), None)?;
        }
        Ok(())
    }

    pub(super) fn lane_of(&mut self, spec: &JobSpec) -> Result<LaneId> {
        let key = LaneKey::of(spec);
        if let Some(lane) = self.lanes.get(&key) {
            return Ok(*lane);
        }
        let lane = self.tables.lane(&key, &key.canonical())?;
        if !self.board.has_lane(lane) {
            self.board.add_lane(lane, &key, true);
        }
        self.lanes.insert(key, lane);
        Ok(lane)
    }

    fn drop_oldest(&mut self, now: Timestamp, dropped: Vec<(QueueName, u64)>) -> Result<()> {
        for (queue, over) in dropped {
            let limit = usize::try_from(over).unwrap_or(usize::MAX);
            for seq in self.tables.oldest_queued(&queue, limit)? {
                if let Some(mut job) = self.tables.job(seq)? {
                    let _ = self.apply(now, &mut job, Input::Cancel, None)?;
                }
            }
        }
        Ok(())
    }

    fn tell_nearly_full(&mut self, now: Timestamp, depths: BTreeMap<QueueName, u64>) {
        for (name, before) in depths {
            let Some((max, queued)) =
                self.queues.get(&name).and_then(|q| Some((q.max_queued?, q.queued)))
            else {
                continue;
            };
            let mark = max.saturating_mul(NEARLY_FULL).div_ceil(100);
            if before < mark && queued >= mark {
                self.emit(Event {
                    queue: Some(name),
                    message: Some(format!("{queued} of {max} jobs are waiting")),
                    ..Event::new(EventKind::Backpressure, now)
                });
            }
        }
    }
}

/// Prerequisites that have not completed; those in the batch have not.
fn open_prerequisites(spec: &JobSpec, outside: &Known) -> u32 {
    let open = spec
        .depends_on
        .iter()
        .filter(|id| outside.get(id).is_none_or(|(_, state, _)| *state != StateWord::Completed));
    u32::try_from(open.count()).unwrap_or(u32::MAX)
}

/// What a prerequisite that is in this state already means.
pub(super) fn unmet_by(state: StateWord) -> Option<Unmet> {
    match state {
        StateWord::Failed | StateWord::Quarantined => Some(Unmet::Failed),
        StateWord::Cancelled => Some(Unmet::Cancelled),
        _ => None,
    }
}
