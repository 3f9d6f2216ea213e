//! Two ways to hear of what others wrote, each of which is enough by itself: what the server tells at once, and a
//! slow look underneath.

use std::sync::Arc;
use std::time::Duration;

use runcue_core::{JobId, JobSpec, TaskName, Timestamp};
use runcue_store::{Store, SubmitBatch};
use runcue_store_postgres::{Options, PostgresStore, open, open_url};
use runcue_test_servers::Database;

/// What has not come by then does not come.
const BOUND: Duration = Duration::from_secs(30);

fn never(url: &str) -> PostgresStore {
    let mut options = Options::parse(url).unwrap();
    options.look = Duration::from_secs(24 * 3600);
    open(options).unwrap()
}

/// Waits until a store hears that another has submitted a job.
async fn hears(one: &Arc<PostgresStore>, other: &PostgresStore, n: u128) {
    let version = one.changed(0).await;
    let listener = Arc::clone(one);
    let heard = tokio::spawn(async move { listener.changed(version).await });
    let job = JobSpec::new(JobId::from_u128(n), TaskName::new("work").unwrap());
    other.submit(Timestamp::ZERO, SubmitBatch::of(vec![job])).await.unwrap();
    let later = tokio::time::timeout(BOUND, heard).await.expect("nothing was heard").unwrap();
    assert!(later > version);
}

fn listeners(database: &Database) -> u32 {
    let sql = "SELECT count(*) FROM pg_stat_activity \
               WHERE datname = current_database() AND query LIKE '%FROM \"runcue\".turn%'";
    database.sql(sql).unwrap().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_server_tells_is_enough() {
    let database = runcue_test_servers::postgres().unwrap();
    let one = Arc::new(never(&database.url()));
    let other = never(&database.url());
    for n in 1..=5 {
        hears(&one, &other, n).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_slow_look_is_enough() {
    let database = runcue_test_servers::postgres().unwrap();
    let one = Arc::new(open_url(&format!("{}?pooler=on", database.url())).unwrap());
    let other = open_url(&database.url()).unwrap();
    for n in 1..=3 {
        hears(&one, &other, n).await;
    }
}

/// What was told while the listening connection was away was not heard; the look after it finds it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_listener_is_replaced_and_finds_what_it_missed() {
    let database = runcue_test_servers::postgres().unwrap();
    let one = Arc::new(never(&database.url()));
    let other = never(&database.url());
    hears(&one, &other, 1).await;
    assert!(listeners(&database) >= 1);
    for n in 2..=4 {
        let sql = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
                   WHERE datname = current_database() AND pid <> pg_backend_pid()";
        database.sql(sql).unwrap();
        hears(&one, &other, n).await;
    }
}
