//! A store, a clock that only moves when told, and the short words tests are written in.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use runcue_core::service::KeyLimits;
use runcue_core::{
    ErrorKind, EventKind, GroupName, Job, JobFilter, JobId, JobSpec, Key, Lease, QueueName, Rate,
    RetryPolicy, Seq, ServiceName, ServiceSpec, StateWord, TaskName, Timestamp, Use, WorkerId,
};
use runcue_store::{
    Candidates, ClaimRequest, Extend, Extended, Finish, Finished, Outcome, Reaped, Result,
    ServiceInfo, Store, SubmitBatch, Submitted,
};

use crate::Maker;

/// Where every test begins: some instant that is not the epoch.
pub const BEGINNING: Timestamp = Timestamp::from_millis(1_700_000_000_000);

/// A store and the instant it is used at.
pub struct Scene {
    /// The store under test.
    pub store: Arc<dyn Store>,
    /// Now.
    pub now: Timestamp,
    /// Who claims.
    pub worker: WorkerId,
}

/// A span of seconds.
pub const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// So many seconds after the beginning.
pub fn at(seconds: u64) -> Timestamp {
    BEGINNING.plus(secs(seconds))
}

/// The id of the job that tests call by this number.
pub fn id(n: u128) -> JobId {
    JobId::from_u128(n)
}

/// A worker instance.
pub fn worker(n: u128) -> WorkerId {
    WorkerId::from_u128(n)
}

/// A task's name.
pub fn task(name: &str) -> TaskName {
    TaskName::new(name).unwrap()
}

/// A queue's name.
pub fn queue(name: &str) -> QueueName {
    QueueName::new(name).unwrap()
}

/// A group's name.
pub fn group(name: &str) -> GroupName {
    GroupName::new(name).unwrap()
}

/// A key's name.
pub fn key(name: &str) -> Key {
    Key::new(name).unwrap()
}

/// A service's name.
pub fn service(name: &str) -> ServiceName {
    ServiceName::new(name).unwrap()
}

/// Labels or tags.
pub fn words(words: &[&str]) -> BTreeSet<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// A policy of so many attempts whose delays can be foretold.
pub fn attempts(max_attempts: u32) -> RetryPolicy {
    RetryPolicy { jitter: false, ..RetryPolicy::attempts(max_attempts) }
}

/// A plain job; three attempts, delays without jitter.
pub fn job(n: u128) -> JobSpec {
    JobSpec { retry: attempts(3), ..JobSpec::new(id(n), task("work")) }
}

/// Claims and ends jobs, so many at a time, until there are none. Answers which it had, in that order. Each end must count.
pub async fn drain(store: Arc<dyn Store>, now: Timestamp, by: u128, most: usize) -> Vec<JobId> {
    let mut had = Vec::new();
    loop {
        let claimed = store.claim(now, ClaimRequest::new(worker(by), most)).await.unwrap().jobs;
        if claimed.is_empty() {
            return had;
        }
        had.extend(claimed.iter().map(|(job, _)| job.id()));
        let outcome = Outcome::Done { result: None, result_key: None };
        let end = |(_, lease)| Finish { lease, outcome: outcome.clone() };
        let ends = claimed.into_iter().map(end).collect();
        for finished in store.finish(now, ends).await.unwrap() {
            assert!(matches!(finished, Finished::Now { .. }), "{finished:?}");
        }
    }
}

/// A plain job of a group.
pub fn job_of(n: u128, name: &str) -> JobSpec {
    JobSpec { group: Some(group(name)), ..job(n) }
}

/// A plain job that waits for others.
pub fn job_after(n: u128, prerequisites: &[u128]) -> JobSpec {
    JobSpec { depends_on: prerequisites.iter().copied().map(id).collect(), ..job(n) }
}

/// A plain job that uses one unit of each service.
pub fn job_using(n: u128, services: &[&str]) -> JobSpec {
    JobSpec { services: services.iter().map(|s| Use::one(service(s))).collect(), ..job(n) }
}

/// A plain job that uses so many units of a service.
pub fn job_costing(n: u128, name: &str, units: u64) -> JobSpec {
    JobSpec { services: vec![Use { service: service(name), units }], ..job(n) }
}

/// A service without limits.
pub fn unlimited(name: &str) -> ServiceSpec {
    ServiceSpec::new(service(name))
}

/// A service with so many slots.
pub fn slots(name: &str, max: u32) -> ServiceSpec {
    ServiceSpec { max_concurrent: Some(max), ..unlimited(name) }
}

