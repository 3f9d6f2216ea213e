//! The jobs of a turn by column: what comes, what changes, what goes, and what of it is written by the run.

use std::collections::BTreeMap;

use runcue_core::{Job, Life, Seq, State, Timestamp, Token, Wait};
use runcue_store::overlay::{JobWrite, WriteSet};
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::flight::{Value, column};
use super::lease_runs::LeaseRuns;
use super::ready_runs::{self, Runs};
use crate::rows::{flags, id_of, outcome, rank_of, signed, small, stage, text};

/// In the place of a lease, of a job that was ready before: it may be in a run, as one that was held may.
const READY_BEFORE: Token = Token(0);

/// Jobs in one statement at the most: a statement has to fit into a message.
const JOBS_PER_PART: usize = 20_000;

/// The jobs of a turn, as many as go into one statement.
#[derive(Default)]
pub struct JobPart {
    gone_jobs: Vec<i64>,
    gone_live: Vec<i64>,
    /// Jobs that were ready, and have a row of their own or not.
    gone_ready: Vec<i64>,
    /// Jobs that were held, and have a row of their own or not.
    gone_held: Vec<i64>,
    gone_done: Vec<i64>,
    /// The leases of all jobs that were held, from one number to another.
    left: (Vec<i64>, Vec<i64>),
    runs: LeaseRuns,
    /// All jobs that were ready, and those that are now and to which nothing else has happened.
    ready: (Runs, Runs),
    new: NewColumns,
    live: LiveColumns,
    done: DoneColumns,
}

#[derive(Default)]
struct NewColumns {
    seq: Vec<i64>,
    id: Vec<Uuid>,
    lane: Vec<i64>,
    rank: Vec<i64>,
    created_at: Vec<i64>,
    spec: Vec<String>,
    plain: Vec<bool>,
}

#[derive(Default)]
struct LiveColumns {
    is_new: Vec<bool>,
    held: Vec<Option<i64>>,
    seq: Vec<i64>,
    lane: Vec<i64>,
    rank: Vec<i64>,
    stage: Vec<i16>,
    due: Vec<Option<i64>>,
    deadline: Vec<Option<i64>>,
    prerequisites: Vec<i32>,
    attempt: Vec<i32>,
    earlier: Vec<i32>,
    crashes: Vec<i32>,
    queued_at: Vec<i64>,
    started_at: Vec<Option<i64>>,
    worker: Vec<Option<Uuid>>,
    token: Vec<Option<i64>>,
    start_by: Vec<Option<i64>>,
    flags: Vec<i16>,
    outcome: Vec<Option<String>>,
}

#[derive(Default)]
struct DoneColumns {
    seq: Vec<i64>,
    lane: Vec<i64>,
    stage: Vec<i16>,
    ended_at: Vec<i64>,
    attempt: Vec<i32>,
    earlier: Vec<i32>,
    crashes: Vec<i32>,
    queued_at: Vec<i64>,
    started_at: Vec<Option<i64>>,
    flags: Vec<i16>,
    outcome: Vec<Option<String>>,
}

/// The statements of a turn. New jobs of a lane are written as runs if there are so many `together`.
pub fn job_parts(writes: &WriteSet, together: usize) -> Vec<JobPart> {
    let (runs, inside) = LeaseRuns::of(writes);
    let all: Vec<(&Seq, &JobWrite)> = writes.jobs.iter().collect();
    let mut parts: Vec<JobPart> = Vec::new();
    for jobs in all.chunks(JOBS_PER_PART) {
        let mut part = JobPart::default();
        jobs.iter().for_each(|(seq, write)| part.add(**seq, write, inside.contains(seq)));
        part.leave(jobs.iter().filter_map(|(_, write)| was_held(write)).collect());
        part.gather(jobs, together);
        parts.push(part);
    }
    if let Some(part) = parts.last_mut() {
        part.runs = runs;
    }
    parts
}

/// The lease that a job had before the turn.
fn was_held(write: &JobWrite) -> Option<Token> {
    let before = match write {
        JobWrite::Insert(_) => return None,
        JobWrite::Change { before, .. } => before,
        JobWrite::Delete { job } => &job.life.state,
    };
    before.lease().map(|lease| lease.token)
}

fn is_final(state: &State) -> bool {
    state.word().is_final()
}

