//! What workers are called. Stores know a worker instance by 128 bits; the hub's clients know a worker by the name
//! it registered with. Owns the way from one to the other.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use runcue_core::{Capabilities, TaskName, Timestamp, WorkerId};
use runcue_store::{Store, WorkerSpec};
use sha2::{Digest, Sha256};

/// How often the store is asked about a worker that is not known.
const ASK_EVERY: Duration = Duration::from_secs(1);
/// Names that are remembered; beyond that all are learnt anew.
const MOST: usize = 100_000;

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
    asked_at: Timestamp,
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
        known.registered.insert(id, registered);
    }

    /// Remembers the name of a worker that has not registered.
    pub fn note(&self, id: WorkerId, name: &str) {
        let mut known = self.known();
        if known.names.len() < MOST && !known.names.contains_key(&id) {
            known.names.insert(id, name.to_owned());
        }
    }

    /// Forgets a worker that said goodbye; its name is still shown.
    pub fn forget(&self, id: WorkerId) {
        self.known().registered.remove(&id);
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

    /// Learns the names of these workers, if some are not known and it is not too soon to ask.
    pub async fn learn(&self, store: &dyn Store, ids: &[WorkerId], now: Timestamp) {
        {
            let mut known = self.known();
            let all_known = ids.iter().all(|id| known.names.contains_key(id));
            if all_known || now.since(known.asked_at) < ASK_EVERY {
                return;
            }
            known.asked_at = now;
        }
        // A name that cannot be found out is shown as the id.
        let Ok(workers) = store.workers().await else { return };
        let mut known = self.known();
        for worker in workers.into_iter().take(MOST) {
            known.names.insert(worker.spec.id, worker.spec.name);
        }
    }

    /// What a worker is called.
    pub fn of(&self, id: WorkerId) -> String {
        self.known().names.get(&id).cloned().unwrap_or_else(|| id.to_string())
    }

    /// What a worker offers: what it registered with, here or at another hub; nothing means everything.
    pub async fn offers(&self, store: &dyn Store, id: WorkerId) -> Option<Capabilities> {
        if let Some(registered) = self.registered(id) {
            return Some(registered.spec.offers);
        }
        let workers = store.workers().await.ok()?;
        let worker = workers.into_iter().find(|worker| worker.spec.id == id)?;
        let offers = worker.spec.offers.clone();
        let told_at = worker.seen_at;
        self.register(Registered { spec: worker.spec, types: Vec::new(), told_at });
        Some(offers)
    }
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
