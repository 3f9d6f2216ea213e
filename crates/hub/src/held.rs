//! The leases that this hub has handed out: what a heartbeat or a result of a client that names only its worker
//! is checked against without asking the store, and how long each attempt may run. What another hub handed out is
//! asked of the store.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use runcue_core::{Job, JobId, Lease, Timestamp, WorkerId};
use runcue_store::Store;

use crate::error::{Answer, Refusal};

/// Leases that are remembered; beyond that the store is asked.
const MOST: usize = 200_000;

/// A lease, and what must be known to judge a heartbeat under it.
#[derive(Clone, Debug)]
pub struct Held {
    /// The lease.
    pub lease: Lease,
    /// How long the attempt may run.
    pub timeout: Option<Duration>,
    /// When it was handed out.
    pub since: Timestamp,
}

impl Held {
    fn of(job: &Job, lease: &Lease, since: Timestamp) -> Self {
        Self { lease: lease.clone(), timeout: job.spec.timeout, since }
    }

    /// Whether the attempt has run longer than it may.
    pub fn is_over(&self, now: Timestamp) -> Option<Duration> {
        self.timeout.filter(|timeout| now.since(self.since) > *timeout)
    }
}

/// The leases that this hub has handed out.
#[derive(Debug, Default)]
pub struct HeldJobs {
    held: Mutex<HashMap<JobId, Held>>,
}

impl HeldJobs {
    fn held(&self) -> std::sync::MutexGuard<'_, HashMap<JobId, Held>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers what was handed out.
    pub fn add(&self, jobs: &[(Job, Lease)], now: Timestamp) {
        let mut held = self.held();
        if held.len() + jobs.len() > MOST {
            // What lapsed long ago was never ended here; everything else can be asked again.
            held.retain(|_, one| one.lease.until > now);
            if held.len() + jobs.len() > MOST {
                held.clear();
            }
        }
        held.extend(jobs.iter().map(|(job, lease)| (job.id(), Held::of(job, lease, now))));
    }

    /// Forgets what has ended.
    pub fn remove(&self, ids: impl IntoIterator<Item = JobId>) {
        let mut held = self.held();
        for id in ids {
            held.remove(&id);
        }
    }

    /// Takes out every lease that a worker holds.
    pub fn take_of(&self, worker: WorkerId) -> Vec<Lease> {
        let mut held = self.held();
        let of_worker = held.extract_if(|_, one| one.lease.worker == worker);
        of_worker.map(|(_, one)| one.lease).collect()
    }

    /// The lease of a job that a worker says it holds.
    pub async fn find(&self, store: &dyn Store, id: JobId, worker: WorkerId) -> Answer<Held> {
        let known = self.held().get(&id).filter(|held| held.lease.worker == worker).cloned();
        if let Some(held) = known {
            return Ok(held);
        }
        let job = store.get(vec![id]).await?.into_iter().next().flatten();
        let job = job.ok_or_else(|| Refusal::no_job(id))?;
        let lease = job.life.state.lease().filter(|lease| lease.worker == worker);
        let lease = lease.ok_or_else(|| Refusal::lease_lost(id))?;
        let since = job.life.started_at.unwrap_or(lease.until);
        let held = Held::of(&job, lease, since);
        self.held().insert(id, held.clone());
        Ok(held)
    }

    /// How long an attempt may run that a client has named by its lease, if this hub knows it.
    pub fn known(&self, lease: &Lease) -> Option<Held> {
        self.held().get(&lease.job).filter(|held| held.lease.same_as(lease)).cloned()
    }
}