/// So many units in so many seconds.
pub fn rate(limit: u64, seconds: u64) -> Rate {
    Rate { limit, window: secs(seconds) }
}

/// A service with one rate.
pub fn rated(name: &str, limit: u64, seconds: u64) -> ServiceSpec {
    ServiceSpec { rates: vec![rate(limit, seconds)], ..unlimited(name) }
}

/// Limits that each key has to itself.
pub fn per_key(max_concurrent: Option<u32>, rates: Vec<Rate>) -> Option<KeyLimits> {
    Some(KeyLimits { max_concurrent, rates })
}

/// Done, with nothing to show for it.
pub fn done() -> Outcome {
    Outcome::Done { result: None, result_key: None }
}

/// A failure of a kind.
pub fn failed(kind: ErrorKind) -> Outcome {
    Outcome::Failed { error: "boom".to_owned(), kind, code: None, service: None }
}

impl Scene {
    /// A fresh store at the beginning.
    pub async fn new(maker: &impl Maker) -> Self {
        Self { store: maker.open().await, now: BEGINNING, worker: worker(1) }
    }

    /// The same data through a new handle, as after a crash.
    pub async fn reopened(self, maker: &impl Maker) -> Self {
        let Self { store, now, worker } = self;
        let store = maker.reopen(store).await.expect("a durable store can be opened again");
        Self { store, now, worker }
    }

    /// The same data through a second handle, as in another process.
    pub async fn beside(&self, maker: &impl Maker) -> Self {
        let store = maker.second_handle(&self.store).await;
        let store = store.expect("a durable store can be opened twice");
        Self { store, now: self.now, worker: worker(2) }
    }

    /// Lets time pass.
    pub fn wait(&mut self, seconds: u64) {
        self.wait_for(secs(seconds));
    }

    /// Lets a span pass.
    pub fn wait_for(&mut self, span: Duration) {
        self.now = self.now.plus(span);
    }

    /// Sets the clock back.
    pub fn set_back(&mut self, seconds: u64) {
        self.now = self.now.minus(secs(seconds));
    }

    /// Submits, whatever comes of it.
    pub async fn try_submit(&self, jobs: Vec<JobSpec>) -> Result<Vec<Submitted>> {
        self.store.submit(self.now, SubmitBatch::of(jobs)).await
    }

    /// Submits jobs that are all accepted.
    pub async fn submit(&self, jobs: impl IntoIterator<Item = JobSpec>) {
        let jobs: Vec<JobSpec> = jobs.into_iter().collect();
        let expected: Vec<Submitted> = jobs.iter().map(|job| Submitted::New(job.id)).collect();
        assert_eq!(self.try_submit(jobs).await.unwrap(), expected);
    }

    /// A claim of the scene's worker.
    pub fn request(&self, max: usize) -> ClaimRequest {
        ClaimRequest::new(self.worker, max)
    }

    /// Claims as asked.
    pub async fn claim_as(&self, request: ClaimRequest) -> Vec<(Job, Lease)> {
        self.store.claim(self.now, request).await.unwrap().jobs
    }

    /// Claims up to so many jobs and gives their leases.
    pub async fn claim(&self, max: usize) -> Vec<Lease> {
        self.claim_as(self.request(max)).await.into_iter().map(|(_, lease)| lease).collect()
    }

    /// Claims up to so many jobs and gives their numbers.
    pub async fn claim_ids(&self, max: usize) -> Vec<u128> {
        self.claim(max).await.iter().map(|lease| lease.job.as_u128()).collect()
    }

    /// Claims as asked and gives the numbers.
    pub async fn ids_as(&self, request: ClaimRequest) -> Vec<u128> {
        let jobs = self.claim_as(request).await;
        jobs.iter().map(|(job, _)| job.id().as_u128()).collect()
    }

    /// What a claim could take now, without some that were turned down.
    pub async fn candidates(&self, max: usize, except: &[Seq]) -> Candidates {
        let except = except.iter().copied().collect();
        self.store.candidates(self.now, self.request(max), except).await.unwrap()
    }

    /// Claims the one job that is next.
    pub async fn take(&self) -> Lease {
        let mut leases = self.claim(1).await;
        leases.pop().expect("a job is ready")
    }

    /// Claims the one job that is next, which is this one.
    pub async fn take_job(&self, n: u128) -> Lease {
        let lease = self.take().await;
        assert_eq!(lease.job, id(n), "another job was next");
        lease
    }

