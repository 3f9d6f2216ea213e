//! How a cue is set up. Owns the defaults and the checks; what it builds is [`Cue`].

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use runcue_core::submission::AfterFailure;
use runcue_core::{
    Capabilities, ClaimFilter, JobId, OnFull, QueueName, QueueSpec, ServiceSpec, TaskSpec,
};
use runcue_store::{Retention, Store, WorkerSpec};
use runcue_trace::Tracer;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use crate::backpressure::{Backpressure, BackpressureFn, BackpressureInfo};
use crate::callbacks::{Callbacks, DependencyFn, PriorityContext, PriorityFn};
use crate::clock::{Clock, SystemClock};
use crate::complete::Completer;
use crate::cue::Cue;
use crate::error::{Error, Result};
use crate::ids::{IdSource, RandomIds};
use crate::reap;
use crate::shared::{Settings, Shared};
use crate::start_within::StartWithin;
use crate::task::{Handler, Task};

/// Sets up a [`Cue`].
#[must_use = "a builder does nothing until it is built"]
pub struct CueBuilder {
    store: Arc<dyn Store>,
    clock: Option<Arc<dyn Clock>>,
    ids: Option<Arc<dyn IdSource>>,
    tracer: Tracer,
    worker_name: Option<String>,
    slots: usize,
    settings: Settings,
    services: Vec<ServiceSpec>,
    queues: Vec<QueueSpec>,
    tasks: Vec<Task>,
    fallback: Option<Arc<dyn Handler>>,
    priority: Option<Arc<PriorityFn>>,
    dependency: Option<Arc<DependencyFn>>,
    on_backpressure: Option<Arc<BackpressureFn>>,
}

