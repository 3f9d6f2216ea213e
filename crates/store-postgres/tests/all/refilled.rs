//! A queue that is filled again after it was drained and its dead rows were removed: until they are analysed, the server takes
//! the tables for empty. Jobs are found by their keys all the same.

use runcue_core::{JobSpec, Lease};
use runcue_store::{ClaimRequest, Finish, Outcome, Store, SubmitBatch};
use runcue_store_postgres::PostgresStore;
use runcue_store_suite::scene::{BEGINNING, at, done, job, worker};

use crate::lease_runs::open;
use crate::pinned::{entries, vacuum};

const FEW: u128 = 1000;
/// As few as are a run of leases.
const HELD: u128 = 4;
/// The first of those that are filled in afterwards.
const FIRST: u128 = 1 + FEW + HELD;
const MANY: u128 = 4000;
/// Too few together for a run, so that each has a row of its own.
const TOGETHER: usize = 20;
const CLAIM: usize = 20;

async fn fill(store: &PostgresStore, jobs: std::ops::Range<u128>) {
    for batch in jobs.map(job).collect::<Vec<_>>().chunks(TOGETHER) {
        store.submit(BEGINNING, SubmitBatch::of(batch.to_vec())).await.unwrap();
    }
}

/// Every job is given back once before it is done, by another daemon that has to look for it.
async fn drain(store: &PostgresStore, other: &PostgresStore) {
    for outcome in [Outcome::HandBack, done()] {
        let mut held = Vec::new();
        loop {
            let claimed =
                store.claim(BEGINNING, ClaimRequest::new(worker(1), CLAIM)).await.unwrap();
            if claimed.jobs.is_empty() {
                break;
            }
            held.extend(claimed.jobs.into_iter().map(|(_, lease)| lease));
        }
        for leases in held.chunks(CLAIM) {
            let end = |lease: &Lease| Finish { lease: lease.clone(), outcome: outcome.clone() };
            other.finish(BEGINNING, leases.iter().map(end).collect()).await.unwrap();
        }
    }
}

/// What is read per job.
async fn refilled(vacuumed: bool) -> f64 {
    let database = runcue_test_servers::postgres().unwrap();
    let (store, other) = (open(&database), open(&database));
    fill(&store, 1..1 + FEW).await;
    drain(&store, &other).await;
    // Behind the rows of all the others, so that the tables keep their pages: a few that go on all the time, and one for later.
    fill(&store, 1 + FEW..1 + FEW + HELD).await;
    let few = ClaimRequest::new(worker(2), CLAIM);
    assert_eq!(store.claim(BEGINNING, few).await.unwrap().jobs.len() as u128, HELD);
    let later = JobSpec { run_at: Some(at(60)), ..job(FIRST + MANY) };
    store.submit(BEGINNING, SubmitBatch::of(vec![later])).await.unwrap();
    if vacuumed {
        vacuum(&database);
    }
    fill(&store, FIRST..FIRST + MANY).await;
    drain(&store, &other).await;
    let counts = store.stats(BEGINNING).await.unwrap().counts;
    assert_eq!(u128::from(counts.completed), FEW + MANY);
    other.close().await.unwrap();
    store.close().await.unwrap();
    entries(&database) / (FEW + MANY) as f64
}

#[tokio::test]
async fn a_queue_that_was_drained_and_vacuumed_reads_no_more_per_job_when_it_is_filled_again() {
    let (as_ever, vacuumed) = (refilled(false).await, refilled(true).await);
    assert!(
        vacuumed < as_ever * 1.25,
        "per job: {vacuumed:.1} entries, {as_ever:.1} without the vacuum"
    );
}