    /// Claims jobs one by one, completing each before the next, and gives the order.
    pub async fn drain_one_by_one(&self, max: usize) -> Vec<u128> {
        let mut order = Vec::new();
        while order.len() < max {
            let Some(lease) = self.claim(1).await.pop() else { break };
            order.push(lease.job.as_u128());
            self.done(&lease).await;
        }
        order
    }

    /// Nothing can be claimed.
    pub async fn assert_nothing_ready(&self) {
        assert_eq!(self.claim_ids(10).await, [], "something was ready at {}", self.now);
    }

    /// Ends an attempt.
    pub async fn finish(&self, lease: &Lease, outcome: Outcome) -> Finished {
        let end = Finish { lease: lease.clone(), outcome };
        let mut answers = self.store.finish(self.now, vec![end]).await.unwrap();
        assert_eq!(answers.len(), 1);
        answers.remove(0)
    }

    /// Completes an attempt that is held.
    pub async fn done(&self, lease: &Lease) {
        assert_eq!(self.finish(lease, done()).await, ended(StateWord::Completed));
    }

    /// Fails an attempt in a way that may go better next time.
    pub async fn fail(&self, lease: &Lease) -> Finished {
        self.finish(lease, failed(ErrorKind::Transient)).await
    }

    /// Claims the next job and completes it.
    pub async fn run_job(&self, n: u128) {
        let lease = self.take_job(n).await;
        self.done(&lease).await;
    }

    /// A heartbeat.
    pub async fn extend(&self, lease: &Lease, seconds: u64) -> Extended {
        let beat = Extend { lease: lease.clone(), lease_for: secs(seconds), progress: None };
        let answers = self.store.extend(self.now, vec![beat]).await.unwrap();
        assert_eq!(answers.len(), 1);
        answers[0]
    }

    /// One round of the reaper.
    pub async fn reap(&self) -> Reaped {
        self.store.reap(self.now, Vec::new()).await.unwrap()
    }

    /// Withdraws jobs.
    pub async fn cancel(&self, jobs: &[u128], cascade: bool) -> u64 {
        let filter = JobFilter::of_ids(jobs.iter().copied().map(id));
        self.store.cancel(self.now, filter, cascade).await.unwrap()
    }

    /// Sends jobs round again.
    pub async fn retry(&self, jobs: &[u128]) -> u64 {
        let filter = JobFilter::of_ids(jobs.iter().copied().map(id));
        self.store.retry(self.now, filter).await.unwrap()
    }

    /// Defines services.
    pub async fn services(&self, specs: impl IntoIterator<Item = ServiceSpec>) {
        self.store.upsert_services(self.now, specs.into_iter().collect()).await.unwrap();
    }

    /// One service and its use.
    pub async fn service(&self, name: &str) -> ServiceInfo {
        let all = self.store.services(self.now).await.unwrap();
        all.into_iter().find(|info| info.spec.name == service(name)).expect("it is defined")
    }

    /// A job that exists.
    pub async fn job(&self, n: u128) -> Job {
        let mut found = self.store.get(vec![id(n)]).await.unwrap();
        found.pop().flatten().expect("the job exists")
    }

    /// The word for a job's state.
    pub async fn state(&self, n: u128) -> StateWord {
        self.job(n).await.life.state.word()
    }

    /// The words for the states of jobs.
    pub async fn states(&self, jobs: &[u128]) -> Vec<StateWord> {
        let found = self.store.get(jobs.iter().copied().map(id).collect()).await.unwrap();
        found.into_iter().map(|job| job.expect("the job exists").life.state.word()).collect()
    }

    /// The kinds of the events of a job, in order.
    pub async fn story(&self, n: u128) -> Vec<EventKind> {
        let events = self.store.events(0, 1_000_000).await.unwrap();
        events.iter().filter(|e| e.job == Some(id(n))).map(|event| event.kind).collect()
    }

    /// The store agrees with itself.
    pub async fn check(&self) {
        assert_eq!(self.store.check(self.now).await.unwrap(), Vec::<String>::new());
    }
}

/// The answer to an end that settles a job.
pub fn ended(state: StateWord) -> Finished {
    Finished::Now { state, retry_at: None }
}

/// The answer to an end after which the job waits until an instant.
pub fn retried(at: Timestamp) -> Finished {
    Finished::Now { state: StateWord::Queued, retry_at: Some(at) }
}
