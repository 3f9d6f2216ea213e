//! Ready jobs are read beside a commit, on a connection of its own that may be lost at any time.

use std::collections::HashSet;
use std::sync::Arc;

use runcue_core::{JobId, Timestamp};
use runcue_store::{Store, SubmitBatch};
use runcue_store_postgres::open_url;
use runcue_store_suite::scene::{drain, job};
use runcue_test_servers::Database;

const JOBS: u128 = 8_000;
const MOST: usize = 300;

/// Connections that read beside a commit, by what they asked last.
fn beside(database: &Database, what: &str) -> String {
    let sql = format!(
        "SELECT {what} FROM pg_stat_activity WHERE datname = current_database() \
         AND pid <> pg_backend_pid() AND query LIKE '%1::bigint, (SELECT max(revision)%'"
    );
    database.sql(&sql).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_that_are_read_beside_a_commit_are_handed_out_once() {
    let database = runcue_test_servers::postgres().unwrap();
    let submitter = open_url(&database.url()).unwrap();
    for from in (0..JOBS).step_by(1000) {
        let batch = SubmitBatch::of((from..from + 1000).map(|n| job(n + 1)).collect());
        submitter.submit(Timestamp::ZERO, batch).await.unwrap();
    }
    let store: Arc<dyn Store> = Arc::new(open_url(&database.url()).unwrap());
    let workers: Vec<_> = (1..=3)
        .map(|n| tokio::spawn(drain(Arc::clone(&store), Timestamp::ZERO, n, MOST)))
        .collect();
    // It goes away in the middle of the work, again and again, and is missed by nobody.
    let (mut seen, mut ended) = (0, 0);
    while workers.iter().any(|worker| !worker.is_finished()) {
        seen += beside(&database, "count(*)").parse::<u32>().unwrap();
        ended += beside(&database, "count(pg_terminate_backend(pid))").parse::<u32>().unwrap();
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    assert!(seen > 0 && ended > 0, "nothing was read beside a commit");
    let mut had = Vec::new();
    for worker in workers {
        had.extend(worker.await.unwrap());
    }
    let once: HashSet<JobId> = had.iter().copied().collect();
    assert_eq!((had.len() as u128, once.len() as u128), (JOBS, JOBS));
    assert_eq!(u128::from(submitter.stats(Timestamp::ZERO).await.unwrap().counts.completed), JOBS);
    store.close().await.unwrap();
    submitter.close().await.unwrap();
}
