//! Which job is next. The board holds what a claim looks at: the lanes with their heads, the groups in
//! the order of their turns, and the services. It never holds the backlog.
//!
//! - **Rotation.** The group that has waited longest for its turn is served first. A group that was
//!   empty joins the rotation behind everyone who was already waiting, and before everyone served
//!   later, so neither a flood of jobs nor a flood of new groups starves anyone. Ties go to the oldest
//!   head.
//! - **Inside a group** the best head wins: priority, then age.
//! - **Gates.** Lanes that differ only in group and key share a gate: one look at their services serves
//!   all of them. Lanes whose key has no room are parked until it has.
//! - **No overtaking by size.** When the job whose turn it is needs more of a rate than is left, the rest
//!   is kept for it: nobody behind it takes it in the meantime.
//!
//! A store drives it: [`Board::begin`] a pass, ask [`Board::next`] for picks, and confirm each with
//! [`Board::taken`] once the row is really its own.

mod lanes;
mod pass;
mod ranks;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};
use std::sync::Arc;

use self::ranks::Ranks;
use crate::breaker::{Change, Verdict};
use crate::ids::{GroupName, JobId, Key, QueueName, ServiceName, Token};
use crate::job::{JobSpec, Seq};
use crate::lane::{LaneId, LaneKey};
use crate::map::Map;
use crate::service::{Block, ServiceSpec, ServiceState, Use};
use crate::time::Timestamp;

pub use pass::{Pass, Pick};

/// How many heads of a lane are kept at hand.
pub const HEADS: usize = 128;

/// A job that waits for nothing but its turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// Higher first.
    pub priority: i32,
    /// Then older first.
    pub seq: Seq,
    /// Units of each of the lane's services; nothing means one of each.
    pub units: Option<Arc<[u64]>>,
}

impl Head {
    /// The head a job makes.
    pub fn of(seq: Seq, spec: &JobSpec) -> Self {
        Self { priority: spec.priority, seq, units: units_of(&spec.services) }
    }

    fn rank(&self) -> (Reverse<i32>, Seq) {
        (Reverse(self.priority), self.seq)
    }

    fn units(&self, service: usize) -> u64 {
        self.units.as_ref().and_then(|units| units.get(service).copied()).unwrap_or(1)
    }
}

/// The units of a job's services, or nothing if it is one of each.
pub fn units_of(services: &[Use]) -> Option<Arc<[u64]>> {
    let costly = services.iter().any(|used| used.units != 1);
    costly.then(|| services.iter().map(|used| used.units).collect())
}

type Rank = (Reverse<i32>, Seq, LaneId);
type Place = (u64, Seq, usize);

#[derive(Debug)]
struct Gate {
    key: LaneKey,
    services: Vec<usize>,
}

#[derive(Debug)]
struct Lane {
    key: Arc<LaneKey>,
    gate: usize,
    group: usize,
    heads: VecDeque<Head>,
    /// The store holds ready jobs behind the heads at hand.
    more: bool,
    parked: bool,
    /// The rank under which its group knows it.
    rank: Option<Rank>,
}

#[derive(Debug, Default)]
struct Group {
    name: Option<GroupName>,
    paused: bool,
    turn: u64,
    ranks: Ranks,
    place: Option<Place>,
}

/// The state of scheduling.
#[derive(Debug, Default)]
pub struct Board {
    services: Vec<ServiceState>,
    service_index: Map<ServiceName, usize>,
    gates: Vec<Gate>,
    gate_index: Map<String, usize>,
    lanes: Map<LaneId, Lane>,
    groups: Vec<Group>,
    group_index: Map<Option<GroupName>, usize>,
    order: BTreeSet<Place>,
    hungry: Vec<LaneId>,
    parked_by_key: Map<Key, Vec<LaneId>>,
    parked_until: BTreeMap<Timestamp, Vec<LaneId>>,
    paused_queues: HashSet<QueueName>,
    /// What is left of a service's rates is kept for a costly job.
    kept: Map<usize, Kept>,
    /// How often something that was kept became free.
    freed: u64,
    /// Lanes with jobs that can never run under the present limits.
    skipped: HashSet<LaneId>,
    /// The instant of the latest pass.
    latest: Timestamp,
    served: Token,
}

