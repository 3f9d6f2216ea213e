//! Turns that are lent: somebody with little to do always waits, as far as the daemons are told.

use std::collections::HashSet;
use std::sync::atomic::Ordering;
use std::time::Duration;

use runcue_core::{JobId, JobSpec, TaskName, Timestamp};
use runcue_store::SubmitBatch;
use runcue_store::overlay::Haste;
use runcue_store_suite::Maker;
use runcue_store_suite::scene::drain;

use super::Servers;

const NOW: Timestamp = Timestamp::from_millis(1_000);

fn hurrying() -> Servers {
    Servers { hurry: true, takes: Duration::from_millis(4), ..Servers::new() }
}

/// Jobs are drained by two handles, so many a claim. Answers in what haste the turns of that were asked for, and how often one
/// was lent.
async fn drained_by(servers: &Servers, claim: usize) -> (Vec<Haste>, u64) {
    const JOBS: u128 = 12_000;
    let first = servers.open().await;
    let job = |n| JobSpec::new(JobId::from_u128(n), TaskName::new("work").unwrap());
    for from in (0..JOBS).step_by(1_000) {
        let batch = SubmitBatch::of((from..from + 1_000).map(job).collect());
        first.submit(NOW, batch).await.unwrap();
    }
    let server = servers.latest.lock().unwrap().clone();
    // The submissions were much.
    server.hastes.lock().unwrap().clear();
    server.lent.store(0, Ordering::Relaxed);
    let mut workers = Vec::new();
    for handle in 0..2 {
        let store = servers.second_handle(&first).await.unwrap();
        for n in 0..2 {
            workers.push(tokio::spawn(drain(store.clone(), NOW, 1 + 2 * handle + n, claim)));
        }
    }
    let (mut all, mut ids) = (0, HashSet::new());
    for worker in workers {
        let had = worker.await.unwrap();
        all += had.len();
        ids.extend(had);
    }
    assert_eq!((all as u128, ids.len() as u128), (JOBS, JOBS), "each is handed out once");
    assert_eq!(first.check(NOW).await.unwrap(), Vec::<String>::new());
    let hastes = server.hastes.lock().unwrap().clone();
    (hastes, server.lent.load(Ordering::Relaxed))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_keeps_a_turn_for_much_lends_it_and_takes_it_up_again() {
    let (hastes, lent) = drained_by(&hurrying(), 400).await;
    assert!(hastes.contains(&Haste::Much) && hastes.contains(&Haste::Again), "{hastes:?}");
    assert!(lent > 0);
    let calm = Servers { hurry: false, ..hurrying() };
    let (hastes, lent) = drained_by(&calm, 400).await;
    assert!(!hastes.contains(&Haste::Again) && lent == 0, "nobody waits: {hastes:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_has_little_to_do_lends_nothing() {
    let (hastes, lent) = drained_by(&hurrying(), 100).await;
    assert!(hastes.iter().all(|haste| *haste == Haste::Little), "{hastes:?}");
    assert_eq!(lent, 0);
}
