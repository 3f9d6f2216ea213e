//! What workers are called. Stores know a worker instance by 128 bits; the hub's clients know a worker by the name
//! it registered with. Owns the way from one to the other.
//!
//! A worker that is registered has its name in the store. The name of one that never registered, or that has said
//! goodbye, is kept beside the queue for as long as events are, so that every hub can still say who ran a job.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use runcue_core::{Capabilities, Json, TaskName, Timestamp, WorkerId};
use runcue_store::{Record, Store, StoreError, WorkerInfo, WorkerSpec};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// How often the store is asked again about workers that it did not know.
const ASK_EVERY: Duration = Duration::from_secs(1);
/// Names that are remembered; beyond that all are learnt anew.
const MOST: usize = 100_000;
const DAY: Duration = Duration::from_secs(24 * 3600);
/// How long a name is kept beside the queue: as long as events are, unless retention says otherwise.
const KEPT_FOR: Duration = Duration::from_secs(7 * 24 * 3600);
/// Names that are kept beside the queue.
const MOST_KEPT: usize = 10_000;
const KIND: &str = "worker";

/// What a worker said of itself.
#[derive(Clone, Debug)]
pub struct Registered {
    /// As the store knows it.
    pub spec: WorkerSpec,
    /// Job types it takes, unless a claim says otherwise.
    pub types: Vec<TaskName>,
    /// When the store was last told that it is there.
    pub told_at: Timestamp,
}

/// The names of workers.
#[derive(Debug, Default)]
pub struct Names {
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    names: HashMap<WorkerId, String>,
    registered: HashMap<WorkerId, Registered>,
    /// Workers that were asked for and that the store did not know.
    nameless: HashSet<WorkerId>,
    asked_at: Timestamp,
    /// Workers that claim and have not registered.
    unregistered: HashSet<WorkerId>,
    looked_at: Timestamp,
    /// When names were last kept beside the queue from here.
    kept_at: HashMap<WorkerId, Timestamp>,
}

/// A name as it is kept beside the queue.
#[derive(Debug, Serialize, Deserialize)]
struct Kept {
    name: String,
    at: i64,
}

/// The identity of a worker that says only its name: the same wherever and whenever it is asked.
pub fn instance_of(worker_id: &str) -> WorkerId {
    let digest = Sha256::new().chain_update(b"runcue worker\0").chain_update(worker_id).finalize();
    let mut bits = [0_u8; 16];
    bits.copy_from_slice(&digest[..16]);
    WorkerId::from_u128(u128::from_be_bytes(bits))
}

impl Names {
    fn known(&self) -> std::sync::MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers a worker that has registered.
    pub fn register(&self, registered: Registered) {
        let mut known = self.known();
        let id = registered.spec.id;
        if known.names.len() >= MOST {
            *known = Known::default();
        }
        known.names.insert(id, registered.spec.name.clone());
        known.unregistered.remove(&id);
        known.registered.insert(id, registered);
    }

    /// Takes note of the name of a worker that claims, and sees to it that other hubs know it before they hear of
    /// anything the worker does.
    pub async fn note(
        &self,
        store: &dyn Store,
        id: WorkerId,
        name: &str,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        {
            let mut known = self.known();
            if known.registered.contains_key(&id) {
                return Ok(());
            }
            let lately = known.kept_at.get(&id).is_some_and(|at| now.since(*at) < DAY);
            if lately {
                return Ok(());
            }
            if known.names.len() < MOST {
                known.names.insert(id, name.to_owned());
            }
        }
        self.keep(store, id, name, now).await
    }

    async fn keep(
        &self,
        store: &dyn Store,
        id: WorkerId,
        name: &str,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let kept = Kept { name: name.to_owned(), at: now.as_millis() };
        let text = serde_json::to_string(&kept).unwrap_or_default();
        let value = Some(Json::trusted(text));
        let record = Record { kind: KIND.to_owned(), name: id.to_string(), value };
        store.put_records(now, vec![record]).await?;
        let mut known = self.known();
        if known.kept_at.len() >= MOST_KEPT {
            known.kept_at.clear();
        }
        known.kept_at.insert(id, now);
        Ok(())
    }

    /// Forgets a worker that said goodbye; its name is still shown.
    pub async fn forget(
        &self,
        store: &dyn Store,
        worker: &WorkerSpec,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        self.known().registered.remove(&worker.id);
        self.keep(store, worker.id, &worker.name, now).await
    }