impl CueBuilder {
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        Self {
            store,
            clock: None,
            ids: None,
            tracer: Tracer::off(),
            worker_name: None,
            slots: 8,
            settings: Settings {
                lease: Duration::from_secs(30),
                heartbeat: Duration::from_secs(10),
                reap_every: Duration::from_secs(5),
                reap_after: Duration::ZERO,
                prune_every: Duration::from_secs(600),
                status_every: Duration::from_secs(5),
                poll: Duration::from_secs(1),
                start_within: Duration::from_millis(25),
                stop_grace: Duration::from_secs(30),
                cancel_grace: Duration::from_secs(5),
                filter: ClaimFilter::default(),
                offers: None,
                retention: Some(Retention::default()),
                after_failure: AfterFailure::default(),
            },
            services: Vec::new(),
            queues: Vec::new(),
            tasks: Vec::new(),
            fallback: None,
            priority: None,
            dependency: None,
            on_backpressure: None,
        }
    }

    /// How many jobs run at once (8).
    pub fn slots(mut self, slots: usize) -> Self {
        self.slots = slots;
        self
    }

    /// What people call this worker; the machine's name otherwise.
    pub fn worker_name(mut self, name: impl Into<String>) -> Self {
        self.worker_name = Some(name.into());
        self
    }

    /// How long a lease lasts unless extended (30 s): how soon a crash is noticed.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.settings.lease = lease;
        self
    }

    /// How often leases are extended (10 s).
    pub fn heartbeat(mut self, every: Duration) -> Self {
        self.settings.heartbeat = every;
        self
    }

    /// How often lapsed leases are looked for (5 s).
    pub fn reap_every(mut self, every: Duration) -> Self {
        self.settings.reap_every = every;
        self
    }

    /// How long after the start lapsed leases are first looked for (at once). Whoever was away, and so was the one
    /// that workers report to, gives them time to be heard again.
    pub fn reap_after(mut self, span: Duration) -> Self {
        self.settings.reap_after = span;
        self
    }

    /// How often retention is applied (10 min).
    pub fn prune_every(mut self, every: Duration) -> Self {
        self.settings.prune_every = every;
        self
    }

    /// How often event streams get a `queue_status` (5 s).
    pub fn status_every(mut self, every: Duration) -> Self {
        self.settings.status_every = every;
        self
    }

    /// How often everything is looked at when no news comes (1 s).
    pub fn poll(mut self, every: Duration) -> Self {
        self.settings.poll = every;
        self
    }

    /// How long after its claim a job of a rated service may start, at the least (25 ms). The job counts from
    /// the end of that span. The engine makes it longer by itself where claims are answered later than that, up
    /// to half a lease.
    pub fn start_within(mut self, span: Duration) -> Self {
        self.settings.start_within = span;
        self
    }

    /// How long `stop` waits for running jobs before it hands them back (30 s).
    pub fn stop_grace(mut self, grace: Duration) -> Self {
        self.settings.stop_grace = grace;
        self
    }

    /// How long a cancelled job may take to stop before it is dropped (5 s).
    pub fn cancel_grace(mut self, grace: Duration) -> Self {
        self.settings.cancel_grace = grace;
        self
    }

    /// Only such jobs are claimed. Without tasks in the filter: those that have a handler here.
    pub fn filter(mut self, filter: ClaimFilter) -> Self {
        self.settings.filter = filter;
        self
    }

    /// What this machine offers to jobs that require something; without it, everything.
    pub fn offers(mut self, offers: Capabilities) -> Self {
        self.settings.offers = Some(offers);
        self
    }

    /// How long finished work is kept; nothing keeps everything for ever.
    pub fn retention(mut self, retention: Option<Retention>) -> Self {
        self.settings.retention = retention;
        self
    }

    /// What an idempotency key whose job did not complete means for the next submission.
    pub fn after_failure(mut self, rule: AfterFailure) -> Self {
        self.settings.after_failure = rule;
        self
    }

    /// Defines a service.
    pub fn service(mut self, service: ServiceSpec) -> Self {
        self.services.push(service);
        self
    }

    /// Defines a queue.
    pub fn queue(mut self, queue: QueueSpec) -> Self {
        self.queues.push(queue);
        self
    }

    /// At most so many jobs may wait in the default queue, and what happens beyond that.
    pub fn max_queued(self, max: u64, on_full: OnFull) -> Self {
        let name = QueueName::default();
        self.queue(QueueSpec { name, max_queued: Some(max), on_full, paused: false })
    }

    /// Defines a task and what runs its jobs.
    pub fn task(mut self, task: Task) -> Self {
        self.tasks.push(task);
        self
    }

    /// Runs the jobs of every task that has no handler of its own here.
    pub fn any_task(mut self, handler: impl Handler) -> Self {
        self.fallback = Some(Arc::new(handler));
        self
    }

    /// Scores the jobs that could run now, from 0 to 1; the best run first. The callback has 100 ms, runs on
    /// a thread of its own, and a job it fails for gets 0.5.
    pub fn priority(
        mut self,
        score: impl Fn(&PriorityContext<'_>) -> f64 + Send + Sync + 'static,
    ) -> Self {
        self.priority = Some(Arc::new(score));
        self
    }

    /// Says whether a completed prerequisite's output is really there; until then its dependents wait. The
    /// callback has 100 ms and runs on a thread of its own; where it fails, they wait.
    pub fn dependency_satisfied(
        mut self,
        check: impl Fn(JobId) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.dependency = Some(Arc::new(check));
        self
    }

    /// Called when a queue is nearly full, once until it is not.
    pub fn on_backpressure(
        mut self,
        tell: impl Fn(&BackpressureInfo) + Send + Sync + 'static,
    ) -> Self {
        self.on_backpressure = Some(Arc::new(tell));
        self
    }

    /// Where `now` comes from; the machine's clock otherwise.
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Some(Arc::new(clock));
        self
    }

    /// Where ids come from; the operating system's randomness otherwise.
    pub fn ids(mut self, ids: impl IdSource) -> Self {
        self.ids = Some(Arc::new(ids));
        self
    }

    /// What makes spans of submissions and attempts; without it no spans are made, and the traces that jobs come with
    /// are passed on.
    pub fn tracer(mut self, tracer: Tracer) -> Self {
        self.tracer = tracer;
        self
    }

    fn check(&self) -> Result<()> {
        let settings = &self.settings;
        if settings.heartbeat * 2 > settings.lease {
            let (heartbeat, lease) = (settings.heartbeat, settings.lease);
            let why = format!(
                "every {heartbeat:?} is too seldom for leases of {lease:?}; one late heartbeat would lose them"
            );
            return Err(Error::Setting { setting: "heartbeat", why });
        }
        for (n, task) in self.tasks.iter().enumerate() {
            task.runner()?;
            if self.tasks[..n].iter().any(|other| other.spec.name == task.spec.name) {
                return Err(Error::TwiceDefined { task: task.spec.name.clone() });
            }
        }
        let named = &settings.filter.tasks;
        let has =
            |name: &runcue_core::TaskName| self.tasks.iter().any(|task| task.spec.name == *name);
        if let Some(name) = named.iter().find(|name| !has(name))
            && self.fallback.is_none()
        {
            return Err(Error::NoHandler { task: name.clone() });
        }
        Ok(())
    }

    /// Opens the cue: writes the definitions, makes the worker known, and takes back jobs of workers that are
    /// gone. Nothing runs before [`Cue::start`].
    pub async fn build(self) -> Result<Cue> {
        self.check()?;
        let clock = self.clock.unwrap_or_else(|| Arc::new(SystemClock::default()));
        let ids = self.ids.unwrap_or_else(|| Arc::new(RandomIds::default()));
        let host = host_name();
        let worker = WorkerSpec {
            id: ids.worker(clock.now()),
            name: self.worker_name.unwrap_or_else(|| host.clone()),
            host,
            pid: std::process::id(),
            slots: u32::try_from(self.slots).unwrap_or(u32::MAX),
            offers: self.settings.offers.clone().unwrap_or_default(),
        };
        let shared = Arc::new(Shared {
            store: self.store,
            clock,
            ids,
            worker,
            registered: AtomicBool::new(false),
            start_within: StartWithin::new(self.settings.start_within, self.settings.lease / 2),
            settings: self.settings,
            tracer: self.tracer,
            tasks: Default::default(),
            known: Default::default(),
            fallback: self.fallback,
            slots: AtomicUsize::new(self.slots),
            active: watch::Sender::new(0),
            running: Arc::default(),
            logs: Arc::default(),
            completer: Completer::default(),
            callbacks: Callbacks::new(self.priority, self.dependency),
            scores: Default::default(),
            backpressure: Backpressure::new(self.on_backpressure),
            waiters: Default::default(),
            outage: Default::default(),
            metrics: Arc::default(),
            news: watch::Sender::new(0),
            status: watch::Sender::new(None),
            look_at_status: Notify::new(),
            look_at_reap: Notify::new(),
            look_at_schedules: Notify::new(),
            wakes: Default::default(),
            stopping: CancellationToken::new(),
            over: CancellationToken::new(),
        });
        let cue = Cue::over(shared);
        define(&cue, self.services, self.queues, self.tasks).await?;
        Ok(cue)
    }
}

