//! Services: limited resources. Owns their definition, what is in use of them, and whether one more job
//! may use them now. All of a job's services are asked first and taken together by [`crate::board`].

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::breaker::{Breaker, Change, Verdict};
use crate::ids::{JobId, Key, ServiceName};
use crate::map::Map;
use crate::time::{Timestamp, seconds};
use crate::window::Window;

/// No service is held back longer than this, whatever a handler was told.
const LONGEST_HOLD: Duration = Duration::from_secs(24 * 3600);

/// So many units in a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rate {
    /// Units.
    #[serde(rename = "rate_limit")]
    pub limit: u64,
    /// The span.
    #[serde(rename = "rate_window", with = "seconds")]
    pub window: Duration,
}

/// Limits that each key has to itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct KeyLimits {
    /// Jobs at once.
    pub max_concurrent: Option<u32>,
    /// Rates, all of which hold.
    pub rates: Vec<Rate>,
}

/// The definition of a service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceSpec {
    /// Its name.
    pub name: ServiceName,
    /// Jobs at once.
    #[serde(default)]
    pub max_concurrent: Option<u32>,
    /// Rates, all of which hold.
    #[serde(default)]
    pub rates: Vec<Rate>,
    /// Limits that each key has to itself, besides those of all.
    #[serde(default)]
    pub per_key: Option<KeyLimits>,
    /// Failures in a row that open its breaker; without it there is none.
    #[serde(default)]
    pub circuit_threshold: Option<u32>,
    /// How long the breaker stays open.
    #[serde(default = "default_circuit_timeout", with = "seconds")]
    pub circuit_timeout: Duration,
    /// Nothing may use it.
    #[serde(default)]
    pub paused: bool,
}

fn default_circuit_timeout() -> Duration {
    Duration::from_secs(300)
}

impl ServiceSpec {
    /// A service without limits.
    pub fn new(name: ServiceName) -> Self {
        Self {
            name,
            max_concurrent: None,
            rates: Vec::new(),
            per_key: None,
            circuit_threshold: None,
            circuit_timeout: default_circuit_timeout(),
            paused: false,
        }
    }

    /// Whether starts are counted over time, so that it matters when exactly a job starts.
    pub fn is_rated(&self) -> bool {
        !self.rates.is_empty()
            || self.per_key.as_ref().is_some_and(|limits| !limits.rates.is_empty())
    }

    /// The longest span over which uses must be remembered.
    pub fn memory(&self) -> Duration {
        let own = self.rates.iter().map(|rate| rate.window);
        let per_key =
            self.per_key.iter().flat_map(|limits| limits.rates.iter().map(|rate| rate.window));
        own.chain(per_key).max().unwrap_or_default()
    }

    /// The most units one job can ever be granted, if there is a bound.
    pub fn most_units(&self) -> Option<u64> {
        let own = self.rates.iter();
        let per_key = self.per_key.iter().flat_map(|limits| limits.rates.iter());
        own.chain(per_key).map(|rate| rate.limit).min()
    }
}

/// A job's use of a service.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Use {
    /// The service.
    pub service: ServiceName,
    /// How many units of its rates one attempt uses.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub units: u64,
}

fn one() -> u64 {
    1
}

fn is_one(units: &u64) -> bool {
    *units == 1
}

impl Use {
    /// One unit of a service.
    pub fn one(service: ServiceName) -> Self {
        Self { service, units: 1 }
    }
}

/// Why a service lets nothing through, or not this job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Block {
    /// Paused by a person.
    Paused,
    /// A handler was told to come back later.
    Held {
        /// When.
        until: Timestamp,
    },
    /// The breaker is open.
    CircuitOpen {
        /// When a probe may go.
        until: Timestamp,
    },
    /// The probe is still out.
    ProbeOut,
    /// As many jobs at once as may be.
    Full {
        /// Jobs now.
        in_use: u32,
        /// The limit.
        max: u32,
    },
    /// A rate has too little room.
    Rated {
        /// When there is room, if nobody else takes it; nothing if there never is.
        until: Option<Timestamp>,
        /// Some room is left, but less than this job needs.
        some_room: bool,
    },
    /// The key has as many jobs at once as it may.
    KeyFull,
    /// A rate of the key has too little room.
    KeyRated {
        /// When there is room.
        until: Option<Timestamp>,
    },
}

