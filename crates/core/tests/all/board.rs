//! The board against its naive model, over random histories.

use std::collections::{BTreeMap, HashMap, HashSet};

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use runcue_core::board::{Board, Head, Pass};
use runcue_core::breaker::{Breaker, Verdict};
use runcue_core::{
    ClaimFilter, JobSpec, LaneId, LaneKey, QueueName, Seq, ServiceSpec, TaskName, Timestamp, Use,
};

use crate::board_history::{LaneChoice, Limits, Step, group_name, lane_choice, limits, step};
use crate::board_model::{Job, Model, Service, id_of};

/// What a test store gives when the board asks for heads; small, so that asking is common.
const ASKED: usize = 3;

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
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
            kept: vec![BTreeMap::new()],
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
        self.model.free(|_| false);
        self.board.define_service(spec.clone());
        let breaker = Breaker::default();
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
                    self.model.free(|kept| kept.seq != job.seq);
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
        self.model.free(|kept| kept.until > now);
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
            assert!(
                allowed.iter().any(|(allowed, _)| *allowed == seq),
                "pick {n}: {seq:?}, but {allowed:?} is next"
            );
            let agreeing = allowed.into_iter().filter(|(allowed, _)| *allowed == seq);
            self.model.kept = agreeing.map(|(_, kept)| kept).collect();
            self.model.kept.dedup();
            let kept = self.model.kept.iter().flat_map(BTreeMap::values);
            passed.extend(kept.map(|kept| kept.seq));
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
    #![proptest_config(ProptestConfig { cases: 400, rng_seed: RngSeed::Fixed(1), failure_persistence: None, ..ProptestConfig::default() })]

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
