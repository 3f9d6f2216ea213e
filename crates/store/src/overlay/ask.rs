//! How the overlay asks the backend for what it does not know: as much as it can foresee in one question.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use runcue_core::board::HEADS;
use runcue_core::submission::normalise;
use runcue_core::{Job, LaneId, LaneKey, Seq, State, Timestamp, Wait};

use super::cache::{Overlay, instant_of};
use super::kept::LEFT_OF_A_LANE;
use super::window::{ReadyLane, Window};
use super::{Answers, Backend, JobWrite, Questions, Rank, ReadyQuestion, Timed, WriteSet};
use crate::Result;
use crate::request::SubmitBatch;

/// Lanes whose ready jobs are asked for together.
const LANES_TOGETHER: usize = 64;
/// Rows of windows that are read ahead, over all lanes; of a lane no fewer than are asked for.
const ROWS_AHEAD: usize = 16 * 1024;
/// So many claims of the lane that is being emptied are read ahead.
const AHEAD: usize = 3;
/// Fewer jobs are not read before they are asked for.
const WORTH_IT: usize = 64;
/// Jobs of which only the place was kept that are read together.
const THIN_TOGETHER: usize = 2048;

/// Jobs that a lane must show for a claim of so many: the board takes them in heads, and wants to know what stands behind.
fn with_heads(claims: usize) -> usize {
    claims.saturating_add(2 * HEADS)
}

impl<B: Backend> Overlay<B> {
    /// What is expected to be asked for, for the question that begins a turn: jobs, and the ready ones of lanes
    /// that were claimed from before. Where others claim from the only lane, what is known of it is probably taken; and
    /// where there is news of others, jobs have probably come to it. So many `more` will be claimed right after the turn.
    pub(super) fn first_questions(&mut self, news: bool, more: usize) -> Questions {
        let ids = self.expected.iter().flat_map(|expected| expected.ids.iter().copied());
        let ids = ids.filter(|id| self.kept.seq_of(*id).is_none()).collect();
        let recent = std::mem::take(&mut self.recent_lanes);
        let contested = (self.shared || news) && recent.len() == 1;
        let claims = self.expected_claims + more;
        // Whoever claims many will soon do so again.
        let soon = if claims >= WORTH_IT { claims.saturating_mul(2) } else { claims };
        let limit =
            if recent.len() == 1 { with_heads(soon.min(ReadyLane::MOST / 2)) } else { HEADS };
        let mut ready = Vec::new();
        for lane in recent.iter().copied().filter(|_| claims > 0).take(LANES_TOGETHER) {
            if contested {
                self.forget_ready(lane);
            }
            if !self.sees(lane, None, limit) {
                // Where the window ends is not known before it is known what others have done.
                ready.push(self.ready_question(lane, None, limit, None));
            }
        }
        self.recent_lanes = recent;
        Questions { ids, ready, ..Questions::default() }
    }

    /// What is known of the ready jobs of a lane is not to be relied on.
    fn forget_ready(&mut self, lane: LaneId) {
        let Some(known) = self.ready.get_mut(&lane) else { return };
        for rank in known.close() {
            self.kept.forget(rank.seq);
        }
    }

    /// Of such questions, has the ready jobs read once the turn is taken, if there is no hurry and the backend can. They are
    /// taken over when they are needed.
    pub(super) fn put_off_reading(&mut self, questions: &mut Questions) -> Option<ReadyQuestion> {
        let [question] = &questions.ready[..] else { return None };
        // Where the lane begins may be known better when the turn has begun.
        let question = ReadyQuestion { from: None, ..question.clone() };
        let put_off = self.desk.read_when_begun(&question);
        questions.ready.retain(|_| !put_off);
        put_off.then_some(question)
    }

    /// Asks the backend and keeps the answers.
    pub(super) fn ask(&mut self, questions: Questions) -> Result<Vec<Vec<Job>>> {
        let answers = self.desk.backend().ask(&questions)?;
        Ok(self.absorb(&questions, answers))
    }