    /// Deletes names that have been kept for long enough.
    pub async fn prune(&self, store: &dyn Store, now: Timestamp) -> Result<(), StoreError> {
        let records = store.records(KIND).await?;
        let mut by_age: Vec<(i64, String)> = records
            .into_iter()
            .map(|record| (kept(&record).map_or(0, |one| one.at), record.name))
            .collect();
        by_age.sort_unstable();
        let over = by_age.len().saturating_sub(MOST_KEPT);
        let horizon = now.minus(KEPT_FOR).as_millis();
        let goes = |(n, (at, name)): (usize, (i64, String))| {
            let goes = n < over || at < horizon;
            goes.then(|| Record { kind: KIND.to_owned(), name, value: None })
        };
        let gone: Vec<Record> = by_age.into_iter().enumerate().filter_map(goes).collect();
        if gone.is_empty() {
            return Ok(());
        }
        store.put_records(now, gone).await
    }

    /// What a worker said of itself here.
    pub fn registered(&self, id: WorkerId) -> Option<Registered> {
        self.known().registered.get(&id).cloned()
    }

    /// Takes note that the store was told of a worker; answers whether it was time to.
    pub fn tell(&self, id: WorkerId, now: Timestamp, every: Duration) -> Option<WorkerSpec> {
        let mut known = self.known();
        let registered = known.registered.get_mut(&id)?;
        if now.since(registered.told_at) < every {
            return None;
        }
        registered.told_at = now;
        Some(registered.spec.clone())
    }

    /// Learns the names of these workers, if some are not known. What the store does not know it is not asked for
    /// again at once.
    pub async fn learn(&self, store: &dyn Store, ids: &[WorkerId], now: Timestamp) {
        let unknown: Vec<WorkerId> = {
            let mut known = self.known();
            let unknown = |id: &&WorkerId| !known.names.contains_key(id);
            let unknown: Vec<_> = ids.iter().filter(unknown).copied().collect();
            let lately = now.since(known.asked_at) < ASK_EVERY;
            if unknown.is_empty() || lately && unknown.iter().all(|id| known.nameless.contains(id))
            {
                return;
            }
            known.asked_at = now;
            unknown
        };
        // A name that cannot be found out is shown as the id.
        let (Ok(workers), Ok(records)) = (store.workers().await, store.records(KIND).await) else {
            return;
        };
        let mut known = self.known();
        let of_record = |record: &Record| Some((record.name.parse().ok()?, kept(record)?.name));
        known.names.extend(records.iter().filter_map(of_record).take(MOST));
        let named = workers.into_iter().map(|worker| (worker.spec.id, worker.spec.name));
        known.names.extend(named.take(MOST));
        if known.nameless.len() >= MOST {
            known.nameless.clear();
        }
        for id in unknown {
            if !known.names.contains_key(&id) {
                known.nameless.insert(id);
            }
        }
    }

    /// What a worker is called.
    pub fn of(&self, id: WorkerId) -> String {
        self.known().names.get(&id).cloned().unwrap_or_else(|| id.to_string())
    }

    /// What a worker offers: what it registered with, here or at another hub; nothing means everything. Whether
    /// those that have not registered have done so since is asked for all of them together.
    pub async fn offers(
        &self,
        store: &dyn Store,
        id: WorkerId,
        now: Timestamp,
    ) -> Option<Capabilities> {
        {
            let known = self.known();
            if let Some(registered) = known.registered.get(&id) {
                return Some(registered.spec.offers.clone());
            }
            if known.unregistered.contains(&id) && now.since(known.looked_at) < ASK_EVERY {
                return None;
            }
        }
        let workers = store.workers().await.ok()?;
        self.look_at(workers, id, now);
        Some(self.registered(id)?.spec.offers)
    }

    fn look_at(&self, workers: Vec<WorkerInfo>, asked: WorkerId, now: Timestamp) {
        {
            let mut known = self.known();
            if known.unregistered.len() >= MOST {
                known.unregistered.clear();
            }
            known.unregistered.insert(asked);
            known.looked_at = now;
        }
        for worker in workers {
            if self.known().unregistered.contains(&worker.spec.id) {
                let told_at = worker.seen_at;
                self.register(Registered { spec: worker.spec, types: Vec::new(), told_at });
            }
        }
    }
}

fn kept(record: &Record) -> Option<Kept> {
    serde_json::from_str(record.value.as_ref()?.as_str()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_always_means_the_same_worker_and_another_name_another() {
        assert_eq!(instance_of("worker-01"), instance_of("worker-01"));
        assert_ne!(instance_of("worker-01"), instance_of("worker-02"));
    }
}
