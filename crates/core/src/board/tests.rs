//! The board against a naive model: a plain list of jobs, every decision by looking at every job and by
//! recounting every window from the whole history of starts.

use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::filter::ClaimFilter;
use crate::service::{KeyLimits, Rate};
use crate::{TaskName, Use};

const SERVICES: [&str; 2] = ["api", "db"];
const WINDOW: u64 = 10;
const KEY_WINDOW: u64 = 7;
/// What a test store gives when the board asks for heads; small, so that asking is common.
const ASKED: usize = 3;

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

/// One of the few lanes a history plays with.
#[derive(Clone, Debug)]
struct LaneChoice {
    queue: u8,
    group: u8,
    task: u8,
    key: u8,
    services: u8,
}

impl LaneChoice {
    fn key(&self) -> LaneKey {
        let mut spec = JobSpec::new(
            JobId::from_u128(0),
            TaskName::new(["build", "test"][usize::from(self.task)]).unwrap(),
        );
        spec.queue = QueueName::new(["q", "r"][usize::from(self.queue)]).unwrap();
        spec.group = group_name(self.group);
        spec.key =
            [None, Some("k"), Some("l")][usize::from(self.key)].map(|k| Key::new(k).unwrap());
        let used = SERVICES.iter().enumerate().filter(|(n, _)| self.services & (1 << n) != 0);
        spec.services = used.map(|(_, name)| Use::one(ServiceName::new(*name).unwrap())).collect();
        LaneKey::of(&spec)
    }
}

fn group_name(n: u8) -> Option<GroupName> {
    [None, Some("a"), Some("b"), Some("c")][usize::from(n)]
        .map(|name| GroupName::new(name).unwrap())
}

#[derive(Clone, Debug)]
struct Limits {
    slots: Option<u32>,
    rate: Option<u64>,
    key_slots: Option<u32>,
    key_rate: Option<u64>,
    breaker: bool,
    paused: bool,
}

