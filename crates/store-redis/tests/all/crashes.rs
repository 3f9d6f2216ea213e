//! A server that is killed, frozen or out of reach in the middle of work. A ledger of what was acknowledged is
//! compared with what is there afterwards.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use runcue_core::{EventKind, JobId, StateWord};
use runcue_store::{ClaimRequest, Finish, Finished, Store, SubmitBatch};
use runcue_store_redis::RedisStore;
use runcue_store_suite::scene::{BEGINNING, done, id, job, worker};
use runcue_test_servers::{Proxy, Redis};

/// Short, because work that was under way when the server went comes back only when its lease has lapsed.
const LEASE: Duration = Duration::from_secs(2);
/// Anything that takes longer than this has not happened.
const BOUND: Duration = Duration::from_secs(90);

fn is_long() -> bool {
    std::env::var_os("RUNCUE_LONG").is_some()
}

/// What was acknowledged.
#[derive(Default)]
struct Ledger {
    submitted: Mutex<HashSet<JobId>>,
    finished: Mutex<HashSet<JobId>>,
    begun: Mutex<HashMap<JobId, u32>>,
    again: Mutex<Vec<JobId>>,
}

impl Ledger {
    fn finished(&self) -> usize {
        self.finished.lock().unwrap().len()
    }
}

/// Daemons at work on one server.
struct Load {
    ledger: Arc<Ledger>,
    stores: Vec<Arc<RedisStore>>,
    full: Arc<AtomicBool>,
    over: Arc<AtomicBool>,
    submitters: Vec<tokio::task::JoinHandle<()>>,
    tasks: Vec<tokio::task::JoinHandle<()>>,
}

impl Load {
    fn begin(urls: &[String]) -> Self {
        // Daemons that write by script and by transaction, in turn.
        let open = |(url, how): (&String, &str)| {
            Arc::new(runcue_store_redis::open_url(&format!("{url}{how}")).unwrap())
        };
        let ways = ["?transactions=off", ""].into_iter().cycle();
        let stores: Vec<Arc<RedisStore>> = urls.iter().zip(ways).map(open).collect();
        let (ledger, full, over) = (Arc::default(), Arc::default(), Arc::default());
        let (submitters, tasks) = (Vec::new(), Vec::new());
        let mut load = Self { ledger, stores, full, over, submitters, tasks };
        for (n, store) in load.stores.clone().into_iter().enumerate() {
            let (ledger, full, over) = (load.ledger.clone(), load.full.clone(), load.over.clone());
            load.submitters.push(tokio::spawn(submit(store.clone(), ledger.clone(), n, full)));
            load.tasks.push(tokio::spawn(work(store.clone(), ledger, n, over.clone())));
            load.tasks.push(tokio::spawn(reap(store, over)));
        }
        load
    }

