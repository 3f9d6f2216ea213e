//! claim: hands out jobs that may run now, with their services, in one step.

use std::collections::HashSet;

use super::*;
use crate::reply::Claimed;
use crate::request::ClaimRequest;
use crate::tables::Due;
use runcue_core::Lease;
use runcue_core::board::{Pass, Pick, units_of};
use runcue_core::transition::lease_limit;

impl<T: Tables> Machine<T> {
    /// Hands out up to `max` jobs.
    pub fn claim(&mut self, now: Timestamp, request: &ClaimRequest) -> Result<Claimed> {
        let firing = self.fire(now)?.wake;
        self.promote(now)?;
        self.end_overdue(now)?;
        self.fill_hungry()?;
        let mut pass = self.board.begin(now, &request.filter, request.offers.as_ref());
        let mut claimed = Claimed::default();
        match &request.only {
            Some(ids) => self.claim_only(now, request, ids, &mut pass, &mut claimed)?,
            None => self.claim_best(now, request, &mut pass, &mut claimed)?,
        }
        let delayed = self.tables.next_due(Due::Delayed)?;
        claimed.wake = pass.wake().into_iter().chain(delayed).chain(firing).min();
        Ok(claimed)
    }

    fn claim_best(
        &mut self,
        now: Timestamp,
        request: &ClaimRequest,
        pass: &mut Pass,
        claimed: &mut Claimed,
    ) -> Result<()> {
        if let Some(max) = request.filter.max_priority {
            self.look_below(pass, max)?;
        }
        while claimed.jobs.len() < request.max {
            let Some(pick) = self.board.next(pass) else { break };
            let wanted = request.max - claimed.jobs.len();
            match self.take(now, request, &pick, wanted)? {
                Some(taken) => claimed.jobs.push(taken),
                // Another process has it: what is known of this lane is out of date.
                None => self.board.forget_heads(pick.lane),
            }
            if claimed.jobs.len() < request.max {
                self.fill_hungry()?;
            }
            if let Some(max) = request.filter.max_priority {
                self.look_below(pass, max)?;
            }
        }
        Ok(())
    }

    /// For a claim with a highest priority: what stands at or below it in lanes whose head is above it.
    fn look_below(&mut self, pass: &mut Pass, max: i32) -> Result<()> {
        let mut instead = Map::default();
        for lane in self.board.lanes_above(max) {
            let (heads, _) = self.ready_of(lane, Some(max), 1, &HashSet::new())?;
            instead.insert(lane, heads.into_iter().next());
        }
        self.board.use_instead(pass, instead);
        Ok(())
    }

    fn claim_only(
        &mut self,
        now: Timestamp,
        request: &ClaimRequest,
        ids: &[JobId],
        pass: &mut Pass,
        claimed: &mut Claimed,
    ) -> Result<()> {
        for id in ids {
            if claimed.jobs.len() >= request.max {
                break;
            }
            let Some(job) = self.load(*id)? else { continue };
            let wanted = request.filter.max_priority.is_none_or(|max| job.spec.priority <= max);
            let ready = job.life.state == State::Queued(Wait::Turn);
            let Some(key) = self.lane_key(job.lane)? else { continue };
            if !wanted || !ready || !self.board.admits(pass, job.lane) {
                continue;
            }
            let units = units_of(&job.spec.services);
            if !self.board.blocks(&key, units.as_deref(), now).is_empty() {
                continue;
            }
            let pick = Pick { lane: job.lane, head: Head::of(job.seq, &job.spec) };
            claimed.jobs.extend(self.take(now, request, &pick, 1)?);
            self.fill_hungry()?;
        }
        Ok(())
    }

    /// The job of a pick. If it has to be read and is not the only one wanted, so are some that may be next.
    fn picked(&mut self, seq: Seq, wanted: usize) -> Result<Option<Job>> {
        if let Some(job) = self.fetched.take(seq) {
            return Ok(Some(job));
        }
        if T::NEIGHBOURS && wanted > 1 {
            let mut near = self.tables.ready_from(seq, self.fetched.ahead())?;
            let own = near.iter().position(|job| job.seq == seq).map(|n| near.swap_remove(n));
            self.fetched.keep_near(near);
            if own.is_some() {
                return Ok(own);
            }
        }
        self.tables.job(seq)
    }

    /// Makes a pick the claimer's own, if it still waits for its turn. So many jobs are wanted in all.
    fn take(
        &mut self,
        now: Timestamp,
        request: &ClaimRequest,
        pick: &Pick,
        wanted: usize,
    ) -> Result<Option<(Job, Lease)>> {
        let Some(mut job) = self.picked(pick.head.seq, wanted)? else { return Ok(None) };
        if job.life.state != State::Queued(Wait::Turn) {
            return Ok(None);
        }
        let token = self.board.next_token();
        let rated = |used: &runcue_core::Use| {
            self.board.service(&used.service).is_some_and(|s| s.spec().is_rated())
        };
        let start_by = job.spec.services.iter().any(rated).then(|| now.plus(request.start_within));
        let until = now.plus(request.lease).min(lease_limit(&job.spec, Some(now)));
        let lease =
            Lease { job: job.id(), attempt: 0, worker: request.worker, token, until, start_by };
        if self.apply(now, &mut job, Input::Claim { lease, start: request.start }, None)?.is_err() {
            return Ok(None);
        }
        let used_at = start_by.unwrap_or(now);
        self.board.taken(pick, job.id(), token, used_at, now);
        self.note_taken(&job, used_at);
        let Some(lease) = job.life.state.lease().cloned() else { return Ok(None) };
        self.held.insert(job.id(), job.clone());
        Ok(Some((job, lease)))
    }

    fn note_taken(&mut self, job: &Job, at: Timestamp) {
        self.counters.last_served_group.clone_from(&job.spec.group);
        for used in &job.spec.services {
            let entry = (used.service.clone(), job.spec.key.clone(), at);
            *self.news.usage.entry(entry).or_default() += signed(used.units);
            let half_open = self.board.service(&used.service).is_some_and(|service| {
                matches!(service.breaker, runcue_core::breaker::Breaker::HalfOpen { probe } if probe == job.id())
            });
            if half_open {
                self.news.services.insert(used.service.clone());
            }
        }
    }

    /// The start that was counted at an instant never was.
    pub(super) fn take_use_back(&mut self, spec: &JobSpec, at: Timestamp) {
        self.board.take_back(spec, at);
        for used in &spec.services {
            let entry = (used.service.clone(), spec.key.clone(), at);
            *self.news.usage.entry(entry).or_default() -= signed(used.units);
        }
    }

    /// Delayed jobs whose time has come wait for their turn now.
    pub(super) fn promote(&mut self, now: Timestamp) -> Result<()> {
        loop {
            let due = self.tables.due(Due::Delayed, now, CHUNK)?;
            for seq in &due {
                if let Some(mut job) = self.tables.job(*seq)? {
                    let _ = self.apply(now, &mut job, Input::Promote, None)?;
                }
            }
            if due.len() < CHUNK {
                return Ok(());
            }
        }
    }
}
