//! Plays a history on a store with the reference beside it, and compares replies and everything that can
//! be seen after every step.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use runcue_core::{
    ErrorKind, EventKind, JobFilter, JobId, JobSpec, Lease, ServiceSpec, StateWord, Timestamp, Use,
    WorkerId,
};
use runcue_store::{
    ClaimRequest, Extend, Extended, Finish, Finished, MemoryStore, Outcome, Store, SubmitBatch,
    Submitted,
};

use super::compare::agree;
use super::history::{End, Limits, NewJob, Step};
use super::reference::{Bad, Circuit, Reference, Service};
use crate::Maker;
use crate::scene::{
    BEGINNING, attempts, group, id, key, per_key, rate, secs, service, task, unlimited, worker,
};

/// What a step answered, in words that can be compared between stores.
pub type Answer = String;

/// A store and its reference.
pub struct Play {
    pub(super) store: Arc<dyn Store>,
    pub(super) reference: Reference,
    batches: Vec<Vec<JobSpec>>,
    leases: Vec<Lease>,
    next_job: u128,
    pub(super) last_event: u64,
    pub(super) stories: BTreeMap<JobId, Vec<EventKind>>,
}

fn group_of(n: u8) -> Option<runcue_core::GroupName> {
    [None, Some("a"), Some("b"), Some("c")][usize::from(n)].map(group)
}

fn definitions(limits: Limits) -> Vec<ServiceSpec> {
    let api = ServiceSpec {
        rates: vec![rate(limits.rate, 10)],
        per_key: per_key(Some(limits.key_slots), vec![]),
        ..unlimited("api")
    };
    let frail = ServiceSpec {
        circuit_threshold: Some(2),
        circuit_timeout: secs(5),
        paused: limits.paused,
        ..unlimited("frail")
    };
    vec![api, ServiceSpec { max_concurrent: Some(limits.slots), ..unlimited("db") }, frail]
}

impl Play {
    /// A fresh store with the three services.
    pub async fn new(store: Arc<dyn Store>) -> Self {
        let reference =
            Reference { now: BEGINNING, kept: vec![BTreeMap::new()], ..Reference::default() };
        let (batches, leases) = (Vec::new(), Vec::new());
        let stories = BTreeMap::new();
        let mut play =
            Self { store, reference, batches, leases, next_job: 1, last_event: 0, stories };
        play.define(Limits { rate: 5, key_slots: 1, slots: 2, paused: false }).await;
        play
    }

    /// The process dies and the store is opened again, where it can be. Answers whether something that is
    /// not durable was forgotten.
    pub async fn crash(&mut self, maker: &impl Maker) -> bool {
        if !maker.is_durable() {
            return false;
        }
        // The old handle is really gone: nothing here holds it any more.
        let old = std::mem::replace(&mut self.store, Arc::new(MemoryStore::new()));
        self.store = maker.reopen(old).await.expect("a durable store can be opened again");
        let forgotten = self.keeps();
        self.reference.free(|_| false);
        forgotten
    }

    /// Whether something of a rate may be kept for a job.
    pub fn keeps(&self) -> bool {
        self.reference.kept.iter().any(|kept| !kept.is_empty())
    }

    /// Now.
    pub(super) fn now(&self) -> Timestamp {
        self.reference.now
    }

    /// Plays a step; a disagreement is an error in words.
    pub async fn step(&mut self, step: &Step) -> Result<Answer, String> {
        let answer = match step {
            Step::Submit(jobs) => self.submit_new(jobs).await?,
            Step::SubmitAgain(n) if !self.batches.is_empty() => {
                let batch = self.batches[n % self.batches.len()].clone();
                let answer = self.submit(batch).await?;
                // A server that took known jobs for new ones begins its turn anew, and has forgotten what it kept.
                self.reference.kept.push(BTreeMap::new());
                self.reference.kept.dedup();
                answer
            }
            Step::Claim { worker: who, max, task: only, highest, start, within } => {
                let mut request = ClaimRequest::new(worker(u128::from(*who) + 1), *max);
                request.filter.tasks = only.map(task_of).into_iter().collect();
                request.filter.max_priority = *highest;
                request.start = *start;
                request.start_within = Duration::from_millis(if *within { 500 } else { 0 });
                self.claim(request).await?
            }
            Step::Extend { lease, seconds } => self.extend(*lease, *seconds).await?,
            Step::Finish { lease, end } => self.finish(*lease, *end).await?,
            Step::Reap { gone } => self.reap(gone.map(|n| worker(u128::from(n) + 1))).await?,
            Step::Cancel { job, cascade } => self.cancel(*job, *cascade).await?,
            Step::CancelGroup { group } => self.cancel_group(*group).await?,
            Step::Retry { job } => self.retry(*job).await?,
            Step::RetryGroup { group } => self.retry_group(*group).await?,
            Step::Pause { group, paused } => self.pause(*group, *paused).await?,
            Step::Schedule(tick) => self.schedule(*tick).await,
            Step::Unschedule { n } => self.unschedule(*n).await?,
            Step::Fire => self.fire().await?,
            Step::Define(limits) => self.define(*limits).await,
            Step::Wait(millis) => self.pass(Duration::from_millis(*millis)),
            Step::Back(millis) => self.set_back(Duration::from_millis(*millis)),
            Step::SubmitAgain(_) | Step::Crash => String::new(),
        };
        self.compare().await?;
        Ok(answer)
    }

