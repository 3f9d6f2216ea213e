//! `Cue`, what a user of the library holds: submitting, asking, and changing what there is. Running is
//! [`crate::stop`]'s and the services' it starts.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use runcue_core::why::Reason;
use runcue_core::{
    GroupName, Job, JobFilter, JobId, JobSpec, QueueSpec, ServiceSpec, TaskSpec, WorkerId,
};
use runcue_store::{
    ListRequest, Page, ServiceInfo, Stats, Store, StoreError, SubmitBatch, Submitted,
};
use runcue_trace::Submission;
use serde::de::DeserializeOwned;
use tokio_util::sync::DropGuard;

use crate::backpressure;
use crate::builder::CueBuilder;
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::events::Events;
use crate::metrics::Metrics;
use crate::new_job::NewJob;
use crate::reap;
use crate::shared::{Shared, watch_store};
use crate::status::Status;
use crate::stop::Services;
use crate::task::Task;
use crate::wait;

/// A queue in use: submits jobs and, once started, runs them. Cheap to clone; all clones are one.
///
/// Dropping the last clone without [`Cue::stop`] ends everything at once: running handlers are dropped, and
/// their jobs come back when their leases lapse.
#[derive(Clone)]
pub struct Cue {
    shared: Arc<Shared>,
    pub(crate) services: Arc<Services>,
    _over_with_the_last: Arc<DropGuard>,
}

impl Cue {
    /// Begins to set up a cue on a store.
    pub fn builder(store: impl Store) -> CueBuilder {
        CueBuilder::new(Arc::new(store))
    }

    /// The same, on a store that others use too.
    pub fn builder_on(store: Arc<dyn Store>) -> CueBuilder {
        CueBuilder::new(store)
    }

    pub(crate) fn over(shared: Arc<Shared>) -> Self {
        let news = watch_store(Arc::clone(&shared.store), shared.news.clone(), shared.over.clone());
        tokio::spawn(news);
        let waiters = Arc::clone(&shared);
        tokio::spawn(async move { wait::serve(&waiters).await });
        let guard = Arc::new(shared.over.clone().drop_guard());
        Self { shared, services: Arc::default(), _over_with_the_last: guard }
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// The store underneath.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.shared.store
    }