/// Whether a new job is ready and nothing has happened to it, as most are: then its columns say it all.
fn is_plain(job: &Job) -> bool {
    let untouched = Life::begin(job.life.created_at, Wait::Turn);
    job.life == untouched && flags(job) == 0 && job.life.deadline(&job.spec).is_none()
}

impl JobPart {
    fn add(&mut self, seq: Seq, write: &JobWrite, in_run: bool) {
        let seq = signed(seq.0);
        let held = was_held(write);
        let ready = write.was_ready();
        match write {
            JobWrite::Insert(job) => {
                let plain = is_plain(job);
                self.new.add(job, plain);
                if !plain {
                    self.put(job, true, None);
                }
            }
            JobWrite::Change { .. } if in_run => self.gone_ready.push(seq),
            JobWrite::Change { job, before } => {
                let (was_final, is_final) = (is_final(before), is_final(&job.life.state));
                if was_final {
                    self.gone_done.push(seq);
                } else if is_final {
                    self.gone_unfinished(held.is_some(), ready).push(seq);
                }
                let before = if ready { Some(READY_BEFORE) } else { held };
                self.put(job, was_final, before);
            }
            JobWrite::Delete { job } => {
                self.gone_jobs.push(seq);
                if is_final(&job.life.state) {
                    &mut self.gone_done
                } else {
                    self.gone_unfinished(held.is_some(), ready)
                }
                .push(seq);
            }
        }
    }

    /// Where a job that goes is named: what it was says where it is found.
    fn gone_unfinished(&mut self, held: bool, ready: bool) -> &mut Vec<i64> {
        match (held, ready) {
            (true, _) => &mut self.gone_held,
            (_, true) => &mut self.gone_ready,
            _ => &mut self.gone_live,
        }
    }

    fn put(&mut self, job: &Job, is_new: bool, held: Option<Token>) {
        if is_final(&job.life.state) {
            self.done.add(job);
        } else {
            self.live.add(job, is_new, held);
        }
    }

    /// Takes leases that jobs of this part had before.
    fn leave(&mut self, mut tokens: Vec<Token>) {
        tokens.sort_unstable();
        for run in tokens.chunk_by(|one, next| next.0 == one.0 + 1) {
            self.left.0.extend(run.first().map(|token| signed(token.0)));
            self.left.1.extend(run.last().map(|token| signed(token.0)));
        }
    }

    /// Brings together what is ready or was, lane by lane.
    fn gather(&mut self, jobs: &[(&Seq, &JobWrite)], together: usize) {
        let (mut before, mut now) = (BTreeMap::new(), BTreeMap::new());
        for (seq, write) in jobs {
            let job = write.job();
            let places: &mut BTreeMap<_, Vec<Seq>> = match write {
                JobWrite::Insert(job) if is_plain(job) => &mut now,
                write if write.was_ready() => &mut before,
                _ => continue,
            };
            places.entry(ready_runs::place(job)).or_default().push(**seq);
        }
        now.retain(|_, seqs| seqs.len() >= together);
        let n = &mut self.new;
        for ((plain, lane), rank) in n.plain.iter_mut().zip(&n.lane).zip(&n.rank) {
            *plain &= !now.contains_key(&(*lane, *rank));
        }
        self.ready = (Runs::whole(before), Runs::in_rows(now));
    }

