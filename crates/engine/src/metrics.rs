//! Counters and gauges under their documented names, as OpenMetrics text. Atomics only: nothing here waits,
//! and labels are looked up once per batch, not per job.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use runcue_core::{Job, Lease, ServiceName};
use runcue_store::Stats;

/// Upper bounds of the histogram, in microseconds; callbacks have 100 ms.
const BUCKETS: [u64; 8] = [100, 500, 1_000, 5_000, 10_000, 25_000, 50_000, 100_000];

/// What one engine has counted since it was built.
#[derive(Debug, Default)]
pub struct Metrics {
    completed: AtomicU64,
    failed: AtomicU64,
    retried: AtomicU64,
    backpressure: AtomicU64,
    callback_errors: AtomicU64,
    callback_buckets: [AtomicU64; BUCKETS.len()],
    callback_count: AtomicU64,
    callback_micros: AtomicU64,
    queued: AtomicU64,
    delayed: AtomicU64,
    blocked: AtomicU64,
    running: AtomicU64,
    services: RwLock<BTreeMap<ServiceName, Arc<Service>>>,
}

#[derive(Debug, Default)]
struct Service {
    requests: AtomicU64,
    rate_limited: AtomicU64,
    open: AtomicBool,
}

fn add(counter: &AtomicU64, amount: u64) {
    counter.fetch_add(amount, Ordering::Relaxed);
}

