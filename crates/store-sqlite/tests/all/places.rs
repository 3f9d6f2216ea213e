//! The places of ready jobs: claims leave them behind, and whoever looks next clears them.

use std::path::Path;

use runcue_core::{GroupName, JobId, JobSpec, TaskName, Timestamp, WorkerId};
use runcue_store::{ClaimRequest, Finish, Outcome, Store, SubmitBatch};
use runcue_store_sqlite::{Options, SqliteStore};

const NOW: Timestamp = Timestamp::from_millis(1_700_000_000_000);

fn count(path: &Path, sql: &str) -> i64 {
    let connection = rusqlite::Connection::open(path).unwrap();
    connection.query_row(sql, [], |row| row.get(0)).unwrap()
}

/// Jobs spread over so many lanes.
fn jobs(count: u128, lanes: u128) -> Vec<JobSpec> {
    let job = |n| {
        let mut job = JobSpec::new(JobId::from_u128(n + 1), TaskName::new("t").unwrap());
        job.group = Some(GroupName::new(format!("g{}", n % lanes)).unwrap());
        job
    };
    (0..count).map(job).collect()
}

async fn claim(store: &SqliteStore, max: usize) -> Vec<runcue_core::Lease> {
    let request = ClaimRequest::new(WorkerId::from_u128(1), max);
    let claimed = store.claim(NOW, request).await.unwrap();
    claimed.jobs.into_iter().map(|(_, lease)| lease).collect()
}

#[tokio::test]
async fn places_are_left_by_claims_and_cleared_by_the_next_look() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("queue.db");
    let store = SqliteStore::open(Options::new(&path)).unwrap();
    store.submit(NOW, SubmitBatch::of(jobs(2_000, 10))).await.unwrap();
    let places = "SELECT count(*) FROM ready";
    assert_eq!(count(&path, places), 2_000);
    for _ in 0..19 {
        assert_eq!(claim(&store, 100).await.len(), 100);
    }
    // Each of the ten lanes was looked at again after its first 128 heads.
    assert!(count(&path, places) <= 2_000 - 10 * 128, "{} are left", count(&path, places));
    assert_eq!(claim(&store, 200).await.len(), 100);
    assert_eq!(claim(&store, 200).await.len(), 0);
    assert!(count(&path, places) < 10 * 128, "{} are left", count(&path, places));
}

#[tokio::test]
async fn a_lane_that_is_never_long_is_swept_too() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("queue.db");
    let store = SqliteStore::open(Options::new(&path)).unwrap();
    for job in jobs(1_000, 1) {
        store.submit(NOW, SubmitBatch::of(vec![job])).await.unwrap();
        assert_eq!(claim(&store, 1).await.len(), 1);
    }
    let left = count(&path, "SELECT count(*) FROM ready");
    assert!(left <= 128, "{left} are left");
}

#[tokio::test]
async fn a_job_that_is_handed_back_is_found_again_by_another_handle() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("queue.db");
    let store = SqliteStore::open(Options::new(&path)).unwrap();
    store.submit(NOW, SubmitBatch::of(jobs(40, 1))).await.unwrap();
    let leases = claim(&store, 40).await;
    assert_eq!(leases.len(), 40);
    let back = |lease| Finish { lease, outcome: Outcome::HandBack };
    store.finish(NOW, leases.into_iter().map(back).collect()).await.unwrap();
    let other = SqliteStore::open(Options::new(&path)).unwrap();
    assert_eq!(claim(&other, 100).await.len(), 40);
    assert_eq!(other.check(NOW).await.unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn a_ready_job_without_a_place_is_found_by_the_check() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("queue.db");
    let store = SqliteStore::open(Options::new(&path)).unwrap();
    store.submit(NOW, SubmitBatch::of(jobs(2, 1))).await.unwrap();
    rusqlite::Connection::open(&path)
        .unwrap()
        .execute("DELETE FROM ready WHERE seq = 2", [])
        .unwrap();
    assert_eq!(store.check(NOW).await.unwrap(), ["1 ready jobs without a place"]);
}