async fn define(
    cue: &Cue,
    services: Vec<ServiceSpec>,
    queues: Vec<QueueSpec>,
    tasks: Vec<Task>,
) -> Result<()> {
    let shared = cue.shared();
    let now = shared.clock.now();
    if !services.is_empty() {
        shared.ask(shared.store.upsert_services(now, services)).await?;
    }
    if !queues.is_empty() {
        shared.ask(shared.store.upsert_queues(now, queues)).await?;
    }
    let capped = shared.ask(shared.store.queues()).await?;
    let capped = capped.iter().any(|queue| queue.max_queued.is_some());
    shared.backpressure.capped.store(capped, Ordering::Relaxed);
    let stored: Vec<TaskSpec> = shared.ask(shared.store.tasks()).await?;
    let by_name = |spec: TaskSpec| (spec.name.to_string(), spec);
    let known: HashMap<String, TaskSpec> = stored.into_iter().map(by_name).collect();
    *shared.known.write().unwrap_or_else(std::sync::PoisonError::into_inner) = known;
    cue.define_tasks(tasks).await?;
    if shared.filter().is_some() {
        shared.register().await?;
        reap::run_once(shared, shared.clock.now()).await?;
    }
    Ok(())
}

/// What this machine is called, as far as can be found out without asking a resolver.
fn host_name() -> String {
    let from_file = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let from_env = || std::env::var("HOSTNAME").or_else(|_| std::env::var("COMPUTERNAME")).ok();
    let name = from_file.or_else(from_env).unwrap_or_default();
    let name = name.trim();
    if name.is_empty() { "localhost".to_owned() } else { name.to_owned() }
}