/// The job that the rest of a rate is kept for. If it does not come by then, because no worker wants it
/// any more, the rest is free again.
#[derive(Clone, Copy, Debug)]
struct Kept {
    lane: LaneId,
    rank: (Reverse<i32>, Seq),
    until: Timestamp,
}

impl Board {
    /// The number of the latest claim.
    pub fn served(&self) -> Token {
        self.served
    }

    /// Takes over the number of the latest claim from the store.
    pub fn set_served(&mut self, token: Token) {
        self.served = self.served.max(token);
    }

    /// The number for the next claim.
    pub fn next_token(&mut self) -> Token {
        self.served.0 += 1;
        self.served
    }

    /// Every service, in the order of their first definition.
    pub fn services(&self) -> &[ServiceState] {
        &self.services
    }

    /// One service.
    pub fn service(&self, name: &ServiceName) -> Option<&ServiceState> {
        self.service_index.get(name).map(|index| &self.services[*index])
    }

    /// One service, to take over what a store knows of it.
    pub fn service_mut(&mut self, name: &ServiceName) -> Option<&mut ServiceState> {
        self.service_index.get(name).map(|index| &mut self.services[*index])
    }

    /// Defines a service, or changes its limits while it is in use.
    pub fn define_service(&mut self, spec: ServiceSpec) {
        match self.service_index.get(&spec.name) {
            Some(index) => self.services[*index].redefine(spec),
            None => {
                self.service_index.insert(spec.name.clone(), self.services.len());
                self.services.push(ServiceState::new(spec));
                self.relink_gates();
            }
        }
        self.kept.clear();
        for lane in std::mem::take(&mut self.skipped) {
            self.forget_heads(lane);
        }
        self.unpark_all();
    }

    /// Pauses or resumes a queue.
    pub fn set_queue_paused(&mut self, queue: &QueueName, paused: bool) {
        if paused {
            self.paused_queues.insert(queue.clone());
        } else {
            self.paused_queues.remove(queue);
        }
    }

    /// Whether a queue is paused.
    pub fn is_queue_paused(&self, queue: &QueueName) -> bool {
        self.paused_queues.contains(queue)
    }

    /// Takes over what a store knows of a group.
    pub fn set_group(&mut self, name: Option<&GroupName>, paused: bool, turn: u64) {
        let index = self.group(name);
        let group = &mut self.groups[index];
        group.paused = paused;
        group.turn = turn;
        self.place(index);
    }

    /// Whether a group is paused.
    pub fn is_group_paused(&self, name: Option<&GroupName>) -> bool {
        self.find_group(name).is_some_and(|group| group.paused)
    }

    /// The turn of a group, to be written down.
    pub fn turn(&self, name: Option<&GroupName>) -> u64 {
        self.find_group(name).map_or(0, |group| group.turn)
    }

    /// A group that had nothing queued gets its first job: it joins the rotation.
    pub fn activate(&mut self, name: Option<&GroupName>) {
        let index = self.group(name);
        let joined = self.served.0 * 2;
        let group = &mut self.groups[index];
        group.turn = group.turn.max(joined);
        self.place(index);
    }

    /// What keeps jobs of a lane out that need these units, by service.
    pub fn blocks(
        &self,
        key: &LaneKey,
        units: Option<&[u64]>,
        now: Timestamp,
    ) -> Vec<(ServiceName, Block)> {
        let units_at = |n: usize| units.and_then(|units| units.get(n).copied()).unwrap_or(1);
        let each = key.services.iter().enumerate();
        each.filter_map(|(n, name)| {
            let service = self.service(name)?;
            let block = service.blocked(key.key.as_ref(), units_at(n), now)?;
            Some((name.clone(), block))
        })
        .collect()
    }

