//! Histories of the board: what may happen to it, drawn at random.

use std::time::Duration;

use proptest::prelude::*;
use runcue_core::service::KeyLimits;
use runcue_core::{
    GroupName, JobId, JobSpec, Key, LaneKey, QueueName, Rate, ServiceName, ServiceSpec, TaskName,
    Use,
};

pub const SERVICES: [&str; 2] = ["api", "db"];
pub const WINDOW: u64 = 10;
pub const KEY_WINDOW: u64 = 7;

/// One of the few lanes a history plays with.
#[derive(Clone, Debug)]
pub struct LaneChoice {
    pub queue: u8,
    pub group: u8,
    pub task: u8,
    pub key: u8,
    pub services: u8,
}

impl LaneChoice {
    pub fn key(&self) -> LaneKey {
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

pub fn group_name(n: u8) -> Option<GroupName> {
    [None, Some("a"), Some("b"), Some("c")][usize::from(n)]
        .map(|name| GroupName::new(name).unwrap())
}

#[derive(Clone, Debug)]
pub struct Limits {
    pub slots: Option<u32>,
    pub rate: Option<u64>,
    pub key_slots: Option<u32>,
    pub key_rate: Option<u64>,
    pub breaker: bool,
    pub paused: bool,
}

impl Limits {
    /// Lengths of windows and whether there are limits per key stay as they are over a history, so that
    /// what is remembered is what was used.
    pub fn spec(&self, service: usize) -> ServiceSpec {
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
pub enum Step {
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
pub fn limits() -> impl Strategy<Value = Limits> {
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

pub fn step() -> impl Strategy<Value = Step> {
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

pub fn lane_choice() -> impl Strategy<Value = LaneChoice> {
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
