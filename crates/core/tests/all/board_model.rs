//! The naive model of the board: a plain list of jobs, every decision by looking at every job and by
//! recounting every window from the whole history of starts.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use runcue_core::breaker::Breaker;
use runcue_core::{
    ClaimFilter, GroupName, JobId, Key, LaneKey, QueueName, Rate, Seq, ServiceName, ServiceSpec,
    Timestamp,
};

#[derive(Clone, Debug)]
pub struct Start {
    pub at: Timestamp,
    pub key: Option<Key>,
    pub units: u64,
}

#[derive(Clone, Debug)]
pub struct Job {
    pub seq: Seq,
    pub lane: usize,
    pub priority: i32,
    pub units: u64,
    pub running: bool,
}

#[derive(Clone, Debug)]
pub struct Service {
    pub spec: ServiceSpec,
    pub starts: Vec<Start>,
    pub breaker: Breaker,
    pub held_until: Timestamp,
}

/// Everything, in the open.
pub struct Model {
    pub lanes: Vec<LaneKey>,
    pub jobs: Vec<Job>,
    pub services: Vec<Service>,
    pub turns: HashMap<Option<GroupName>, u64>,
    pub paused_groups: HashSet<Option<GroupName>>,
    pub paused_queues: HashSet<QueueName>,
    /// What may be kept: all that agrees with the picks so far.
    pub kept: Vec<KeptRates>,
    pub served: u64,
    pub now: Timestamp,
}

/// The job that the rest of a service's rate is kept for, and until when.
#[derive(Clone, Debug, PartialEq)]
pub struct KeptFor {
    pub seq: Seq,
    pub lane: usize,
    pub priority: i32,
    pub until: Timestamp,
}

/// By service.
pub type KeptRates = BTreeMap<usize, KeptFor>;

/// A pick, or none, and what is kept for jobs before it.
pub type Answer = (Option<Seq>, KeptRates);

#[derive(Debug, PartialEq)]
pub enum Fit {
    Yes,
    KeyHasNoRoom,
    /// With the instant at which each rate has room.
    RateTooShort(Vec<(usize, Timestamp)>),
    No,
}

impl Model {
    pub fn ready(&self, lane: usize) -> Vec<&Job> {
        let mut jobs: Vec<_> =
            self.jobs.iter().filter(|job| job.lane == lane && !job.running).collect();
        jobs.sort_by_key(|job| (Reverse(job.priority), job.seq));
        jobs
    }

    pub fn uses(&self, job: &Job) -> Vec<usize> {
        let named = |name: &ServiceName| self.services.iter().position(|s| s.spec.name == *name);
        self.lanes[job.lane].services.iter().filter_map(named).collect()
    }

    pub fn in_use(&self, service: usize, key: Option<&Key>) -> u32 {
        let running = self.jobs.iter().filter(|job| job.running);
        let same = running.filter(|job| {
            self.uses(job).contains(&service)
                && (key.is_none() || self.lanes[job.lane].key.as_ref() == key)
        });
        u32::try_from(same.count()).unwrap()
    }

    pub fn room(&self, service: usize, key: Option<&Key>, rate: Rate, now: Timestamp) -> u64 {
        let counted = self.services[service].starts.iter().filter(|start| {
            start.at.plus(rate.window) > now && (key.is_none() || start.key.as_ref() == key)
        });
        rate.limit.saturating_sub(counted.map(|start| start.units).sum())
    }

    pub fn fit(&self, job: &Job) -> Fit {
        let mut short = Vec::new();
        for n in self.uses(job) {
            let service = &self.services[n];
            let closed = match service.breaker {
                Breaker::Open { until } => until > self.now,
                Breaker::HalfOpen { .. } => true,
                Breaker::Closed { .. } => false,
            };
            let full = service.spec.max_concurrent.is_some_and(|max| self.in_use(n, None) >= max);
            let empty =
                service.spec.rates.iter().any(|rate| self.room(n, None, *rate, self.now) == 0);
            if service.spec.paused || service.held_until > self.now || closed || full || empty {
                return Fit::No;
            }
            let rate = service.spec.rates[0];
            if self.room(n, None, rate, self.now) < job.units {
                short.push((n, self.room_at(n, rate, job.units)));
            }
        }
        match (self.key_has_no_room(job), short.is_empty()) {
            (true, _) => Fit::KeyHasNoRoom,
            (_, true) => Fit::Yes,
            _ => Fit::RateTooShort(short),
        }
    }

    pub fn key_has_no_room(&self, job: &Job) -> bool {
        let Some(key) = self.lanes[job.lane].key.as_ref() else { return false };
        self.uses(job).into_iter().any(|n| {
            let Some(limits) = &self.services[n].spec.per_key else { return false };
            limits.max_concurrent.is_some_and(|max| self.in_use(n, Some(key)) >= max)
                || limits.rates.iter().any(|r| self.room(n, Some(key), *r, self.now) < job.units)
        })
    }

    /// The first instant at which enough of what was used no longer counts.
    pub fn room_at(&self, service: usize, rate: Rate, units: u64) -> Timestamp {
        let ends = self.services[service].starts.iter().map(|start| start.at.plus(rate.window));
        let enough = |at: &Timestamp| self.room(service, None, rate, *at) >= units;
        ends.filter(|at| *at > self.now).filter(enough).min().unwrap()
    }

    pub fn is_kept_for_another(&self, job: &Job, kept: &KeptRates) -> bool {
        self.uses(job).iter().filter_map(|n| kept.get(n)).any(|kept| {
            let group = |lane: usize| &self.lanes[lane].group;
            let better = group(kept.lane) == group(job.lane)
                && (Reverse(job.priority), job.seq) < (Reverse(kept.priority), kept.seq);
            kept.lane != job.lane && !better
        })
    }