impl Limits {
    /// Lengths of windows and whether there are limits per key stay as they are over a history, so that
    /// what is remembered is what was used.
    fn spec(&self, service: usize) -> ServiceSpec {
        let rate = |limit, seconds| Rate { limit, window: Duration::from_secs(seconds) };
        let rates = vec![rate(self.rate.unwrap_or(1_000), WINDOW)];
        let key_rates = vec![rate(self.key_rate.unwrap_or(1_000), KEY_WINDOW)];
        ServiceSpec {
            max_concurrent: self.slots,
            rates,
            per_key: Some(KeyLimits { max_concurrent: self.key_slots, rates: key_rates }),
            circuit_threshold: self.breaker.then_some(2),
            circuit_timeout: Duration::from_secs(5),
            paused: self.paused,
            ..ServiceSpec::new(ServiceName::new(SERVICES[service]).unwrap())
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Push { lane: usize, priority: i32, units: u64, times: usize },
    Remove { nth: usize },
    Claim { max: usize, task: Option<u8>, max_priority: Option<i32> },
    Release { nth: usize, verdict: u8 },
    Define { service: usize, limits: Limits },
    PauseGroup { group: u8, paused: bool },
    PauseQueue { queue: u8, paused: bool },
    Hold { service: usize, millis: i64 },
    Forget { lane: usize },
    Wait { millis: i64 },
}

/// Limits; jobs of up to four units fit into a rate of four.
fn limits() -> impl Strategy<Value = Limits> {
    (
        prop::option::of(1_u32..4),
        prop::option::of(4_u64..9),
        prop::option::of(1_u32..3),
        prop::option::of(4_u64..6),
        any::<bool>(),
        prop::bool::weighted(0.05),
    )
        .prop_map(|(slots, rate, key_slots, key_rate, breaker, paused)| Limits {
            slots,
            rate,
            key_slots,
            key_rate,
            breaker,
            paused,
        })
}

fn step() -> impl Strategy<Value = Step> {
    let push =
        (0..8_usize, -1..2_i32, 1_u64..5, prop_oneof![9 => Just(1_usize), 1 => 2..160_usize])
            .prop_map(|(lane, priority, units, times)| Step::Push { lane, priority, units, times });
    let claim =
        (1..6_usize, prop::option::weighted(0.2, 0..2_u8), prop::option::weighted(0.15, -1..2_i32))
            .prop_map(|(max, task, max_priority)| Step::Claim { max, task, max_priority });
    prop_oneof![
        6 => push,
        1 => any::<usize>().prop_map(|nth| Step::Remove { nth }),
        6 => claim,
        5 => (any::<usize>(), 0..3_u8).prop_map(|(nth, verdict)| Step::Release { nth, verdict }),
        1 => (0..2_usize, limits()).prop_map(|(service, limits)| Step::Define { service, limits }),
        1 => (0..4_u8, any::<bool>()).prop_map(|(group, paused)| Step::PauseGroup { group, paused }),
        1 => (0..2_u8, any::<bool>()).prop_map(|(queue, paused)| Step::PauseQueue { queue, paused }),
        1 => (0..2_usize, 0..4_000_i64).prop_map(|(service, millis)| Step::Hold { service, millis }),
        1 => (0..8_usize).prop_map(|lane| Step::Forget { lane }),
        4 => (1..6_000_i64).prop_map(|millis| Step::Wait { millis }),
    ]
}

fn lane_choice() -> impl Strategy<Value = LaneChoice> {
    (prop::bool::weighted(0.2), 0..4_u8, 0..2_u8, 0..3_u8, 0..4_u8).prop_map(
        |(queue, group, task, key, services)| LaneChoice {
            queue: queue.into(),
            group,
            task,
            key,
            services,
        },
    )
}

#[derive(Clone, Debug)]
struct Start {
    at: Timestamp,
    key: Option<Key>,
    units: u64,
}

#[derive(Clone, Debug)]
struct Job {
    seq: Seq,
    lane: usize,
    priority: i32,
    units: u64,
    running: bool,
}

#[derive(Clone, Debug)]
struct Service {
    spec: ServiceSpec,
    starts: Vec<Start>,
    breaker: crate::breaker::Breaker,
    held_until: Timestamp,
}

/// Everything, in the open.
struct Model {
    lanes: Vec<LaneKey>,
    jobs: Vec<Job>,
    services: Vec<Service>,
    turns: HashMap<Option<GroupName>, u64>,
    paused_groups: HashSet<Option<GroupName>>,
    paused_queues: HashSet<QueueName>,
    kept: KeptRates,
    served: u64,
    now: Timestamp,
}

/// The job that the rest of a service's rate is kept for, and until when.
#[derive(Clone, Debug, PartialEq)]
struct KeptFor {
    seq: Seq,
    lane: usize,
    priority: i32,
    until: Timestamp,
}

/// By service.
type KeptRates = BTreeMap<usize, KeptFor>;

/// A pick, or none, and what is kept for jobs before it.
type Answer = (Option<Seq>, KeptRates);

#[derive(Debug, PartialEq)]
enum Fit {
    Yes,
    KeyHasNoRoom,
    /// With the instant at which each rate has room.
    RateTooShort(Vec<(usize, Timestamp)>),
    No,
}

impl Model {
    fn ready(&self, lane: usize) -> Vec<&Job> {
        let mut jobs: Vec<_> =
            self.jobs.iter().filter(|job| job.lane == lane && !job.running).collect();
        jobs.sort_by_key(|job| (Reverse(job.priority), job.seq));
        jobs
    }

    fn uses(&self, job: &Job) -> Vec<usize> {
        let named = |name: &ServiceName| self.services.iter().position(|s| s.spec.name == *name);
        self.lanes[job.lane].services.iter().filter_map(named).collect()
    }

    fn in_use(&self, service: usize, key: Option<&Key>) -> u32 {
        let running = self.jobs.iter().filter(|job| job.running);
        let same = running.filter(|job| {
            self.uses(job).contains(&service)
                && (key.is_none() || self.lanes[job.lane].key.as_ref() == key)
        });
        u32::try_from(same.count()).unwrap()
    }

    fn room(&self, service: usize, key: Option<&Key>, rate: Rate, now: Timestamp) -> u64 {
        let counted = self.services[service].starts.iter().filter(|start| {
            start.at.plus(rate.window) > now && (key.is_none() || start.key.as_ref() == key)
        });
        rate.limit.saturating_sub(counted.map(|start| start.units).sum())
    }

    fn fit(&self, job: &Job) -> Fit {
        let key = self.lanes[job.lane].key.as_ref();
        let (mut key_full, mut short) = (false, Vec::new());
        for n in self.uses(job) {
            let service = &self.services[n];
            let closed = match service.breaker {
                crate::breaker::Breaker::Open { until } => until > self.now,
                crate::breaker::Breaker::HalfOpen { .. } => true,
                crate::breaker::Breaker::Closed { .. } => false,
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
            if let (Some(limits), Some(key)) = (&service.spec.per_key, key) {
                key_full |=
                    limits.max_concurrent.is_some_and(|max| self.in_use(n, Some(key)) >= max);
                key_full |=
                    limits.rates.iter().any(|r| self.room(n, Some(key), *r, self.now) < job.units);
            }
        }
        match (key_full, short.is_empty()) {
            (true, _) => Fit::KeyHasNoRoom,
            (_, true) => Fit::Yes,
            _ => Fit::RateTooShort(short),
        }
    }

    /// The first instant at which enough of what was used no longer counts.
    fn room_at(&self, service: usize, rate: Rate, units: u64) -> Timestamp {
        let ends = self.services[service].starts.iter().map(|start| start.at.plus(rate.window));
        let enough = |at: &Timestamp| self.room(service, None, rate, *at) >= units;
        ends.filter(|at| *at > self.now).filter(enough).min().unwrap()
    }

    fn is_kept_for_another(&self, job: &Job, kept: &KeptRates) -> bool {
        self.uses(job).iter().filter_map(|n| kept.get(n)).any(|kept| {
            let group = |lane: usize| &self.lanes[lane].group;
            let better = group(kept.lane) == group(job.lane)
                && (Reverse(job.priority), job.seq) < (Reverse(kept.priority), kept.seq);
            kept.lane != job.lane && !better
        })
    }

    fn wants_probe(&self, service: usize) -> bool {
        self.services[service].breaker.wants_probe(self.now)
    }

    /// The head of each lane that this claim wants and that no pause keeps out, best first.
    fn heads(&self, filter: &ClaimFilter) -> Vec<&Job> {
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
    fn next(&self, filter: &ClaimFilter, passed: &HashSet<Seq>) -> Vec<Answer> {
        let kept = &self.kept;
        let heads = self.heads(filter);
        for service in (0..self.services.len()).filter(|n| self.wants_probe(*n)) {
            let waits =
                |job: &&&Job| self.uses(job).contains(&service) && self.fit(job) == Fit::Yes;
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
    fn orders(&self) -> Vec<Vec<Option<GroupName>>> {
        let mut orders = vec![Vec::new()];
        let everything: Vec<&Job> =
            (0..self.lanes.len()).filter_map(|n| self.ready(n).into_iter().next()).collect();
        for name in self.turns.keys() {
            let mut own: Vec<&&Job> =
                everything.iter().filter(|job| self.lanes[job.lane].group == *name).collect();
            own.sort_by_key(|job| (Reverse(job.priority), job.seq));
            let certain = own.iter().position(|job| self.fit(job) != Fit::KeyHasNoRoom);
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
    fn first_in(&self, order: &[&Job], kept: &KeptRates) -> Answer {
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

    fn take(&mut self, seq: Seq) {
        self.served += 1;
        let n = self.jobs.iter().position(|job| job.seq == seq).unwrap();
        self.jobs[n].running = true;
        self.kept.retain(|_, kept| kept.seq != seq);
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

fn keep(kept: &mut KeptRates, job: &Job, short: &[(usize, Timestamp)]) {
    for (service, until) in short {
        let (seq, lane, priority) = (job.seq, job.lane, job.priority);
        let until = until.plus(Duration::from_secs(1));
        kept.insert(*service, KeptFor { seq, lane, priority, until });
    }
}

fn id_of(seq: Seq) -> JobId {
    JobId::from_u128(u128::from(seq.0))
}

/// The board, the model, and the store that feeds the board.
struct Table {
    board: Board,
    model: Model,
    next_seq: u64,
}

impl Table {
    fn new(lanes: &[LaneChoice], limits: &[Limits; 2]) -> Self {
        let mut keys: Vec<LaneKey> = Vec::new();
        for key in lanes.iter().map(LaneChoice::key) {
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
        let model = Model {
            lanes: keys,
            jobs: Vec::new(),
            services: Vec::new(),
            turns: HashMap::new(),
            paused_groups: HashSet::new(),
            paused_queues: HashSet::new(),
            kept: BTreeMap::new(),
            served: 0,
            now: at(1_000_000),
        };
        let mut table = Self { board: Board::default(), model, next_seq: 1 };
        for (n, limits) in limits.iter().enumerate() {
            table.define(limits.spec(n));
        }
        for (n, key) in table.model.lanes.clone().iter().enumerate() {
            table.board.add_lane(lane_id(n), key, false);
        }
        table
    }

    fn define(&mut self, spec: ServiceSpec) {
        self.model.kept.clear();
        self.board.define_service(spec.clone());
        let breaker = crate::breaker::Breaker::default();
        match self.model.services.iter_mut().find(|service| service.spec.name == spec.name) {
            Some(service) => {
                if spec.circuit_threshold.is_none() {
                    service.breaker = breaker;
                }
                service.spec = spec;
            }
            None => self.model.services.push(Service {
                spec,
                starts: Vec::new(),
                breaker,
                held_until: Timestamp::ZERO,
            }),
        }
    }

    fn head(&self, job: &Job) -> Head {
        let services = self.model.lanes[job.lane].services.len();
        let units = (job.units > 1 && services > 0).then(|| vec![job.units; services].into());
        Head { priority: job.priority, seq: job.seq, units }
    }

    fn feed(&mut self) {
        for id in self.board.take_hungry() {
            let lane = usize::try_from(id.0).unwrap() - 1;
            let heads =
                self.model.ready(lane).into_iter().take(ASKED).map(|j| self.head(j)).collect();
            self.board.fill(id, heads, ASKED);
        }
    }

    fn apply(&mut self, step: &Step) {
        match step {
            Step::Push { lane, priority, units, times } => {
                for _ in 0..*times {
                    self.push(lane % self.model.lanes.len(), *priority, *units);
                }
            }
            Step::Remove { nth } => {
                if let Some(n) = self.pick(*nth, false) {
                    let job = self.model.jobs.remove(n);
                    self.model.kept.retain(|_, kept| kept.seq != job.seq);
                    self.board.remove(lane_id(job.lane), job.seq);
                }
            }
            Step::Claim { max, task, max_priority } => self.claim(*max, *task, *max_priority),
            Step::Release { nth, verdict } => self.release(*nth, *verdict),
            Step::Define { service, limits } => self.define(limits.spec(*service)),
            Step::PauseGroup { group, paused } => {
                let name = group_name(*group);
                let turn = self.model.turns.get(&name).copied().unwrap_or(0);
                self.board.set_group(name.as_ref(), *paused, turn);
                self.model.turns.entry(name.clone()).or_insert(0);
                self.model.paused_groups.remove(&name);
                self.model.paused_groups.extend(paused.then_some(name));
            }
            Step::PauseQueue { queue, paused } => {
                let name = QueueName::new(["q", "r"][usize::from(*queue)]).unwrap();
                self.board.set_queue_paused(&name, *paused);
                self.model.paused_queues.remove(&name);
                self.model.paused_queues.extend(paused.then_some(name));
            }
            Step::Hold { service, millis } => {
                let until = at(self.model.now.as_millis() + millis);
                let service = &mut self.model.services[*service];
                self.board.hold(&service.spec.name, until);
                service.held_until = service.held_until.max(until);
            }
            Step::Forget { lane } => {
                self.board.forget_heads(lane_id(lane % self.model.lanes.len()))
            }
            Step::Wait { millis } => self.model.now = at(self.model.now.as_millis() + millis),
        }
    }

    fn push(&mut self, lane: usize, priority: i32, units: u64) {
        let group = self.model.lanes[lane].group.clone();
        let of_group = |job: &Job| !job.running && self.model.lanes[job.lane].group == group;
        if !self.model.jobs.iter().any(of_group) {
            self.board.activate(group.as_ref());
            let joined = self.model.served * 2;
            let turn = self.model.turns.entry(group).or_insert(0);
            *turn = joined.max(*turn);
        }
        let job = Job { seq: Seq(self.next_seq), lane, priority, units, running: false };
        self.next_seq += 1;
        self.board.push(lane_id(lane), self.head(&job));
        self.model.jobs.push(job);
    }

    fn pick(&self, nth: usize, running: bool) -> Option<usize> {
        let jobs = self.model.jobs.iter().enumerate();
        let which: Vec<usize> =
            jobs.filter(|(_, j)| j.running == running).map(|(n, _)| n).collect();
        (!which.is_empty()).then(|| which[nth % which.len()])
    }

    fn claim(&mut self, max: usize, task: Option<u8>, max_priority: Option<i32>) {
        let tasks = task.map(|n| TaskName::new(["build", "test"][usize::from(n)]).unwrap());
        let filter =
            ClaimFilter { tasks: tasks.into_iter().collect(), max_priority, ..Default::default() };
        let now = self.model.now;
        self.feed();
        let mut pass = self.board.begin(now, &filter, None);
        self.model.kept.retain(|_, kept| kept.until > now);
        let mut passed = HashSet::new();
        for n in 0..max {
            self.feed();
            if let Some(priority) = max_priority {
                self.look_below(&mut pass, priority);
            }
            let pick = self.board.next(&mut pass);
            self.board.check_invariants();
            let allowed = self.model.next(&filter, &passed);
            let seq = pick.as_ref().map(|pick| pick.head.seq);
            let Some((_, kept)) = allowed.iter().find(|(allowed, _)| *allowed == seq) else {
                panic!("pick {n}: {seq:?}, but {allowed:?} is next");
            };
            self.model.kept.clone_from(kept);
            passed.extend(kept.values().map(|kept| kept.seq));
            let (Some(pick), Some(seq)) = (pick, seq) else { break };
            let token = self.board.next_token();
            self.board.taken(&pick, id_of(seq), token, now, now);
            self.model.take(seq);
        }
    }

    fn look_below(&self, pass: &mut Pass, priority: i32) {
        let below = |lane: usize| {
            let found = self.model.ready(lane).into_iter().find(|job| job.priority <= priority);
            found.map(|job| self.head(job))
        };
        let lanes = self.board.lanes_above(priority);
        let each = lanes.into_iter().map(|id| (id, below(usize::try_from(id.0).unwrap() - 1)));
        self.board.use_instead(pass, each.collect());
    }

    fn release(&mut self, nth: usize, verdict: u8) {
        let Some(n) = self.pick(nth, true) else { return };
        let job = self.model.jobs.remove(n);
        let verdict = [Verdict::Good, Verdict::Bad, Verdict::None][usize::from(verdict)];
        let key = self.model.lanes[job.lane].clone();
        let mut spec = JobSpec::new(id_of(job.seq), key.task.clone());
        spec.services = key.services.iter().cloned().map(Use::one).collect();
        spec.key.clone_from(&key.key);
        self.board.release(id_of(job.seq), &spec, verdict, None, self.model.now);
        for service in self.model.uses(&job) {
            let now = self.model.now;
            let Service { spec, breaker, .. } = &mut self.model.services[service];
            if let Some(threshold) = spec.circuit_threshold {
                breaker.judge(id_of(job.seq), verdict, threshold, spec.circuit_timeout, now);
            }
        }
    }
}

fn lane_id(n: usize) -> LaneId {
    LaneId(n as u64 + 1)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_pick_is_the_one_a_look_at_every_job_would_make(
        lanes in prop::collection::vec(lane_choice(), 1..8),
        limits in [limits(), limits()],
        steps in prop::collection::vec(step(), 1..80),
    ) {
        play(&lanes, &limits, &steps);
    }
}

fn play(lanes: &[LaneChoice], limits: &[Limits; 2], steps: &[Step]) {
    let mut table = Table::new(lanes, limits);
    for step in steps {
        table.apply(step);
        table.board.check_invariants();
    }
    for (n, service) in table.board.services().iter().enumerate() {
        assert_eq!(service.in_use(), table.model.in_use(n, None));
    }
}