impl Block {
    /// When it lifts by itself, where that is known.
    pub fn until(self) -> Option<Timestamp> {
        match self {
            Self::Held { until } | Self::CircuitOpen { until } => Some(until),
            Self::Rated { until, .. } | Self::KeyRated { until } => until,
            _ => None,
        }
    }

    /// Whether only jobs with the same key are kept out.
    pub fn is_of_key(self) -> bool {
        matches!(self, Self::KeyFull | Self::KeyRated { .. })
    }
}

#[derive(Clone, Debug, Default)]
struct Meter {
    in_use: u32,
    windows: Vec<Window>,
}

impl Meter {
    fn new(rates: &[Rate]) -> Self {
        Self { in_use: 0, windows: rates.iter().map(|r| Window::new(r.limit, r.window)).collect() }
    }

    /// The rate that keeps the units out longest.
    fn short_of(&self, units: u64, now: Timestamp) -> Option<(Option<Timestamp>, bool)> {
        let short = |window: &&Window| window.room(now) < units;
        let mut worst: Option<(Option<Timestamp>, bool)> = None;
        for window in self.windows.iter().filter(short) {
            let until = window.room_at(units, now);
            let some_room = window.room(now) > 0;
            worst = Some(match worst {
                None => (until, some_room),
                Some((other, room)) => (later(other, until), room && some_room),
            });
        }
        worst
    }

    fn add(&mut self, at: Timestamp, units: u64) {
        for window in &mut self.windows {
            window.add(at, units);
        }
    }

    fn take_back(&mut self, at: Timestamp, units: u64) {
        for window in &mut self.windows {
            window.take_back(at, units);
        }
    }

    fn advance(&mut self, now: Timestamp) {
        for window in &mut self.windows {
            window.advance(now);
        }
    }

    fn is_idle(&self, now: Timestamp) -> bool {
        self.in_use == 0 && self.windows.iter().all(|window| window.in_use(now) == 0)
    }
}

fn later(a: Option<Timestamp>, b: Option<Timestamp>) -> Option<Timestamp> {
    Some(a?.max(b?))
}

/// A service and what is in use of it.
#[derive(Clone, Debug)]
pub struct ServiceState {
    spec: ServiceSpec,
    meter: Meter,
    keys: Map<Key, Meter>,
    /// Its breaker.
    pub breaker: Breaker,
    /// Nothing starts before this instant, because a handler was told so.
    pub held_until: Timestamp,
    latest: Timestamp,
}

impl ServiceState {
    /// A service that nobody uses yet.
    pub fn new(spec: ServiceSpec) -> Self {
        let meter = Meter::new(&spec.rates);
        Self {
            spec,
            meter,
            keys: Map::default(),
            breaker: Breaker::default(),
            held_until: Timestamp::ZERO,
            latest: Timestamp::ZERO,
        }
    }

    /// Its definition.
    pub fn spec(&self) -> &ServiceSpec {
        &self.spec
    }

    /// Jobs using it now.
    pub fn in_use(&self) -> u32 {
        self.meter.in_use
    }

    /// Each rate with the units used in the window that ends now.
    pub fn rates_in_use(&self, now: Timestamp) -> Vec<(Rate, u64)> {
        let used = self.meter.windows.iter().map(|window| window.in_use(now));
        self.spec.rates.iter().copied().zip(used).collect()
    }

    /// How loaded it is, from 0 to 1: its fullest limit.
    pub fn pressure(&self, now: Timestamp) -> f64 {
        let slots = self
            .spec
            .max_concurrent
            .map(|max| f64::from(self.meter.in_use) / f64::from(max.max(1)));
        let rates = self
            .rates_in_use(now)
            .into_iter()
            .map(|(rate, used)| used as f64 / rate.limit.max(1) as f64);
        rates.chain(slots).fold(0.0, f64::max).min(1.0)
    }

    /// Forgets the uses that no longer count, and brings back what lies in a future that was abolished
    /// by setting the clock back.
    pub fn advance(&mut self, now: Timestamp) {
        self.meter.advance(now);
        self.held_until = self.held_until.min(now.plus(LONGEST_HOLD));
        if now < self.latest {
            self.keys.values_mut().for_each(|meter| meter.advance(now));
        }
        self.latest = now;
    }