    fn pass(&mut self, span: Duration) -> Answer {
        self.reference.now = self.now().plus(span);
        String::new()
    }

    /// Uses that were over before the clock was set back stay over; such an instant is not set back over.
    fn set_back(&mut self, span: Duration) -> Answer {
        let back = self.now().minus(span);
        let over = |at: Timestamp| at > back && at <= self.now();
        let starts = self.reference.services.values().flat_map(|service| &service.starts);
        let mut ends = starts.map(|start| start.at.plus(secs(10)));
        if !ends.any(over) {
            self.reference.now = back;
        }
        String::new()
    }

    async fn define(&mut self, limits: Limits) -> Answer {
        let specs = definitions(limits);
        self.store.upsert_services(self.now(), specs.clone()).await.unwrap();
        for spec in specs {
            if self.reference.services.get(&spec.name).is_none_or(|known| known.spec != spec) {
                self.reference.free(|_| false);
            }
            match self.reference.services.get_mut(&spec.name) {
                Some(known) => known.spec = spec,
                None => {
                    let (starts, circuit) = (Vec::new(), Circuit::Closed(0));
                    let held_until = Timestamp::ZERO;
                    let name = spec.name.clone();
                    let service = Service { spec, starts, circuit, held_until };
                    self.reference.services.insert(name, service);
                }
            }
        }
        String::new()
    }

    async fn submit_new(&mut self, jobs: &[NewJob]) -> Result<Answer, String> {
        let specs: Vec<JobSpec> = jobs.iter().map(|job| self.spec(job)).collect();
        self.batches.push(specs.clone());
        self.submit(specs).await
    }

    fn spec(&mut self, new: &NewJob) -> JobSpec {
        let n = self.next_job;
        self.next_job += 1;
        let now = self.now();
        let names = ["api", "db", "frail"].into_iter().enumerate();
        let used = names.filter(|(bit, _)| new.services & (1 << bit) != 0);
        let units = |name: &str| if name == "api" { new.units } else { 1 };
        let in_seconds = |seconds: Option<u64>| seconds.map(|s| now.plus(secs(s)));
        let mut depends_on: Vec<JobId> = new
            .after
            .iter()
            .filter_map(|back| n.checked_sub(u128::from(*back) + 1).filter(|n| *n > 0))
            .map(id)
            .filter(|id| id.as_u128() < n)
            .collect();
        depends_on.dedup();
        depends_on.sort();
        depends_on.dedup();
        // A prerequisite that turned out to be another job is not there.
        depends_on.retain(|id| self.reference.find(*id).is_some());
        JobSpec {
            group: group_of(new.group),
            priority: new.priority,
            services: used.map(|(_, s)| Use { service: service(s), units: units(s) }).collect(),
            key: [None, Some("k"), Some("l")][usize::from(new.key)].map(key),
            depends_on,
            run_at: in_seconds(new.run_in),
            expires_at: in_seconds(new.expires_in),
            retry: attempts(new.attempts),
            idempotency_key: new.once.map(|n| n.to_string()),
            dependency_timeout: new.patience.map(secs),
            timeout: new.timeout.map(secs),
            ..JobSpec::new(id(n), task_of(new.task))
        }
    }

    async fn submit(&mut self, specs: Vec<JobSpec>) -> Result<Answer, String> {
        let mut expected = Vec::new();
        let first_new = self.reference.jobs.len();
        for spec in &specs {
            let answers_for = |job: &&super::reference::Job| {
                let live = !matches!(
                    job.state,
                    StateWord::Failed | StateWord::Cancelled | StateWord::Quarantined
                );
                job.spec.idempotency_key == spec.idempotency_key && live
            };
            let keyed = spec.idempotency_key.is_some();
            let same_key = self.reference.jobs.iter().rev().find(answers_for).filter(|_| keyed);
            if self.reference.find(spec.id).is_some() {
                expected.push(Submitted::Existing(spec.id));
            } else if let Some(job) = same_key {
                expected.push(Submitted::Existing(job.spec.id));
            } else {
                expected.push(Submitted::New(spec.id));
                self.reference.accept(spec.clone());
            }
        }
        let new: Vec<usize> = (first_new..self.reference.jobs.len()).collect();
        self.reference.doom(&new);
        let answer = self.store.submit(self.now(), SubmitBatch::of(specs)).await;
        let answer = answer.map_err(|error| format!("refused: {error}"))?;
        agree("submitted", &answer, &expected)
    }