fn read(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

impl Metrics {
    /// Jobs completed by this engine.
    pub fn work_units_completed(&self) -> u64 {
        read(&self.completed)
    }

    /// Jobs that failed for good or were set aside.
    pub fn work_units_failed(&self) -> u64 {
        read(&self.failed)
    }

    /// Callbacks that hung, panicked or could not be run.
    pub fn callback_errors(&self) -> u64 {
        read(&self.callback_errors)
    }

    /// How often a queue was found nearly full.
    pub fn backpressure(&self) -> u64 {
        read(&self.backpressure)
    }

    /// Counts the end of an attempt that a front took in for a worker of its own: done, over for good, or to be
    /// tried again.
    pub fn count_end(&self, state: runcue_core::StateWord) {
        match state {
            runcue_core::StateWord::Completed => self.completed(),
            runcue_core::StateWord::Failed | runcue_core::StateWord::Quarantined => self.failed(),
            runcue_core::StateWord::Queued => self.retried(),
            _ => {}
        }
    }

    pub(crate) fn completed(&self) {
        add(&self.completed, 1);
    }

    pub(crate) fn failed(&self) {
        add(&self.failed, 1);
    }

    pub(crate) fn retried(&self) {
        add(&self.retried, 1);
    }

    pub(crate) fn backpressure_active(&self) {
        add(&self.backpressure, 1);
    }

    pub(crate) fn callback_failed(&self, count: u64) {
        add(&self.callback_errors, count);
    }

    pub(crate) fn callback_took(&self, span: Duration) {
        let micros = u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
        add(&self.callback_count, 1);
        add(&self.callback_micros, micros);
        if let Some(bucket) = BUCKETS.iter().position(|bound| micros <= *bound) {
            add(&self.callback_buckets[bucket], 1);
        }
    }

    /// Counts the use of services by jobs that were claimed together.
    pub fn count_requests(&self, claimed: &[(Job, Lease)]) {
        let mut uses: Vec<(&ServiceName, u64)> = Vec::new();
        for used in claimed.iter().flat_map(|(job, _)| &job.spec.services) {
            match uses.iter_mut().find(|(name, _)| *name == &used.service) {
                Some((_, count)) => *count += 1,
                None => uses.push((&used.service, 1)),
            }
        }
        for (name, count) in uses {
            add(&self.service(name).requests, count);
        }
    }

    pub(crate) fn rate_limited(&self, name: &ServiceName) {
        add(&self.service(name).rate_limited, 1);
    }

    pub(crate) fn set_circuit(&self, name: &ServiceName, open: bool) {
        self.service(name).open.store(open, Ordering::Relaxed);
    }

    pub(crate) fn set_depths(&self, stats: &Stats) {
        self.queued.store(stats.counts.queued, Ordering::Relaxed);
        self.delayed.store(stats.delayed, Ordering::Relaxed);
        self.blocked.store(stats.blocked, Ordering::Relaxed);
        self.running.store(stats.counts.leased + stats.counts.running, Ordering::Relaxed);
    }

    fn service(&self, name: &ServiceName) -> Arc<Service> {
        let services = self.services.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(service) = services.get(name) {
            return Arc::clone(service);
        }
        drop(services);
        let mut services = self.services.write().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(services.entry(name.clone()).or_default())
    }

    /// Everything as OpenMetrics text. The gauges are as of the engine's last look at the queue; see
    /// `Cue::refresh_metrics`.
    pub fn render(&self) -> String {
        let mut text = String::with_capacity(2048);
        // Writing to a string cannot fail.
        let _ = self.write(&mut text);
        text
    }

    fn write(&self, out: &mut String) -> fmt::Result {
        let queued = read(&self.queued);
        let (delayed, blocked) = (read(&self.delayed), read(&self.blocked));
        head(out, "work_units_queued", "gauge", "Jobs that wait.")?;
        writeln!(out, "work_units_queued {queued}")?;
        head(out, "work_units", "gauge", "Live jobs by stage.")?;
        let ready = queued.saturating_sub(delayed).saturating_sub(blocked);
        for (stage, count) in [
            ("ready", ready),
            ("delayed", delayed),
            ("blocked", blocked),
            ("running", read(&self.running)),
        ] {
            writeln!(out, "work_units{{stage=\"{stage}\"}} {count}")?;
        }
        for (name, help, counter) in [
            ("work_units_completed", "Jobs done.", &self.completed),
            ("work_units_failed", "Jobs that failed for good or were set aside.", &self.failed),
            ("work_units_retried", "Attempts that failed and will be tried again.", &self.retried),
            ("backpressure", "Times a queue was found nearly full.", &self.backpressure),
            ("callback_errors", "Callbacks that hung or panicked.", &self.callback_errors),
        ] {
            head(out, name, "counter", help)?;
            writeln!(out, "{name}_total {}", read(counter))?;
        }
        self.write_services(out)?;
        self.write_histogram(out)?;
        out.write_str("# EOF\n")
    }

    fn write_services(&self, out: &mut String) -> fmt::Result {
        let services = self.services.read().unwrap_or_else(PoisonError::into_inner).clone();
        head(out, "service_requests", "counter", "Jobs started that use the service.")?;
        for (name, service) in &services {
            let count = read(&service.requests);
            writeln!(out, "service_requests_total{{service=\"{}\"}} {count}", escape(name))?;
        }
        head(out, "service_rate_limited", "counter", "Times the service's rate was used up.")?;
        for (name, service) in &services {
            let count = read(&service.rate_limited);
            writeln!(out, "service_rate_limited_total{{service=\"{}\"}} {count}", escape(name))?;
        }
        head(out, "circuit_breaker_open", "gauge", "1 while the service's circuit is not closed.")?;
        for (name, service) in &services {
            let open = u8::from(service.open.load(Ordering::Relaxed));
            writeln!(out, "circuit_breaker_open{{service=\"{}\"}} {open}", escape(name))?;
        }
        Ok(())
    }

    fn write_histogram(&self, out: &mut String) -> fmt::Result {
        let name = "callback_duration_seconds";
        head(out, name, "histogram", "How long callbacks take.")?;
        let mut below = 0;
        for (bound, bucket) in BUCKETS.iter().zip(&self.callback_buckets) {
            below += read(bucket);
            let seconds = Duration::from_micros(*bound).as_secs_f64();
            writeln!(out, "{name}_bucket{{le=\"{seconds}\"}} {below}")?;
        }
        let count = read(&self.callback_count);
        writeln!(out, "{name}_bucket{{le=\"+Inf\"}} {count}")?;
        let sum = Duration::from_micros(read(&self.callback_micros)).as_secs_f64();
        writeln!(out, "{name}_sum {sum}\n{name}_count {count}")
    }
}

fn head(out: &mut String, name: &str, kind: &str, help: &str) -> fmt::Result {
    writeln!(out, "# TYPE {name} {kind}\n# HELP {name} {help}")
}

fn escape(name: &ServiceName) -> String {
    name.as_str().replace('\\', "\\\\").replace('"', "\\\"")
}
