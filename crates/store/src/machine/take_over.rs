//! take_over: a piece of another store's queue, as it is. Nothing is decided here: a job keeps the life it has,
//! whatever limits say, and no event tells of it.

use super::*;
use crate::moving::{Definitions, Moved, MovedJob};

/// Where a job stands between two lives: it belongs to no list, so that whatever follows is written in full.
const BETWEEN: State = State::Queued(Wait::Prerequisites(1));

impl<T: Tables> Machine<T> {
    /// Takes a piece over. Answers how many of its jobs are new here.
    pub fn take_over(&mut self, now: Timestamp, moved: &Moved) -> Result<u64> {
        if let Some(definitions) = &moved.definitions {
            self.take_definitions(now, definitions)?;
        }
        let ids: Vec<JobId> = moved.jobs.iter().map(|one| one.job.id()).collect();
        let known = self.tables.known(&ids, true)?;
        // Keys that have changed hands since are free before their new holders come.
        for one in moved.jobs.iter().filter(|one| !one.holds_key) {
            if let Some(seq) = known.get(&one.job.id())
                && one.job.spec.idempotency_key.is_some()
            {
                self.tables.drop_key(*seq)?;
            }
        }
        let mut held = false;
        for one in &moved.jobs {
            held |= self.take_job(one, known.get(&one.job.id()).copied())?;
        }
        self.take_ties(&moved.jobs)?;
        if held {
            // Slots in use are counted from the leases there are.
            self.rebuild(now)?;
        }
        Ok((ids.len() - known.len()) as u64)
    }

    /// Answers whether slots of services are concerned.
    fn take_job(&mut self, one: &MovedJob, known: Option<Seq>) -> Result<bool> {
        self.news.any = true;
        let job = &one.job;
        let old = match known {
            Some(seq) => self.tables.job(seq)?,
            None => None,
        };
        let (mut here, before) = match old {
            Some(old) => {
                self.held.remove(&job.id());
                self.fetched.take(old.seq);
                let before = old.life.state.clone();
                let mut here = Job { life: job.life.clone(), ..old };
                here.life.state = BETWEEN;
                self.tables.save(&here, &before)?;
                (here, Some(before))
            }
            None => (self.insert_moved(one)?, None),
        };
        if job.life.state.lease().is_some() {
            here.life.state = State::Queued(Wait::Turn);
            self.tables.save(&here, &BETWEEN)?;
            here.life.state = job.life.state.clone();
            self.tables.save(&here, &State::Queued(Wait::Turn))?;
        } else {
            here.life.state = job.life.state.clone();
            self.tables.save(&here, &BETWEEN)?;
        }
        let life = &here.life;
        if before.is_some()
            || life.progress.is_some()
            || life.result.is_some()
            || life.result_key.is_some()
        {
            self.tables.save_progress(&here)?;
        }
        self.count(&here.spec, before.as_ref(), Some(&here.life.state));
        self.move_on_board(&here, before.as_ref().unwrap_or(&BETWEEN));
        for chunk in &one.output {
            self.tables.append_log(here.seq, chunk)?;
        }
        let was_held = before.is_some_and(|state| state.lease().is_some());
        Ok(was_held || here.life.state.lease().is_some())
    }

    fn insert_moved(&mut self, one: &MovedJob) -> Result<Job> {
        let spec = one.job.spec.clone();
        let lane = self.lane_of(&spec)?;
        let seq = Seq(self.counters.seq.0 + 1);
        self.counters.seq = seq;
        let mut here = Job { seq, lane, spec, life: one.job.life.clone(), has_dependents: false };
        here.life.state = BETWEEN;
        self.tables.insert(std::slice::from_ref(&here))?;
        if here.spec.idempotency_key.is_some() && !one.holds_key {
            self.tables.drop_key(seq)?;
        }
        Ok(here)
    }

    /// Whichever of two tied jobs comes second ties them.
    fn take_ties(&mut self, jobs: &[MovedJob]) -> Result<()> {
        for one in jobs {
            if one.prerequisites.is_empty() && one.earlier_dependents.is_empty() {
                continue;
            }
            let Some(seq) = self.tables.seq_of(one.job.id())? else { continue };
            for id in &one.prerequisites {
                if let Some(prerequisite) = self.tables.seq_of(*id)? {
                    self.tables.tie(prerequisite, seq)?;
                    self.fetched.take(prerequisite);
                }
            }
            for id in &one.earlier_dependents {
                if let Some(dependent) = self.tables.seq_of(*id)? {
                    self.tables.tie(seq, dependent)?;
                    self.fetched.take(seq);
                }
            }
        }
        Ok(())
    }

    fn take_definitions(&mut self, now: Timestamp, from: &Definitions) -> Result<()> {
        self.news.any = true;
        for row in &from.services {
            self.board.define_service(row.spec.clone());
            if let Some(service) = self.board.service_mut(&row.spec.name) {
                service.breaker = row.breaker;
                service.held_until = row.held_until;
            }
            self.news.services.insert(row.spec.name.clone());
        }
        for from in &from.queues {
            self.board.set_queue_paused(&from.name, from.paused);
            let queue = self.queue(&from.name);
            queue.max_queued = from.max_queued;
            queue.on_full = from.on_full;
            queue.paused = from.paused;
            self.news.queues.insert(from.name.clone());
        }
        for from in &from.groups {
            self.change_group(&from.name).paused = from.paused;
            self.board.set_group(from.name.as_ref(), from.paused, from.turn);
        }
        for task in &from.tasks {
            self.tables.put_task(task)?;
        }
        for schedule in &from.schedules {
            self.tables.put_schedule(schedule)?;
        }
        self.firing = None;
        self.board.set_served(self.board.served().max(from.served));
        self.counters.last_served_group.clone_from(&from.last_served_group);
        self.take_usage(now, &from.usage)?;
        self.rebuild(now)
    }

    /// Uses that are there already are not counted twice.
    fn take_usage(&mut self, now: Timestamp, usage: &[UsageRow]) -> Result<()> {
        self.flush()?;
        let there = in_all(self.tables.changes(0, now)?.usage);
        let wanted = in_all(usage.iter().cloned());
        let missing = wanted.into_iter().filter_map(|(entry, units)| {
            let left = units - there.get(&entry).copied().unwrap_or(0);
            let (service, key, at) = entry;
            (left > 0).then_some(UsageRow { service, key, at, units: left })
        });
        let missing: Vec<UsageRow> = missing.collect();
        if missing.is_empty() { Ok(()) } else { self.tables.note_usage(&missing) }
    }
}