    async fn claim(&mut self, request: ClaimRequest) -> Result<Answer, String> {
        self.reference.begin_claim();
        let claimed = self.store.claim(self.now(), request.clone()).await.unwrap();
        let mut given = claimed.jobs.iter();
        let mut passed = HashSet::new();
        for place in 0..request.max {
            let allowed = self.reference.next(&request.filter, &passed);
            let pick = given.next();
            let n = pick.and_then(|(job, _)| self.reference.find(job.id()));
            if !allowed.iter().any(|(allowed, _)| *allowed == n) {
                let ids: Vec<Option<u128>> = allowed
                    .iter()
                    .map(|(n, _)| n.map(|n| self.reference.jobs[n].spec.id.as_u128()))
                    .collect();
                let got = pick.map(|(job, _)| job.id().as_u128());
                return Err(format!("pick {place} is job {got:?}, the reference says {ids:?}"));
            }
            let agreeing = allowed.into_iter().filter(|(allowed, _)| *allowed == n);
            self.reference.kept = agreeing.map(|(_, kept)| kept).collect();
            self.reference.kept.dedup();
            let kept = self.reference.kept.iter().flat_map(BTreeMap::values);
            passed.extend(kept.map(|kept| kept.job));
            let (Some(n), Some((_, lease))) = (n, pick) else { break };
            self.check_lease(n, lease, &request)?;
            self.reference.take(n, lease.clone(), request.start);
            self.leases.push(lease.clone());
        }
        if claimed.wake.is_some_and(|wake| wake <= self.now()) && claimed.jobs.is_empty() {
            return Err(format!("a hint to come back at {:?}, which is past", claimed.wake));
        }
        let ids = claimed.jobs.iter().map(|(job, lease)| (job.id().as_u128(), lease.token.0));
        Ok(format!("{:?}", ids.collect::<Vec<_>>()))
    }

    fn check_lease(&self, n: usize, lease: &Lease, request: &ClaimRequest) -> Result<(), String> {
        let job = &self.reference.jobs[n];
        let rated = job.spec.services.iter().any(|used| used.service == service("api"));
        let longest = job.spec.timeout.map(|timeout| self.now().plus(timeout).plus(secs(30)));
        let until = self.now().plus(request.lease);
        let expected = Lease {
            job: job.spec.id,
            attempt: job.attempt + 1,
            worker: request.worker,
            token: lease.token,
            until: longest.map_or(until, |longest| longest.min(until)),
            start_by: rated.then(|| self.now().plus(request.start_within)),
        };
        if lease.token.0 <= self.reference.served {
            return Err(format!("token {:?} was used before", lease.token));
        }
        agree("lease", lease, &expected).map(|_| ())
    }

    fn lease(&self, nth: usize) -> Option<Lease> {
        let len = self.leases.len();
        // Mostly one of the latest: they are the ones that are held.
        let nth = if nth.is_multiple_of(4) {
            nth / 4 % len.max(1)
        } else {
            len.saturating_sub(1 + nth / 4 % 6)
        };
        self.leases.get(nth).cloned()
    }

    async fn extend(&mut self, nth: usize, seconds: u64) -> Result<Answer, String> {
        let Some(lease) = self.lease(nth) else { return Ok(String::new()) };
        let until = self.now().plus(secs(seconds));
        let expected = match self.reference.holds(&lease) {
            Some(n) => {
                let until = self.reference.beat(n, until);
                Extended::Held { until, cancel: self.reference.jobs[n].cancel_requested }
            }
            None => Extended::Lost,
        };
        let beat = Extend { lease, lease_for: secs(seconds), progress: None };
        let answer = self.store.extend(self.now(), vec![beat]).await.unwrap();
        agree("extended", &answer, &vec![expected])
    }

    async fn finish(&mut self, nth: usize, end: End) -> Result<Answer, String> {
        let Some(lease) = self.lease(nth) else { return Ok(String::new()) };
        let expected = self.expect_end(&lease, end);
        let failed =
            |kind| Outcome::Failed { error: "boom".to_owned(), kind, code: None, service: None };
        let outcome = match end {
            End::Done(key) => {
                Outcome::Done { result: None, result_key: key.map(|key| key.to_string()) }
            }
            End::Transient => failed(ErrorKind::Transient),
            End::Permanent => failed(ErrorKind::Permanent),
            End::Timeout => failed(ErrorKind::Timeout),
            End::RateLimited(seconds) => {
                Outcome::RateLimited { retry_after: secs(seconds), service: None }
            }
            End::HandBack => Outcome::HandBack,
            End::Unstarted => Outcome::Unstarted,
            End::Stopped => Outcome::Stopped,
        };
        let answer = self.store.finish(self.now(), vec![Finish { lease, outcome }]).await.unwrap();
        agree("finished", &answer, &vec![expected])
    }