    /// The clock it goes by.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.shared.clock
    }

    /// This worker instance.
    pub fn worker(&self) -> WorkerId {
        self.shared.worker.id
    }

    /// An id for a job that other jobs of the same submission depend on.
    pub fn new_id(&self) -> JobId {
        self.shared.ids.job(self.shared.clock.now())
    }

    /// Submits a job. Where the queue is full and its rule is to wait, this waits for room.
    pub async fn submit(&self, job: NewJob) -> Result<JobId> {
        let ids = self.submit_all(vec![job]).await?;
        Ok(ids[0])
    }

    /// Submits jobs, all or none.
    pub async fn submit_all(&self, jobs: Vec<NewJob>) -> Result<Vec<JobId>> {
        let specs = self.specs(jobs).await?;
        let submitted = self.submit_specs(specs, None).await?;
        Ok(submitted.into_iter().map(Submitted::id).collect())
    }

    /// Submits jobs, all or none, waiting for room no longer than that.
    pub async fn submit_within(&self, jobs: Vec<NewJob>, patience: Duration) -> Result<Vec<JobId>> {
        let specs = self.specs(jobs).await?;
        let submitted = self.submit_specs(specs, Some(patience)).await?;
        Ok(submitted.into_iter().map(Submitted::id).collect())
    }

    /// Submits jobs as a store takes them, all or none, and says which of them were there already.
    pub async fn submit_specs(
        &self,
        mut jobs: Vec<JobSpec>,
        patience: Option<Duration>,
    ) -> Result<Vec<Submitted>> {
        let shared = &self.shared;
        let submission = Submission::begin(&shared.tracer, &mut jobs, || shared.clock.now());
        let hurry = |job: &JobSpec| job.expires_at.is_some() || job.dependency_timeout.is_some();
        let deadlines = jobs.iter().any(hurry);
        let batch = SubmitBatch { jobs, after_failure: shared.settings.after_failure };
        let submitted = backpressure::submit(shared, batch, patience).await;
        submission.end(|| shared.clock.now(), submitted.as_ref().err().map(ToString::to_string));
        let submitted = submitted?;
        if deadlines {
            shared.look_at_reap.notify_one();
        }
        Ok(submitted)
    }

    /// The jobs with ids and with the defaults of their tasks.
    async fn specs(&self, jobs: Vec<NewJob>) -> Result<Vec<JobSpec>> {
        if jobs.iter().any(|job| !self.knows(job.task())) {
            self.learn_tasks().await?;
        }
        let now = self.shared.clock.now();
        let known = self.shared.known.read().unwrap_or_else(PoisonError::into_inner);
        jobs.into_iter()
            .map(|job| {
                let task = known.get(job.task());
                job.into_spec(self.shared.ids.job(now), now, task)
            })
            .collect()
    }

    /// A job as a store takes it, of which there will be many.
    pub(crate) async fn spec_of(&self, job: NewJob) -> Result<JobSpec> {
        let mut specs = self.specs(vec![job]).await?;
        Ok(specs.remove(0))
    }

    fn knows(&self, task: &str) -> bool {
        self.shared.known.read().unwrap_or_else(PoisonError::into_inner).contains_key(task)
    }

    /// Another process may have defined a task since we last looked.
    async fn learn_tasks(&self) -> Result<()> {
        let stored = self.shared.ask(self.shared.store.tasks()).await?;
        let mut known = self.shared.known.write().unwrap_or_else(PoisonError::into_inner);
        for spec in stored {
            known.entry(spec.name.to_string()).or_insert(spec);
        }
        Ok(())
    }

    /// Defines tasks and what runs their jobs. A second definition of a name replaces the first.
    pub async fn define_tasks(&self, tasks: Vec<Task>) -> Result<()> {
        if tasks.is_empty() {
            return Ok(());
        }
        for task in &tasks {
            task.runner()?;
        }
        let specs: Vec<TaskSpec> = tasks.iter().map(|task| task.spec.clone()).collect();
        let shared = &self.shared;
        shared.ask(shared.store.upsert_tasks(shared.clock.now(), specs.clone())).await?;
        let mut known = shared.known.write().unwrap_or_else(PoisonError::into_inner);
        known.extend(specs.into_iter().map(|spec| (spec.name.to_string(), spec)));
        drop(known);
        let mut own = shared.tasks.write().unwrap_or_else(PoisonError::into_inner);
        own.extend(tasks.into_iter().map(|task| (task.spec.name.clone(), Arc::new(task))));
        drop(own);
        // Jobs of theirs may be there already, and the news of the definition came before this.
        shared.active.send_modify(|_| {});
        Ok(())
    }

    /// Defines a service, or changes its limits while it is in use.
    pub async fn service(&self, service: ServiceSpec) -> Result<()> {
        let shared = &self.shared;
        Ok(shared.ask(shared.store.upsert_services(shared.clock.now(), vec![service])).await?)
    }

    /// Defines a queue, or changes its cap or pause.
    pub async fn queue(&self, queue: QueueSpec) -> Result<()> {
        let shared = &self.shared;
        if queue.max_queued.is_some() {
            shared.backpressure.capped.store(true, Ordering::Relaxed);
        }
        Ok(shared.ask(shared.store.upsert_queues(shared.clock.now(), vec![queue])).await?)
    }

    /// Changes how many jobs run at once; those that run go on.
    pub fn set_slots(&self, slots: usize) {
        self.shared.slots.store(slots, Ordering::Relaxed);
        self.shared.active.send_modify(|_| {});
    }

    /// Waits until a job has ended, however it did.
    pub async fn wait(&self, id: JobId) -> Result<Job> {
        wait::wait(&self.shared, id).await
    }

    /// Waits until all of these jobs have ended; answers them in that order.
    pub async fn wait_all(&self, ids: impl IntoIterator<Item = JobId>) -> Result<Vec<Job>> {
        let mut jobs = Vec::new();
        for id in ids {
            jobs.push(self.wait(id).await?);
        }
        Ok(jobs)
    }

    /// Waits for a job and reads its result into a type.
    pub async fn result<T: DeserializeOwned>(&self, id: JobId) -> Result<T> {
        self.wait(id).await?.result()
    }

    /// A job as it is now.
    pub async fn get(&self, id: JobId) -> Result<Job> {
        let jobs = self.shared.ask(self.shared.store.get(vec![id])).await?;
        Ok(jobs.into_iter().next().flatten().ok_or(StoreError::NotFound(id))?)
    }

    /// Jobs by filter, newest first, page by page.
    pub async fn list(&self, request: ListRequest) -> Result<Page<Job>> {
        Ok(self.shared.ask(self.shared.store.list(request)).await?)
    }

    /// Counts of everything.
    pub async fn stats(&self) -> Result<Stats> {
        let now = self.shared.clock.now();
        Ok(self.shared.ask(self.shared.store.stats(now)).await?)
    }

    /// Every service with its use.
    pub async fn services(&self) -> Result<Vec<ServiceInfo>> {
        let now = self.shared.clock.now();
        Ok(self.shared.ask(self.shared.store.services(now)).await?)
    }

    /// Why a job waits, most important reason first.
    pub async fn why(&self, id: JobId) -> Result<Vec<Reason>> {
        let now = self.shared.clock.now();
        Ok(self.shared.ask(self.shared.store.why(now, id)).await?)
    }

    /// Everything that happens from now on.
    pub async fn events(&self) -> Result<Events> {
        let last = self.shared.ask(self.shared.store.last_event()).await?;
        Ok(self.events_after(last))
    }

    /// Everything that happened after an event, and from then on.
    pub fn events_after(&self, seq: u64) -> Events {
        Events::new(Arc::clone(&self.shared), seq)
    }

    /// Withdraws a job: at once if it waits, by asking it to stop if it runs, not at all if it has ended. Its
    /// dependents are withdrawn with it, or fail. Answers whether anything changed.
    pub async fn cancel(&self, id: JobId, cascade: bool) -> Result<bool> {
        Ok(self.cancel_where(JobFilter::of_ids([id]), cascade).await? > 0)
    }

    /// Withdraws every job that is meant. Answers how many.
    pub async fn cancel_where(&self, filter: JobFilter, cascade: bool) -> Result<u64> {
        let shared = &self.shared;
        Ok(shared.ask(shared.store.cancel(shared.clock.now(), filter, cascade)).await?)
    }

    /// Sends a failed, cancelled or quarantined job round again. Answers whether it did.
    pub async fn retry(&self, id: JobId) -> Result<bool> {
        Ok(self.retry_where(JobFilter::of_ids([id])).await? > 0)
    }

    /// Sends every failed, cancelled or quarantined job that is meant round again. Answers how many.
    pub async fn retry_where(&self, filter: JobFilter) -> Result<u64> {
        let shared = &self.shared;
        Ok(shared.ask(shared.store.retry(shared.clock.now(), filter)).await?)
    }

    /// Pauses a group; running jobs finish. Answers whether that changed anything.
    pub async fn pause_group(&self, group: &str) -> Result<bool> {
        self.set_group_paused(group, true).await
    }

    /// Resumes a group. Answers whether that changed anything.
    pub async fn resume_group(&self, group: &str) -> Result<bool> {
        self.set_group_paused(group, false).await
    }

    async fn set_group_paused(&self, group: &str, paused: bool) -> Result<bool> {
        let (shared, group) = (&self.shared, GroupName::new(group)?);
        Ok(shared.ask(shared.store.set_group_paused(shared.clock.now(), group, paused)).await?)
    }

    /// Takes back jobs whose worker is gone and ends those whose deadline has passed, now instead of soon.
    pub async fn reap(&self) -> Result<runcue_store::Reaped> {
        Ok(reap::run_once(&self.shared, self.shared.clock.now()).await?)
    }

    /// What this cue has counted.
    pub fn metrics(&self) -> &Metrics {
        &self.shared.metrics
    }

    /// Brings the gauges up to date, for whoever renders them next.
    pub async fn refresh_metrics(&self) -> Result<()> {
        Ok(Status::default().run_once(&self.shared, self.shared.clock.now()).await?)
    }
}

/// What a job gave back, as a type.
pub trait JobExt {
    /// The result of a completed job; null for one that gave none.
    fn result<T: DeserializeOwned>(&self) -> Result<T>;
}

impl JobExt for Job {
    fn result<T: DeserializeOwned>(&self) -> Result<T> {
        let state = self.life.state.word();
        if state != runcue_core::StateWord::Completed {
            let error = self.life.last_error.clone();
            return Err(Error::NotCompleted { id: self.id(), state, error });
        }
        let result = self.life.result.clone().unwrap_or_else(runcue_core::Json::null);
        result.to().map_err(|source| Error::Json { what: "result", source })
    }
}