    /// Takes a job's services: one slot of each, and its units as used at an instant. A service whose
    /// breaker wants a probe gets this job as one.
    pub fn acquire(
        &mut self,
        job: JobId,
        spec_key: &LaneKey,
        units: Option<&[u64]>,
        at: Timestamp,
        now: Timestamp,
    ) {
        for (n, name) in spec_key.services.iter().enumerate() {
            let amount = units.and_then(|units| units.get(n).copied()).unwrap_or(1);
            if let Some(service) = self.service_mut(name) {
                service.acquire(spec_key.key.as_ref(), amount, at);
                if service.breaker.wants_probe(now) {
                    service.breaker.probe(job);
                }
            }
        }
    }

    /// Gives a job's services back and takes in what its end says about them. Names the services whose
    /// breaker changed.
    pub fn release(
        &mut self,
        job: JobId,
        spec: &JobSpec,
        verdict: Verdict,
        blamed: Option<&ServiceName>,
        now: Timestamp,
    ) -> Vec<(ServiceName, Change)> {
        let mut changes = Vec::new();
        for used in &spec.services {
            let verdict = match blamed {
                Some(name) if *name != used.service && verdict == Verdict::Bad => Verdict::None,
                _ => verdict,
            };
            if let Some(service) = self.service_mut(&used.service) {
                service.release(spec.key.as_ref(), now);
                if let Some(change) = service.judge(job, verdict, now) {
                    changes.push((used.service.clone(), change));
                }
            }
        }
        if let Some(key) = &spec.key {
            self.unpark_key(key);
        }
        changes
    }

    /// Takes back the units of a start that was counted at an instant and never was.
    pub fn take_back(&mut self, spec: &JobSpec, at: Timestamp) {
        for used in &spec.services {
            if let Some(service) = self.service_mut(&used.service) {
                service.take_back(spec.key.as_ref(), used.units, at);
            }
        }
    }

    /// Holds a service back until an instant.
    pub fn hold(&mut self, name: &ServiceName, until: Timestamp) {
        if let Some(service) = self.service_mut(name) {
            service.held_until = service.held_until.max(until);
        }
    }

    /// Whether a job of a lane that needs these units could run if nobody else did.
    pub fn could_ever_run(&self, key: &LaneKey, units: Option<&[u64]>) -> bool {
        let Some(units) = units else { return true };
        key.services.iter().zip(units).all(|(name, units)| {
            let most = self.service(name).and_then(|service| service.spec().most_units());
            most.is_none_or(|most| *units <= most)
        })
    }

    fn relink_gates(&mut self) {
        for gate in &mut self.gates {
            gate.services = link(&self.service_index, &gate.key);
        }
    }

    fn gate(&mut self, key: &LaneKey) -> usize {
        let gate = key.gate();
        let text = gate.canonical();
        if let Some(index) = self.gate_index.get(&text) {
            return *index;
        }
        let services = link(&self.service_index, &gate);
        self.gate_index.insert(text, self.gates.len());
        self.gates.push(Gate { key: gate, services });
        self.gates.len() - 1
    }

    fn group(&mut self, name: Option<&GroupName>) -> usize {
        if let Some(index) = self.group_index.get(&name.cloned()) {
            return *index;
        }
        self.group_index.insert(name.cloned(), self.groups.len());
        self.groups.push(Group { name: name.cloned(), ..Group::default() });
        self.groups.len() - 1
    }

    fn find_group(&self, name: Option<&GroupName>) -> Option<&Group> {
        self.group_index.get(&name.cloned()).map(|index| &self.groups[*index])
    }
}

/// Services are linked by position; one that is not defined limits nothing.
fn link(index: &Map<ServiceName, usize>, key: &LaneKey) -> Vec<usize> {
    key.services.iter().filter_map(|name| index.get(name).copied()).collect()
}

#[cfg(test)]
mod tests;