    pub fn values(&self) -> Vec<Value<'_>> {
        let (n, l, d) = (&self.new, &self.live, &self.done);
        let mut values: Vec<Value<'_>> = vec![
            column(&self.gone_jobs, Type::INT8_ARRAY),
            column(&self.gone_live, Type::INT8_ARRAY),
            column(&self.gone_ready, Type::INT8_ARRAY),
            column(&self.gone_held, Type::INT8_ARRAY),
            column(&self.gone_done, Type::INT8_ARRAY),
        ];
        values.extend(self.ready.0.values());
        values.extend(self.ready.1.values());
        values.extend::<[Value<'_>; 2]>([
            column(&self.left.0, Type::INT8_ARRAY),
            column(&self.left.1, Type::INT8_ARRAY),
        ]);
        values.extend(self.runs.values());
        let columns: [Value<'_>; 37] = [
            column(&n.seq, Type::INT8_ARRAY),
            column(&n.id, Type::UUID_ARRAY),
            column(&n.lane, Type::INT8_ARRAY),
            column(&n.rank, Type::INT8_ARRAY),
            column(&n.created_at, Type::INT8_ARRAY),
            column(&n.spec, Type::TEXT_ARRAY),
            column(&n.plain, Type::BOOL_ARRAY),
            column(&l.is_new, Type::BOOL_ARRAY),
            column(&l.held, Type::INT8_ARRAY),
            column(&l.seq, Type::INT8_ARRAY),
            column(&l.lane, Type::INT8_ARRAY),
            column(&l.rank, Type::INT8_ARRAY),
            column(&l.stage, Type::INT2_ARRAY),
            column(&l.due, Type::INT8_ARRAY),
            column(&l.deadline, Type::INT8_ARRAY),
            column(&l.prerequisites, Type::INT4_ARRAY),
            column(&l.attempt, Type::INT4_ARRAY),
            column(&l.earlier, Type::INT4_ARRAY),
            column(&l.crashes, Type::INT4_ARRAY),
            column(&l.queued_at, Type::INT8_ARRAY),
            column(&l.started_at, Type::INT8_ARRAY),
            column(&l.worker, Type::UUID_ARRAY),
            column(&l.token, Type::INT8_ARRAY),
            column(&l.start_by, Type::INT8_ARRAY),
            column(&l.flags, Type::INT2_ARRAY),
            column(&l.outcome, Type::TEXT_ARRAY),
            column(&d.seq, Type::INT8_ARRAY),
            column(&d.lane, Type::INT8_ARRAY),
            column(&d.stage, Type::INT2_ARRAY),
            column(&d.ended_at, Type::INT8_ARRAY),
            column(&d.attempt, Type::INT4_ARRAY),
            column(&d.earlier, Type::INT4_ARRAY),
            column(&d.crashes, Type::INT4_ARRAY),
            column(&d.queued_at, Type::INT8_ARRAY),
            column(&d.started_at, Type::INT8_ARRAY),
            column(&d.flags, Type::INT2_ARRAY),
            column(&d.outcome, Type::TEXT_ARRAY),
        ];
        values.extend(columns);
        values
    }
}

impl NewColumns {
    fn add(&mut self, job: &Job, plain: bool) {
        self.plain.push(plain);
        self.seq.push(signed(job.seq.0));
        self.id.push(id_of(job.id()));
        self.lane.push(signed(job.lane.0));
        self.rank.push(rank_of(job.spec.priority));
        self.created_at.push(job.life.created_at.as_micros());
        self.spec.push(text(&*job.spec));
    }
}

impl LiveColumns {
    fn add(&mut self, job: &Job, is_new: bool, held: Option<Token>) {
        let life = &job.life;
        let (stage, due) = stage(&life.state);
        let lease = life.state.lease();
        let prerequisites = match life.state {
            State::Queued(Wait::Prerequisites(left)) => left,
            _ => 0,
        };
        self.is_new.push(is_new);
        self.held.push(held.map(|token| signed(token.0)));
        self.seq.push(signed(job.seq.0));
        self.lane.push(signed(job.lane.0));
        self.rank.push(rank_of(job.spec.priority));
        self.stage.push(stage);
        self.due.push(due);
        self.deadline.push(life.deadline(&job.spec).map(Timestamp::as_micros));
        self.prerequisites.push(small(prerequisites));
        self.attempt.push(small(life.attempt));
        self.earlier.push(small(life.earlier_attempts));
        self.crashes.push(small(life.crashes));
        self.queued_at.push(life.queued_at.as_micros());
        self.started_at.push(life.started_at.map(Timestamp::as_micros));
        self.worker.push(lease.map(|lease| Uuid::from_u128(lease.worker.as_u128())));
        self.token.push(lease.map(|lease| signed(lease.token.0)));
        self.start_by.push(lease.and_then(|lease| lease.start_by).map(Timestamp::as_micros));
        self.flags.push(flags(job));
        self.outcome.push(outcome(life));
    }
}

impl DoneColumns {
    fn add(&mut self, job: &Job) {
        let life = &job.life;
        self.seq.push(signed(job.seq.0));
        self.lane.push(signed(job.lane.0));
        self.stage.push(stage(&life.state).0);
        self.ended_at.push(life.finished_at.unwrap_or_default().as_micros());
        self.attempt.push(small(life.attempt));
        self.earlier.push(small(life.earlier_attempts));
        self.crashes.push(small(life.crashes));
        self.queued_at.push(life.queued_at.as_micros());
        self.started_at.push(life.started_at.map(Timestamp::as_micros));
        self.flags.push(flags(job));
        self.outcome.push(outcome(life));
    }
}
