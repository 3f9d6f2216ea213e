//! Whose turn it is, by looking at every job: groups by turn, heads by priority and age, services by
//! recounting, the rest of a rate kept for the costly job, and probes first.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use runcue_core::{
    ClaimFilter, EventKind, GroupName, JobId, LaneKey, Lease, ServiceName, StateWord, Timestamp,
    Wait,
};

use super::reference::{Circuit, Reference, Service, Start};

/// What is left of a rate is kept for this job.
#[derive(Clone, Debug, PartialEq)]
pub struct KeptFor {
    pub job: JobId,
    pub until: Timestamp,
}

type Kept = BTreeMap<ServiceName, KeptFor>;

/// A job that may be picked, or none, and what is kept after that.
pub type Answer = (Option<usize>, Kept);

#[derive(Debug, PartialEq)]
enum Fit {
    Yes,
    Closed,
    KeyHasNoRoom,
    /// With the instant at which each has room.
    TooShort(Vec<(ServiceName, Timestamp)>),
}

impl Reference {
    /// What a claim does first: times that have come, holds that are over.
    pub fn begin_claim(&mut self) {
        let now = self.now;
        self.fire();
        for n in 0..self.jobs.len() {
            if matches!(self.wait(n), Wait::Until(at) if at <= now) {
                self.jobs[n].due = None;
            }
        }
        self.end_overdue();
        self.free(|kept| kept.until > now);
    }

    fn ready(&self) -> Vec<usize> {
        let waits =
            |n: &usize| self.jobs[*n].state == StateWord::Queued && self.wait(*n) == Wait::Turn;
        let mut ready: Vec<usize> = (0..self.jobs.len()).filter(waits).collect();
        ready.sort_by_key(|n| self.rank(*n));
        ready
    }

    /// Priority, then age: jobs are listed in the order of their submission.
    fn rank(&self, n: usize) -> (Reverse<i32>, usize) {
        (Reverse(self.jobs[n].spec.priority), n)
    }

    fn lane(&self, n: usize) -> LaneKey {
        LaneKey::of(&self.jobs[n].spec)
    }

    /// The best of each lane, best first.
    fn heads(&self, highest: Option<i32>) -> Vec<usize> {
        let mut heads: Vec<usize> = Vec::new();
        for n in self.ready() {
            let wanted = highest.is_none_or(|max| self.jobs[n].spec.priority <= max);
            if wanted && !heads.iter().any(|head| self.lane(*head) == self.lane(n)) {
                heads.push(n);
            }
        }
        heads
    }

    fn uses(&self, n: usize) -> impl Iterator<Item = (&Service, u64)> {
        let used = self.jobs[n].spec.services.iter();
        used.map(|used| (&self.services[&used.service], used.units))
    }

    fn fit(&self, n: usize) -> Fit {
        let mut rates = Vec::new();
        for (service, units) in self.uses(n) {
            let name = &service.spec.name;
            let full =
                service.spec.max_concurrent.is_some_and(|max| self.in_use(name, None) >= max);
            let circuit = match service.circuit {
                Circuit::Closed(_) => true,
                Circuit::Open(until) => until <= self.now,
                Circuit::Probing(_) => false,
            };
            if service.spec.paused || service.held_until > self.now || full || !circuit {
                return Fit::Closed;
            }
            for rate in &service.spec.rates {
                let used = self.used(service, rate.window, None);
                if used >= rate.limit {
                    return Fit::Closed;
                }
                if used + units > rate.limit {
                    rates.push((
                        name.clone(),
                        self.room_at(service, rate.window, rate.limit - units),
                    ));
                }
            }
        }
        match (self.key_has_no_room(n), rates.is_empty()) {
            (true, _) => Fit::KeyHasNoRoom,
            (_, true) => Fit::Yes,
            _ => Fit::TooShort(rates),
        }
    }

    fn key_has_no_room(&self, n: usize) -> bool {
        let spec = &self.jobs[n].spec;
        spec.key.is_some()
            && self.uses(n).any(|(service, _)| {
                let slots = Self::key_limits(service).and_then(|limits| limits.max_concurrent);
                slots.is_some_and(|max| self.in_use(&service.spec.name, Some(spec)) >= max)
            })
    }

    /// The first instant at which no more than so many units count.
    fn room_at(&self, service: &Service, window: Duration, most: u64) -> Timestamp {
        let ends = service.starts.iter().map(|start| start.at.plus(window));
        let counted = |at: Timestamp| -> u64 {
            service.starts.iter().filter(|s| s.at.plus(window) > at).map(|s| s.units).sum()
        };
        ends.filter(|at| *at > self.now && counted(*at) <= most).min().unwrap()
    }

    fn wants_probe(&self, service: &Service) -> bool {
        matches!(service.circuit, Circuit::Open(until) if until <= self.now)
    }