    pub fn wants_probe(&self, service: usize) -> bool {
        self.services[service].breaker.wants_probe(self.now)
    }

    /// The head of each lane that this claim wants and that no pause keeps out, best first.
    pub fn heads(&self, filter: &ClaimFilter) -> Vec<&Job> {
        let mut heads = Vec::new();
        for (n, key) in self.lanes.iter().enumerate() {
            let max = filter.max_priority.unwrap_or(i32::MAX);
            let head = self.ready(n).into_iter().find(|job| job.priority <= max);
            let open = filter.wants(key)
                && !self.paused_queues.contains(&key.queue)
                && !self.paused_groups.contains(&key.group);
            heads.extend(head.filter(|_| open));
        }
        heads.sort_by_key(|job| (Reverse(job.priority), job.seq));
        heads
    }

    /// The jobs that may be picked next. More than one only where a tie between groups is decided by
    /// whether lanes whose key has no room were looked at before.
    /// Jobs that were passed over in this claim may or may not be looked at again in it.
    pub fn next(&self, filter: &ClaimFilter, passed: &HashSet<Seq>) -> Vec<Answer> {
        let each = self.kept.iter().flat_map(|kept| self.next_with(filter, passed, kept));
        each.collect()
    }

    /// Nothing is kept for the jobs that this says no to.
    pub fn free(&mut self, stays: impl Fn(&KeptFor) -> bool) {
        for kept in &mut self.kept {
            kept.retain(|_, kept| stays(kept));
        }
    }

    fn next_with(
        &self,
        filter: &ClaimFilter,
        passed: &HashSet<Seq>,
        kept: &KeptRates,
    ) -> Vec<Answer> {
        let heads = self.heads(filter);
        for service in (0..self.services.len()).filter(|n| self.wants_probe(*n)) {
            let waits = |job: &&&Job| {
                self.uses(job).contains(&service)
                    && self.fit(job) == Fit::Yes
                    && !self.is_kept_for_another(job, kept)
            };
            if let Some(best) = heads.iter().find(waits) {
                return vec![(Some(best.seq), kept.clone())];
            }
        }
        let mut answers = Vec::new();
        for order in self.orders() {
            let place = |job: &&Job| order.iter().position(|g| *g == self.lanes[job.lane].group);
            let mut in_order = heads.clone();
            in_order.sort_by_key(place);
            answers.push(self.first_in(&in_order, kept));
            in_order.retain(|job| !passed.contains(&job.seq));
            answers.push(self.first_in(&in_order, kept));
        }
        answers
    }

    /// Every order of the groups that the rule allows: by turn, then by the oldest head.
    pub fn orders(&self) -> Vec<Vec<Option<GroupName>>> {
        let mut orders = vec![Vec::new()];
        let everything: Vec<&Job> =
            (0..self.lanes.len()).filter_map(|n| self.ready(n).into_iter().next()).collect();
        for name in self.turns.keys() {
            let mut own: Vec<&&Job> =
                everything.iter().filter(|job| self.lanes[job.lane].group == *name).collect();
            own.sort_by_key(|job| (Reverse(job.priority), job.seq));
            let certain = own.iter().position(|job| !self.key_has_no_room(job));
            own.truncate(certain.map_or(own.len(), |n| n + 1));
            if own.is_empty() {
                continue;
            }
            let place = |job: &Job| (self.turns[name], job.seq, name.clone());
            orders = orders
                .iter()
                .flat_map(|order| {
                    own.iter().map(|job| order.iter().cloned().chain([place(job)]).collect())
                })
                .collect();
        }
        for order in &mut orders {
            order.sort_by_key(|(turn, seq, _)| (*turn, *seq));
        }
        let names = |order: Vec<(u64, Seq, _)>| order.into_iter().map(|place| place.2).collect();
        orders.into_iter().map(names).collect()
    }

    /// The first job that may run in this order of the groups; what jobs before it are short of is kept.
    pub fn first_in(&self, order: &[&Job], kept: &KeptRates) -> Answer {
        let mut kept = kept.clone();
        for job in order {
            let probed = self.uses(job).iter().any(|n| self.wants_probe(*n));
            let fit = self.fit(job);
            if probed || fit == Fit::No || self.is_kept_for_another(job, &kept) {
                continue;
            }
            match fit {
                Fit::Yes => return (Some(job.seq), kept),
                Fit::RateTooShort(short) => keep(&mut kept, job, &short),
                Fit::KeyHasNoRoom | Fit::No => {}
            }
        }
        (None, kept)
    }

    pub fn take(&mut self, seq: Seq) {
        self.served += 1;
        let n = self.jobs.iter().position(|job| job.seq == seq).unwrap();
        self.jobs[n].running = true;
        self.free(|kept| kept.seq != seq);
        let job = self.jobs[n].clone();
        let lane = self.lanes[job.lane].clone();
        self.turns.insert(lane.group.clone(), self.served * 2 + 1);
        for service in self.uses(&job) {
            let (at, key) = (self.now, lane.key.clone());
            self.services[service].starts.push(Start { at, key, units: job.units });
            if self.wants_probe(service) {
                self.services[service].breaker.probe(id_of(seq));
            }
        }
    }
}

pub fn keep(kept: &mut KeptRates, job: &Job, short: &[(usize, Timestamp)]) {
    for (service, until) in short {
        let (seq, lane, priority) = (job.seq, job.lane, job.priority);
        let until = until.plus(Duration::from_secs(1));
        kept.insert(*service, KeptFor { seq, lane, priority, until });
    }
}

pub fn id_of(seq: Seq) -> JobId {
    JobId::from_u128(u128::from(seq.0))
}