    /// Keeps answers, except where the turn knows better. Answers the ready jobs.
    pub(super) fn absorb(&mut self, questions: &Questions, answers: Answers) -> Vec<Vec<Job>> {
        for id in &questions.ids {
            self.ids.entry(*id).or_insert(None);
        }
        for seq in questions.seqs.iter().chain(&questions.ready_seqs) {
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
            if self.kept.is_thin(job.seq) {
                self.kept.keep(job);
            } else if self.kept.get(job.seq).is_none() {
                self.clean.insert(job.seq, Some(job));
            }
        }
        for (key, seq) in answers.keys {
            let changed = self.writes.dropped_keys.contains(&seq) || self.is_deleted(seq);
            let known = self.keys.entry(key).or_insert(None);
            if !changed && known.is_none() {
                *known = Some(seq);
            }
        }
        self.absorb_ties(questions, answers.ties);
        self.no_lanes.extend(questions.lanes.iter().cloned());
        for (canonical, lane) in answers.lanes {
            self.no_lanes.remove(&canonical);
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
        questions.ids.retain(|id| self.known_id(*id).is_none());
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

    /// Makes sure that a job is at hand. Of ready ones whose place alone is known, the next few of this lane and the
    /// first of others come with it.
    pub(super) fn fetch_one(&mut self, seq: Seq) -> Result<()> {
        let mut seqs = vec![seq];
        if self.kept.is_thin(seq) {
            for lane in self.ready.values() {
                let rows = lane.windows.get(&None).into_iter().flat_map(Window::rows);
                let thin = rows.map(|rank| rank.seq).filter(|other| self.kept.is_thin(*other));
                seqs.extend(thin.filter(|other| *other != seq).take(LEFT_OF_A_LANE));
                if seqs.len() >= THIN_TOGETHER {
                    break;
                }
            }
        }
        self.fetch(&seqs)
    }

    /// Makes sure that these ready jobs of a lane are at hand. If one of them is not, the first of other lanes of which only
    /// the place is known come with it: where lanes take turns, theirs are wanted next.
    pub(super) fn fetch_ready(&mut self, lane: LaneId, seqs: &[Seq]) -> Result<()> {
        let unknown = seqs.iter().copied().filter(|seq| self.known_job(*seq).is_none());
        let mut all: Vec<Seq> = unknown.collect();
        if all.is_empty() {
            return Ok(());
        }
        for (_, other) in self.ready.iter().filter(|(other, _)| **other != lane) {
            if all.len() >= THIN_TOGETHER {
                break;
            }
            // Some of its first jobs are at hand and about to be taken.
            let rows = other.windows.get(&None).into_iter().flat_map(Window::rows).take(2 * HEADS);
            let thin = rows.map(|rank| rank.seq).filter(|seq| self.kept.is_thin(*seq));
            all.extend(thin.filter(|seq| !self.is_changed(*seq)).take(HEADS));
        }
        self.ask(Questions { ready_seqs: all, ..Questions::default() }).map(drop)
    }

    /// Makes sure that the first ready jobs of a lane are known, so many or all. Other lanes that are
    /// expected to be looked at are asked for on the way.
    pub(super) fn look_ahead(
        &mut self,
        lane: LaneId,
        max: Option<i32>,
        limit: usize,
    ) -> Result<()> {
        // Once is enough but where the turn itself has changed jobs behind what was known.
        while !self.sees(lane, max, limit) {
            if self.reading.is_some() {
                self.end_reading();
                continue;
            }
            let mut ready = vec![self.next_question(lane, max, limit)];
            if max.is_none() {
                let others = std::mem::take(&mut self.expected_lanes);
                let mut others = others.into_iter().filter(|other| *other != lane);
                while ready.len() < LANES_TOGETHER {
                    let Some(other) = others.next() else { break };
                    if !self.sees(other, None, limit) {
                        ready.push(self.next_question(other, None, limit));
                    }
                }
                self.expected_lanes = others.collect();
            }
            let questions = Questions { ready, ..Questions::default() };
            let answers = self.ask(questions.clone())?;
            self.recent_lanes = questions.ready.iter().map(|question| question.lane).collect();
            for (question, jobs) in questions.ready.iter().zip(answers) {
                self.fill_ready(question, jobs);
            }
            if questions.ready[0].behind.is_none() {
                break;
            }
        }
        Ok(())
    }

    /// Between two turns: the next jobs of the lane that is being emptied, if many are taken at a time and nobody else takes
    /// from it.
    pub(super) fn read_ahead(&mut self) -> Result<()> {
        let claims = self.latest_claims;
        if let [lane] = self.recent_lanes[..]
            && !self.shared
            && self.reading.is_none()
            && claims >= WORTH_IT
            && !self.sees(lane, None, with_heads(claims))
        {
            self.look_ahead(lane, None, with_heads(claims))?;
        }
        Ok(())
    }

    /// Begins to read the next jobs of the lane that is being emptied, to go on while a commit is carried out, as long as
    /// nobody else comes in between. They are good whether they are read before the commit or after it, which must not have
    /// to do with any of them. What is still being read is not begun again. So many claims at the most are made before
    /// somebody else does come.
    pub(super) fn begin_reading(&mut self, writes: &WriteSet, claims_ahead: usize) {
        let has_to_do = |lane: LaneId, edge: Rank| {
            writes
                .jobs
                .values()
                .map(JobWrite::job)
                .any(|job| job.lane == lane && Rank::of(job) > edge)
        };
        if let Some(question) = &self.reading {
            let lane = question.lane;
            let changes = |write: &JobWrite| write.job().lane == lane && write.changes_ready();
            let stale = match question.behind {
                Some(edge) => has_to_do(lane, edge),
                // It was read before this, from the beginning of the lane.
                None => writes.jobs.values().any(changes),
            };
            if stale {
                self.reading = None;
                return;
            }
            if !self.desk.has_read() {
                return;
            }
            self.end_reading();
        }
        let [lane] = self.recent_lanes[..] else { return };
        let claims =
            if self.expected_claims > 0 { self.expected_claims } else { self.latest_claims };
        // The next turn is decided before this one is written, and they are decoded while that one is. Only the turn after
        // those has them, and reads again.
        let most = with_heads(claims.saturating_mul(claims_ahead.min(AHEAD)));
        let most = most.min(ReadyLane::MOST / 2).max(with_heads(claims));
        if claims_ahead == 0 || claims < WORTH_IT || self.sees(lane, None, most) {
            return;
        }
        let window = self.ready.get(&lane).and_then(|known| known.windows.get(&None));
        let Some(edge) = window.and_then(Window::edge) else { return };
        if has_to_do(lane, edge) {
            return;
        }
        let question = self.ready_question(lane, None, most, Some(edge));
        self.desk.begin_reading(&question, self.revision);
        self.reading = Some(question);
    }

    /// Takes over what was read, when the commit has been carried out.
    pub(super) fn end_reading(&mut self) {
        let Some(question) = self.reading.take() else { return };
        let window = |lane: &ReadyLane| lane.windows.get(&None).and_then(Window::edge);
        let edge = self.ready.get(&question.lane).and_then(window);
        let goes_on = question.behind.is_none() || edge == question.behind;
        if let Some(jobs) = self.desk.read().filter(|_| goes_on) {
            self.fill_ready(&question, jobs);
        }
    }

    /// Whether the jobs are at hand, or on their way, that the next claim takes if it is like the last one.
    pub(super) fn has_next_claim(&self) -> bool {
        let claims = self.latest_claims.max(self.expected_claims);
        match self.recent_lanes[..] {
            [lane] => self.reading.is_some() || self.sees(lane, None, with_heads(claims)),
            _ => true,
        }
    }

    fn sees(&self, lane: LaneId, max: Option<i32>, limit: usize) -> bool {
        let window = self.ready.get(&lane).and_then(|known| known.windows.get(&max));
        window.is_some_and(|window| window.is_whole() || window.len() >= limit)
    }

    /// Asks for what follows the jobs that are known, or for the first ones.
    fn next_question(&mut self, lane: LaneId, max: Option<i32>, limit: usize) -> ReadyQuestion {
        let window = self.ready.get(&lane).and_then(|known| known.windows.get(&max));
        let goes_on = max.is_none() && self.goes_on;
        let behind = window.filter(|_| goes_on).and_then(Window::edge);
        self.ready_question(lane, max, limit, behind)
    }

    fn ready_question(
        &mut self,
        lane: LaneId,
        max: Option<i32>,
        limit: usize,
        behind: Option<Rank>,
    ) -> ReadyQuestion {
        let gone = self.gone.get(&lane).copied().unwrap_or(0);
        let claims = if self.ready.len() <= 1 { self.expected_claims } else { 0 };
        let limit = if claims > limit { with_heads(claims) } else { limit };
        let share = ROWS_AHEAD / self.ready.len().max(1);
        let known = self.ready.entry(lane).or_default();
        let ahead = known.ahead.max(limit);
        if max.is_none() {
            known.ahead = ahead.saturating_mul(2).min(ReadyLane::MOST / 2).min(share.max(limit));
        }
        let at_hand = known.windows.get(&max).map_or(0, Window::len);
        let limit = match behind {
            // What the turn has taken stood before that.
            Some(_) => ahead.saturating_sub(at_hand).max(1),
            None => ahead.saturating_add(gone),
        };
        let known_rows = if behind.is_some() { at_hand } else { 0 };
        ReadyQuestion {
            lane,
            from: known.begin(),
            behind,
            known: known_rows,
            max_priority: max,
            limit,
        }
    }

    pub(super) fn fill_ready(&mut self, question: &ReadyQuestion, jobs: Vec<Job>) {
        let whole = jobs.len() < question.limit;
        let last = jobs.last().map(Rank::of);
        let mut rows = Vec::with_capacity(jobs.len());
        for job in jobs {
            if !self.is_changed(job.seq) {
                rows.push(Rank::of(&job));
                self.kept.keep(job);
            }
        }
        let (max, behind) = (question.max_priority, question.behind);
        let mine = self.changed_jobs().filter(|job| {
            job.lane == question.lane
                && job.life.state == State::Queued(Wait::Turn)
                && max.is_none_or(|max| job.spec.priority <= max)
                && behind.is_none_or(|behind| Rank::of(job) > behind)
                && (whole || last.is_some_and(|last| Rank::of(job) <= last))
        });
        let mine: Vec<Rank> = mine.map(Rank::of).collect();
        rows.extend(mine);
        let unchanged = !self.gone.contains_key(&question.lane);
        let known = self.ready.entry(question.lane).or_default();
        let window = known.windows.entry(max).or_insert_with(|| Window::closed(ReadyLane::MOST));
        let mut before: Vec<Rank> = Vec::new();
        if behind.is_some() {
            window.go_on(rows, last, whole);
        } else {
            before.extend(window.rows());
            window.fill(rows, last, whole);
        }
        if max.is_none() && unchanged {
            // The backend still has what this turn takes; the place moves on only behind what is gone.
            let first = window.rows().next().into_iter().chain(last).min();
            known.from = Some(first.unwrap_or(Rank::END));
        }
        for rank in before {
            if !known.shows(rank) {
                self.kept.forget(rank.seq);
            }
        }
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
        let found = self.desk.backend().timed(list, from, asked)?;
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
}
