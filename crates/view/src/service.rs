//! A service: its limits and what is in use of it.

use runcue_core::breaker::Breaker;
use runcue_core::service::KeyLimits;
use runcue_core::{JobId, ServiceName, Timestamp};
use runcue_store::ServiceInfo;
use serde::Serialize;

use crate::millis;

/// A service.
#[derive(Clone, Debug, Serialize)]
pub struct ServiceView {
    /// Its name.
    pub name: ServiceName,
    /// `ok`, `full`, `rate_limited`, `held`, `circuit_open`, `circuit_half_open` or `paused`.
    pub status: &'static str,
    /// When that ends by itself, where it is known.
    pub status_until: Option<i64>,
    /// Jobs using it now.
    pub in_use: u32,
    /// Jobs at once.
    pub max_concurrent: Option<u32>,
    /// Rates, all of which hold.
    pub rates: Vec<RateView>,
    /// Limits that each key has to itself.
    pub per_key: Option<KeyLimits>,
    /// Failures in a row that open its breaker; `null` when it has none.
    pub circuit_threshold: Option<u32>,
    /// Seconds the breaker stays open.
    pub circuit_timeout: f64,
    /// Failures in a row so far, while the breaker is closed.
    pub circuit_failures: u32,
    /// The job that is out as the probe.
    pub probe: Option<JobId>,
    /// Whether a person paused it.
    pub paused: bool,
}

/// Services.
#[derive(Clone, Debug, Serialize)]
pub struct ServicesView {
    /// The services.
    pub services: Vec<ServiceView>,
}

/// A rate and its use.
#[derive(Clone, Debug, Serialize)]
pub struct RateView {
    /// Units.
    pub rate_limit: u64,
    /// The span, in seconds.
    pub rate_window: f64,
    /// Units used in the window that ends now.
    pub used: u64,
}

impl ServiceView {
    /// A service as it stands now.
    pub fn new(service: &ServiceInfo, now: Timestamp) -> Self {
        let spec = &service.spec;
        let (status, until) = status(service, now);
        let (circuit_failures, probe) = match service.breaker {
            Breaker::Closed { failures } => (failures, None),
            Breaker::Open { .. } => (0, None),
            Breaker::HalfOpen { probe } => (0, Some(probe)),
        };
        let rates = service.used.iter().map(|(rate, used)| RateView {
            rate_limit: rate.limit,
            rate_window: rate.window.as_secs_f64(),
            used: *used,
        });
        Self {
            name: spec.name.clone(),
            status,
            status_until: until.map(millis),
            in_use: service.in_use,
            max_concurrent: spec.max_concurrent,
            rates: rates.collect(),
            per_key: spec.per_key.clone(),
            circuit_threshold: spec.circuit_threshold,
            circuit_timeout: spec.circuit_timeout.as_secs_f64(),
            circuit_failures,
            probe,
            paused: spec.paused,
        }
    }

    /// Whether it lets nothing through.
    pub fn is_blocked(&self) -> bool {
        self.status != "ok"
    }
}

/// What keeps every job out, the most lasting first.
fn status(service: &ServiceInfo, now: Timestamp) -> (&'static str, Option<Timestamp>) {
    if service.spec.paused {
        return ("paused", None);
    }
    if let Some(until) = service.held_until.filter(|until| *until > now) {
        return ("held", Some(until));
    }
    match service.breaker {
        Breaker::Open { until } => return ("circuit_open", Some(until)),
        Breaker::HalfOpen { .. } => return ("circuit_half_open", None),
        Breaker::Closed { .. } => {}
    }
    if service.spec.max_concurrent.is_some_and(|max| service.in_use >= max) {
        return ("full", None);
    }
    if service.used.iter().any(|(rate, used)| *used >= rate.limit) {
        return ("rate_limited", None);
    }
    ("ok", None)
}