    /// What keeps every job out, whatever its cost and key. A breaker that wants a probe does not.
    pub fn blocked_for_all(&self, now: Timestamp) -> Option<Block> {
        if self.spec.paused {
            return Some(Block::Paused);
        }
        if self.held_until > now {
            return Some(Block::Held { until: self.held_until });
        }
        match self.breaker {
            Breaker::Open { until } if until > now => return Some(Block::CircuitOpen { until }),
            Breaker::HalfOpen { .. } => return Some(Block::ProbeOut),
            _ => {}
        }
        if let Some(max) = self.spec.max_concurrent
            && self.meter.in_use >= max
        {
            return Some(Block::Full { in_use: self.meter.in_use, max });
        }
        self.meter.short_of(1, now).map(|(until, some_room)| Block::Rated { until, some_room })
    }

    /// What keeps this job out.
    pub fn blocked(&self, key: Option<&Key>, units: u64, now: Timestamp) -> Option<Block> {
        if let Some(block) = self.blocked_for_all(now) {
            return Some(block);
        }
        // The key comes first: nothing of a rate is kept for a job that its own key keeps out.
        if let Some(block) = key.and_then(|key| self.blocked_by_key(key, units, now)) {
            return Some(block);
        }
        let (until, some_room) =
            if units > 1 { self.meter.short_of(units, now)? } else { return None };
        Some(Block::Rated { until, some_room })
    }

    fn blocked_by_key(&self, key: &Key, units: u64, now: Timestamp) -> Option<Block> {
        let limits = self.spec.per_key.as_ref()?;
        let Some(meter) = self.keys.get(key) else {
            let never = limits.rates.iter().any(|rate| rate.limit < units);
            return never.then_some(Block::KeyRated { until: None });
        };
        if limits.max_concurrent.is_some_and(|max| meter.in_use >= max) {
            return Some(Block::KeyFull);
        }
        meter.short_of(units, now).map(|(until, _)| Block::KeyRated { until })
    }

    /// Takes one slot for a job that starts now, and its units.
    pub fn acquire(&mut self, key: Option<&Key>, units: u64, at: Timestamp) {
        self.occupy(key);
        self.note(key, units, at);
    }

    /// Takes one slot.
    pub fn occupy(&mut self, key: Option<&Key>) {
        self.meter.in_use += 1;
        if let Some(meter) = self.key_meter(key) {
            meter.in_use += 1;
        }
    }

    /// Notes units used at an instant.
    pub fn note(&mut self, key: Option<&Key>, units: u64, at: Timestamp) {
        self.meter.add(at, units);
        if let Some(meter) = self.key_meter(key) {
            meter.add(at, units);
        }
    }

    /// Takes units back that were noted at an instant and never used.
    pub fn take_back(&mut self, key: Option<&Key>, units: u64, at: Timestamp) {
        self.meter.take_back(at, units);
        if let Some(meter) = key.and_then(|key| self.keys.get_mut(key)) {
            meter.take_back(at, units);
        }
    }

    /// Gives one slot back.
    pub fn release(&mut self, key: Option<&Key>, now: Timestamp) {
        self.meter.in_use = self.meter.in_use.saturating_sub(1);
        let Some(key) = key else { return };
        if let Some(meter) = self.keys.get_mut(key) {
            meter.in_use = meter.in_use.saturating_sub(1);
            meter.advance(now);
            if meter.is_idle(now) {
                self.keys.remove(key);
            }
        }
    }

    /// Takes in how an attempt that used it ended.
    pub fn judge(&mut self, job: JobId, verdict: Verdict, now: Timestamp) -> Option<Change> {
        let threshold = self.spec.circuit_threshold?;
        self.breaker.judge(job, verdict, threshold, self.spec.circuit_timeout, now)
    }

    /// Forgets the keys that nobody uses and whose rates are all free.
    pub fn tidy(&mut self, now: Timestamp) {
        self.keys.retain(|_, meter| {
            meter.advance(now);
            !meter.is_idle(now)
        });
    }

    /// Forgets how many jobs use it; the caller counts them again.
    pub fn vacate(&mut self) {
        self.meter.in_use = 0;
        for meter in self.keys.values_mut() {
            meter.in_use = 0;
        }
    }