    fn expect_end(&mut self, lease: &Lease, end: End) -> Finished {
        let n = self.reference.find(lease.job).unwrap();
        if let End::Done(Some(key)) = end {
            let job = &self.reference.jobs[n];
            let same = job.result_key.as_deref() == Some(key.to_string().as_str());
            if job.state == StateWord::Completed && same {
                return Finished::Repeated;
            }
        }
        let Some(n) = self.reference.holds(lease) else { return Finished::Lost };
        match end {
            End::Done(key) => self.reference.complete(n, key.map(|key| key.to_string())),
            End::Transient => self.reference.fail(n, "boom", Bad::Transient),
            End::Permanent => self.reference.fail(n, "boom", Bad::Permanent),
            End::Timeout => self.reference.fail(n, "boom", Bad::Timeout),
            End::HandBack => self.reference.hand_back(n, None),
            End::Unstarted => {
                self.reference.unused(n);
                self.reference.hand_back(n, None);
            }
            End::Stopped => self.reference.stop(n),
            End::RateLimited(seconds) => {
                let until = self.now().plus(secs(seconds));
                let services = self.reference.jobs[n].spec.services.clone();
                self.reference.hand_back(n, services.is_empty().then_some(until));
                for used in services {
                    let service = self.reference.services.get_mut(&used.service).unwrap();
                    service.held_until = service.held_until.max(until);
                }
            }
        }
        let job = &self.reference.jobs[n];
        Finished::Now { state: job.state, retry_at: job.due }
    }

    async fn reap(&mut self, gone: Option<WorkerId>) -> Result<Answer, String> {
        let mut expected = self.reference.reap(gone);
        let reaped = self.store.reap(self.now(), gone.into_iter().collect()).await.unwrap();
        let mut answer = [reaped.requeued, reaped.quarantined, reaped.overdue];
        for list in answer.iter_mut().chain(&mut expected) {
            list.sort();
        }
        agree("reaped", &answer, &expected)
    }

    async fn cancel(&mut self, nth: usize, cascade: bool) -> Result<Answer, String> {
        let len = self.reference.jobs.len();
        if len == 0 {
            return Ok(String::new());
        }
        let n = nth % len;
        let filter = JobFilter::of_ids([self.reference.jobs[n].spec.id]);
        let expected = u64::from(self.reference.cancel(n, cascade));
        let answer = self.store.cancel(self.now(), filter, cascade).await.unwrap();
        agree("cancelled", &answer, &expected)
    }

    async fn cancel_group(&mut self, n: u8) -> Result<Answer, String> {
        let name = group_of(n).unwrap();
        let mut expected = 0;
        for n in 0..self.reference.jobs.len() {
            let job = &self.reference.jobs[n];
            if job.spec.group.as_ref() == Some(&name) && job.state == StateWord::Queued {
                expected += u64::from(self.reference.cancel(n, false));
            }
        }
        let filter = JobFilter::of_group(name).in_states([StateWord::Queued]);
        let answer = self.store.cancel(self.now(), filter, false).await.unwrap();
        agree("cancelled", &answer, &expected)
    }

    async fn retry(&mut self, nth: usize) -> Result<Answer, String> {
        let len = self.reference.jobs.len();
        if len == 0 {
            return Ok(String::new());
        }
        let n = nth % len;
        let filter = JobFilter::of_ids([self.reference.jobs[n].spec.id]);
        let expected = self.reference.retry(vec![n]);
        let answer = self.store.retry(self.now(), filter).await.unwrap();
        agree("retried", &answer, &expected)
    }

    async fn retry_group(&mut self, n: u8) -> Result<Answer, String> {
        let name = group_of(n).unwrap();
        let jobs = self.reference.jobs.iter().enumerate();
        let own = jobs.filter(|(_, job)| job.spec.group.as_ref() == Some(&name)).map(|(n, _)| n);
        let own = own.collect();
        let expected = self.reference.retry(own);
        let answer = self.store.retry(self.now(), JobFilter::of_group(name)).await.unwrap();
        agree("retried", &answer, &expected)
    }

    async fn pause(&mut self, n: u8, paused: bool) -> Result<Answer, String> {
        let name = group_of(n).unwrap();
        let known = self.reference.groups.entry(Some(name.clone())).or_default();
        let expected = known.paused != paused;
        known.paused = paused;
        let answer = self.store.set_group_paused(self.now(), name, paused).await.unwrap();
        agree("paused", &answer, &expected)
    }
}

fn task_of(n: u8) -> runcue_core::TaskName {
    task(["build", "test"][usize::from(n)])
}
