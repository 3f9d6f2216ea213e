//! Work that goes on while something goes wrong with the server, and the book that is kept of it: what was
//! acknowledged, what was handed out, what was finished.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use runcue_core::{JobId, JobSpec, StateWord, TaskName, Timestamp, WorkerId};
use runcue_store::{ClaimRequest, Finish, Finished, Outcome, Store, StoreError, SubmitBatch};
use runcue_store_postgres::PostgresStore;

/// Long enough for anything that should happen by itself.
const PATIENCE: Duration = Duration::from_secs(90);
/// Jobs in one submission.
const BATCH: u64 = 20;

/// A submitter and workers on stores, and their book.
#[derive(Default)]
pub struct Load {
    stop: AtomicBool,
    next: AtomicU64,
    pub acknowledged: Mutex<BTreeSet<JobId>>,
    pub finished: Mutex<BTreeSet<JobId>>,
}

fn clock() -> Timestamp {
    // The server's clock counts; what is passed is only shifted.
    Timestamp::from_micros(1)
}

impl Load {
    /// Submits until told to stop. A call that failed is repeated: with the same ids nothing is there twice.
    async fn submit(&self, store: &PostgresStore) {
        while !self.stop.load(Ordering::Acquire) {
            let from = self.next.fetch_add(BATCH, Ordering::AcqRel) + 1;
            let ids: Vec<JobId> =
                (from..from + BATCH).map(|n| JobId::from_u128(u128::from(n))).collect();
            let task = TaskName::new("work").unwrap();
            let specs = ids.iter().map(|id| JobSpec::new(*id, task.clone()));
            let batch = SubmitBatch::of(specs.collect());
            while let Err(error) = store.submit(clock(), batch.clone()).await {
                assert!(matches!(error, StoreError::Unavailable(_)), "{error}");
            }
            self.acknowledged.lock().unwrap().extend(ids);
        }
    }

    /// Works until everything that was acknowledged is finished.
    async fn work(&self, store: &PostgresStore, worker: u128) {
        let begun = Instant::now();
        let mut request = ClaimRequest::new(WorkerId::from_u128(worker), 30);
        request.lease = Duration::from_secs(2);
        while !self.is_done() {
            assert!(begun.elapsed() < PATIENCE, "work does not flow again");
            let _ = store.reap(clock(), Vec::new()).await;
            let Ok(claimed) = store.claim(clock(), request.clone()).await else { continue };
            for (job, _) in &claimed.jobs {
                let again = self.finished.lock().unwrap().contains(&job.id());
                assert!(!again, "{} was finished and is handed out again", job.id());
            }
            let outcome = Outcome::Done { result: None, result_key: None };
            let ends = claimed.jobs.into_iter();
            let ends: Vec<Finish> =
                ends.map(|(_, lease)| Finish { lease, outcome: outcome.clone() }).collect();
            let Ok(answers) = store.finish(clock(), ends.clone()).await else { continue };
            let mut finished = self.finished.lock().unwrap();
            for (end, answer) in ends.iter().zip(answers) {
                if let Finished::Now { state, .. } = answer {
                    assert_eq!(state, StateWord::Completed);
                    finished.insert(end.lease.job);
                }
            }
        }
    }

    fn is_done(&self) -> bool {
        // An end whose acknowledgement was lost counts for the store, which is asked at last.
        self.stop.load(Ordering::Acquire)
            && self.finished.lock().unwrap().len() + 200 > self.acknowledged.lock().unwrap().len()
    }

    /// How much was finished so far.
    pub fn count(&self) -> usize {
        self.finished.lock().unwrap().len()
    }

    /// Waits until so much was finished.
    pub async fn reach(&self, count: usize) {
        let begun = Instant::now();
        while self.count() < count {
            assert!(begun.elapsed() < PATIENCE, "work does not flow: {} of {count}", self.count());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

/// Runs a load on stores while something happens to the server, and checks the book afterwards.
pub async fn during<F: Future<Output = ()>>(
    stores: Vec<Arc<PostgresStore>>,
    happens: impl FnOnce(Arc<Load>) -> F,
) {
    let load = Arc::new(Load::default());
    let mut hands = Vec::new();
    for (n, store) in (1_u128..).zip(&stores) {
        let (own, theirs) = (load.clone(), store.clone());
        hands.push(tokio::spawn(async move { own.submit(&theirs).await }));
        let (own, theirs) = (load.clone(), store.clone());
        hands.push(tokio::spawn(async move { own.work(&theirs, n).await }));
    }
    load.reach(200).await;
    happens(load.clone()).await;
    let before = load.count();
    load.reach(before + 200).await;
    load.stop.store(true, Ordering::Release);
    for hand in hands {
        hand.await.unwrap();
    }
    // The rest: leases whose claim was never heard of lapse and are worked off.
    let store = &stores[0];
    let begun = Instant::now();
    let acknowledged: Vec<JobId> = load.acknowledged.lock().unwrap().iter().copied().collect();
    loop {
        let jobs = store.get(acknowledged.clone()).await.unwrap();
        let open = jobs.iter().filter(|job| {
            let job = job.as_ref().expect("what was acknowledged is there");
            job.life.state.word() != StateWord::Completed
        });
        if open.count() == 0 {
            break;
        }
        assert!(begun.elapsed() < PATIENCE, "something is left behind");
        store.reap(clock(), Vec::new()).await.unwrap();
        let mut request = ClaimRequest::new(WorkerId::from_u128(99), 500);
        request.lease = Duration::from_secs(2);
        let claimed = store.claim(clock(), request).await.unwrap();
        let outcome = Outcome::Done { result: None, result_key: None };
        let ends =
            claimed.jobs.into_iter().map(|(_, lease)| Finish { lease, outcome: outcome.clone() });
        store.finish(clock(), ends.collect()).await.unwrap();
    }
    assert_eq!(store.check(clock()).await.unwrap(), Vec::<String>::new());
    assert_eq!(store.trouble(), None);
    let total = store.stats(clock()).await.unwrap().counts.total();
    assert_eq!(total, acknowledged.len() as u64, "nothing is there twice");
}