    /// Changes its limits while it is in use: slots and uses so far carry over.
    pub fn redefine(&mut self, spec: ServiceSpec) {
        if spec.circuit_threshold.is_none() {
            self.breaker = Breaker::default();
        }
        self.meter.windows = carry_over(&self.meter.windows, &spec.rates);
        match &spec.per_key {
            Some(limits) => {
                for meter in self.keys.values_mut() {
                    meter.windows = carry_over(&meter.windows, &limits.rates);
                }
            }
            None => self.keys.clear(),
        }
        self.spec = spec;
    }

    fn key_meter(&mut self, key: Option<&Key>) -> Option<&mut Meter> {
        let limits = self.spec.per_key.as_ref()?;
        Some(self.keys.entry(key?.clone()).or_insert_with(|| Meter::new(&limits.rates)))
    }
}

/// Uses are remembered by the longest old window; a new window starts from those.
fn carry_over(old: &[Window], rates: &[Rate]) -> Vec<Window> {
    let longest = old.iter().max_by_key(|window| window.span());
    let resize = |rate: &Rate| match longest {
        Some(window) => window.resized(rate.limit, rate.window),
        None => Window::new(rate.limit, rate.window),
    };
    rates.iter().map(resize).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_micros(seconds * 1_000_000)
    }

    fn spec() -> ServiceSpec {
        ServiceSpec::new(ServiceName::new("api").unwrap())
    }

    fn rate(limit: u64, seconds: u64) -> Rate {
        Rate { limit, window: Duration::from_secs(seconds) }
    }

    #[test]
    fn slots_are_taken_and_given_back() {
        let mut service = ServiceState::new(ServiceSpec { max_concurrent: Some(2), ..spec() });
        service.acquire(None, 1, at(0));
        service.acquire(None, 1, at(0));
        assert_eq!(service.blocked(None, 1, at(0)), Some(Block::Full { in_use: 2, max: 2 }));
        service.release(None, at(0));
        assert_eq!(service.blocked(None, 1, at(0)), None);
    }

    #[test]
    fn all_windows_hold_at_once_and_the_longest_wait_is_told() {
        let rates = vec![rate(2, 1), rate(3, 60)];
        let mut service = ServiceState::new(ServiceSpec { rates, ..spec() });
        for second in [0, 0, 1] {
            service.acquire(None, 1, at(second));
        }
        let blocked = service.blocked(None, 1, at(2));
        assert_eq!(blocked, Some(Block::Rated { until: Some(at(60)), some_room: false }));
    }

    #[test]
    fn a_costly_job_sees_that_some_room_is_left() {
        let mut service = ServiceState::new(ServiceSpec { rates: vec![rate(10, 60)], ..spec() });
        service.acquire(None, 4, at(0));
        let blocked = service.blocked(None, 7, at(1));
        assert_eq!(blocked, Some(Block::Rated { until: Some(at(60)), some_room: true }));
        assert_eq!(service.blocked(None, 6, at(1)), None);
    }

    #[test]
    fn each_key_has_its_own_limits() {
        let per_key = Some(KeyLimits { max_concurrent: Some(1), rates: vec![rate(2, 60)] });
        let mut service = ServiceState::new(ServiceSpec { per_key, ..spec() });
        let (a, b) = (Key::new("a").unwrap(), Key::new("b").unwrap());
        service.acquire(Some(&a), 1, at(0));
        assert_eq!(service.blocked(Some(&a), 1, at(0)), Some(Block::KeyFull));
        assert_eq!(service.blocked(Some(&b), 1, at(0)), None);
        assert_eq!(service.blocked(None, 1, at(0)), None);
        service.release(Some(&a), at(0));
        service.acquire(Some(&a), 1, at(1));
        service.release(Some(&a), at(1));
        let blocked = service.blocked(Some(&a), 1, at(2));
        assert_eq!(blocked, Some(Block::KeyRated { until: Some(at(60)) }));
    }

    #[test]
    fn a_lowered_limit_counts_what_was_used_before() {
        let mut service = ServiceState::new(ServiceSpec { rates: vec![rate(10, 60)], ..spec() });
        service.acquire(None, 5, at(0));
        service.redefine(ServiceSpec { rates: vec![rate(5, 60)], ..spec() });
        assert!(service.blocked(None, 1, at(1)).is_some());
    }
}