    /// Waits until so many more jobs are finished: work flows.
    async fn flows(&self, more: usize) {
        let (begun, wanted) = (Instant::now(), self.ledger.finished() + more);
        while self.ledger.finished() < wanted {
            assert!(begun.elapsed() < BOUND, "work does not flow: {:?}", self.troubles());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    fn troubles(&self) -> Vec<Option<String>> {
        self.stores.iter().map(|store| store.trouble()).collect()
    }

    /// Lets the daemons finish all there is and compares the ledger with the store.
    async fn settle(self) {
        self.full.store(true, Ordering::Release);
        for submitter in self.submitters {
            submitter.await.unwrap();
        }
        let begun = Instant::now();
        let store = &self.stores[0];
        loop {
            let stats = store.stats(BEGINNING).await;
            if stats.as_ref().is_ok_and(|stats| stats.counts.live() == 0) {
                break;
            }
            assert!(begun.elapsed() < BOUND, "work is left over: {stats:?}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        self.over.store(true, Ordering::Release);
        for task in self.tasks {
            task.await.unwrap();
        }
        let submitted: Vec<JobId> = self.ledger.submitted.lock().unwrap().iter().copied().collect();
        let jobs = store.get(submitted.clone()).await.unwrap();
        for (id, job) in submitted.iter().zip(&jobs) {
            let job =
                job.as_ref().unwrap_or_else(|| panic!("{id} was acknowledged and is not there"));
            assert_eq!(job.life.state.word(), StateWord::Completed, "{id}: {:?}", job.life);
        }
        let again = self.ledger.again.lock().unwrap().clone();
        assert!(again.is_empty(), "finished jobs ran again: {again:?}");
        assert_eq!(store.check(BEGINNING).await.unwrap(), Vec::<String>::new());
        let mut ended = HashMap::new();
        for event in store.events(0, 1_000_000).await.unwrap() {
            if event.kind == EventKind::Completed {
                *ended.entry(event.job).or_insert(0) += 1;
            }
        }
        assert!(ended.values().all(|count| *count == 1), "a job completed twice");
        assert!(submitted.len() > 20, "hardly anything was submitted");
    }
}

async fn submit(store: Arc<RedisStore>, ledger: Arc<Ledger>, daemon: usize, full: Arc<AtomicBool>) {
    let mut next = (daemon as u128 + 1) << 64;
    while !full.load(Ordering::Acquire) {
        let jobs: Vec<_> = (next..next + 5).map(job).collect();
        let ids: Vec<JobId> = (next..next + 5).map(id).collect();
        // A submission that was not acknowledged is repeated as it was.
        if store.submit(BEGINNING, SubmitBatch::of(jobs)).await.is_ok() {
            ledger.submitted.lock().unwrap().extend(ids);
            next += 5;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn work(store: Arc<RedisStore>, ledger: Arc<Ledger>, daemon: usize, over: Arc<AtomicBool>) {
    let me = worker(daemon as u128 + 1);
    while !over.load(Ordering::Acquire) {
        let request = ClaimRequest { lease: LEASE, ..ClaimRequest::new(me, 10) };
        let asked = Instant::now();
        let Ok(claimed) = store.claim(BEGINNING, request).await else { continue };
        if claimed.jobs.is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        // As in the engine: what was claimed so long ago that the lease is over is somebody else's by now.
        if asked.elapsed() >= LEASE {
            continue;
        }
        let mut ends = Vec::new();
        for (job, lease) in claimed.jobs {
            *ledger.begun.lock().unwrap().entry(job.id()).or_default() += 1;
            if ledger.finished.lock().unwrap().contains(&job.id()) {
                ledger.again.lock().unwrap().push(job.id());
            }
            ends.push(Finish { lease, outcome: done() });
        }
        let ids: Vec<JobId> = ends.iter().map(|end| end.lease.job).collect();
        let Ok(answers) = store.finish(BEGINNING, ends).await else { continue };
        let acknowledged = ids.iter().zip(&answers).filter(|(_, answer)| {
            matches!(answer, Finished::Now { state: StateWord::Completed, .. })
        });
        ledger.finished.lock().unwrap().extend(acknowledged.map(|(id, _)| *id));
    }
}

async fn reap(store: Arc<RedisStore>, over: Arc<AtomicBool>) {
    while !over.load(Ordering::Acquire) {
        let _ = store.reap(BEGINNING, Vec::new()).await;
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_killed_loses_nothing_it_has_acknowledged() {
    let mut server = Redis::settings().durable().start().unwrap();
    let load = Load::begin(&[server.url(), server.url()]);
    for _ in 0..if is_long() { 20 } else { 3 } {
        load.flows(40).await;
        server.kill9();
        server.restart().unwrap();
    }
    load.flows(40).await;
    load.settle().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_frozen_is_worked_with_again_after_the_thaw() {
    let server = Redis::settings().durable().start().unwrap();
    let load = Load::begin(&[server.url(), server.url()]);
    load.flows(20).await;
    let frost = Duration::from_secs(if is_long() { 10 } else { 6 });
    server.freeze();
    tokio::time::sleep(frost).await;
    server.thaw();
    load.flows(40).await;
    load.settle().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_parted_network_is_worked_over_again_when_it_heals() {
    let server = Redis::settings().durable().start().unwrap();
    let proxy = Proxy::to(server.port()).unwrap();
    let load = Load::begin(&[server.url(), server.url_through(&proxy)]);
    for _ in 0..if is_long() { 10 } else { 3 } {
        load.flows(20).await;
        proxy.cut();
        load.flows(20).await;
        proxy.refuse();
        load.flows(20).await;
        proxy.heal();
    }
    load.flows(20).await;
    proxy.part();
    tokio::time::sleep(Duration::from_secs(if is_long() { 12 } else { 3 })).await;
    proxy.heal();
    load.flows(40).await;
    load.settle().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_has_forgotten_everything_is_begun_anew() {
    let settings = Redis::settings().set("appendonly", "no");
    let mut server = settings.start().unwrap();
    let store = runcue_store_redis::open_url(&server.url()).unwrap();
    for n in 1..=9 {
        store.submit(BEGINNING, SubmitBatch::of(vec![job(n)])).await.unwrap();
    }
    server.kill9();
    server.restart().unwrap();
    // Another daemon has brought the revision to the same number with other jobs.
    let other = runcue_store_redis::open_url(&server.url()).unwrap();
    for n in 11..=19 {
        other.submit(BEGINNING, SubmitBatch::of(vec![job(n)])).await.unwrap();
    }
    assert_eq!(store.stats(BEGINNING).await.unwrap().counts.queued, 9);
    let claimed = store.claim(BEGINNING, ClaimRequest::new(worker(1), 99)).await.unwrap().jobs;
    let ids: Vec<JobId> = claimed.iter().map(|(job, _)| job.id()).collect();
    assert_eq!(ids, (11..=19).map(id).collect::<Vec<_>>());
    assert_eq!(store.check(BEGINNING).await.unwrap(), Vec::<String>::new());
}