    /// Others take nothing of what is kept, but for better jobs of the same group and the same lane.
    fn is_kept_for_another(&self, n: usize, kept: &Kept) -> bool {
        self.jobs[n].spec.services.iter().filter_map(|used| kept.get(&used.service)).any(|kept| {
            let other = self.find(kept.job).unwrap();
            let same_group = self.jobs[other].spec.group == self.jobs[n].spec.group;
            let better = same_group && self.rank(n) < self.rank(other);
            self.lane(other) != self.lane(n) && !better
        })
    }

    /// The jobs that may be picked next. Jobs that were passed over in this claim may or may not be looked
    /// at again in it.
    pub fn next(&self, filter: &ClaimFilter, passed: &HashSet<JobId>) -> Vec<Answer> {
        let each = self.kept.iter().flat_map(|kept| self.next_with(filter, passed, kept));
        each.collect()
    }

    /// Nothing is kept for the jobs that this says no to.
    pub fn free(&mut self, stays: impl Fn(&KeptFor) -> bool) {
        for kept in &mut self.kept {
            kept.retain(|_, kept| stays(kept));
        }
    }

    fn next_with(&self, filter: &ClaimFilter, passed: &HashSet<JobId>, kept: &Kept) -> Vec<Answer> {
        let mut heads = self.heads(filter.max_priority);
        heads.retain(|n| {
            let paused = self.groups.get(&self.jobs[*n].spec.group).is_some_and(|g| g.paused);
            !paused && filter.wants(&self.lane(*n))
        });
        for service in self.services.values().filter(|service| self.wants_probe(service)) {
            let best = heads.iter().find(|n| {
                self.uses(**n).any(|(used, _)| used.spec.name == service.spec.name)
                    && self.fit(**n) == Fit::Yes
                    && !self.is_kept_for_another(**n, kept)
            });
            if let Some(best) = best {
                return vec![(Some(*best), kept.clone())];
            }
        }
        let mut answers = Vec::new();
        for order in self.orders() {
            let mut in_order = heads.clone();
            in_order.sort_by_key(|n| order.iter().position(|g| *g == self.jobs[*n].spec.group));
            answers.push(self.first_of(&in_order, kept));
            in_order.retain(|n| !passed.contains(&self.jobs[*n].spec.id));
            answers.push(self.first_of(&in_order, kept));
        }
        answers.dedup();
        answers
    }

    /// Groups by turn; ties go to the oldest head. A head whose key has no room may or may not count.
    fn orders(&self) -> Vec<Vec<Option<GroupName>>> {
        let heads = self.heads(None);
        let mut orders: Vec<Vec<(u64, usize, Option<GroupName>)>> = vec![Vec::new()];
        for (name, group) in &self.groups {
            let own: Vec<usize> =
                heads.iter().copied().filter(|n| self.jobs[*n].spec.group == *name).collect();
            let certain = own.iter().position(|n| !self.key_has_no_room(*n));
            let possible = &own[..certain.map_or(own.len(), |n| n + 1)];
            if !possible.is_empty() {
                let with = |order: &Vec<_>, n: &usize| {
                    let mut order = order.clone();
                    order.push((group.turn, *n, name.clone()));
                    order
                };
                orders = orders
                    .iter()
                    .flat_map(|order| possible.iter().map(move |n| with(order, n)))
                    .collect();
            }
        }
        for order in &mut orders {
            order.sort();
        }
        orders.into_iter().map(|order| order.into_iter().map(|place| place.2).collect()).collect()
    }

    fn first_of(&self, order: &[usize], kept: &Kept) -> Answer {
        let mut kept = kept.clone();
        for n in order {
            let fit = self.fit(*n);
            let probed = self.uses(*n).any(|(service, _)| self.wants_probe(service));
            if probed || fit == Fit::Closed || self.is_kept_for_another(*n, &kept) {
                continue;
            }
            match fit {
                Fit::Yes => return (Some(*n), kept),
                Fit::KeyHasNoRoom | Fit::Closed => {}
                Fit::TooShort(rates) => {
                    for (name, until) in rates {
                        let until = until.plus(Duration::from_secs(1));
                        kept.insert(name, KeptFor { job: self.jobs[*n].spec.id, until });
                    }
                }
            }
        }
        (None, kept)
    }

    /// The job is the claimer's.
    pub fn take(&mut self, n: usize, lease: Lease, start: bool) {
        self.served = lease.token.0;
        let spec = self.jobs[n].spec.clone();
        let at = lease.start_by.unwrap_or(self.now);
        self.groups.entry(spec.group.clone()).or_default().turn = self.served * 2 + 1;
        self.free(|kept| kept.job != spec.id);
        for used in &spec.services {
            let wants = self.wants_probe(&self.services[&used.service]);
            let service = self.services.get_mut(&used.service).unwrap();
            service.starts.push(Start { at, job: spec.clone(), units: used.units });
            if wants {
                service.circuit = Circuit::Probing(spec.id);
            }
        }
        let job = &mut self.jobs[n];
        job.attempt += 1;
        job.started_at = self.now;
        job.state = if start { StateWord::Running } else { StateWord::Leased };
        job.lease = Some(lease);
        job.story.push(if start { EventKind::Started } else { EventKind::Leased });
    }
}
