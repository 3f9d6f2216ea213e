//! Round trips: none per job, and one from the news to the claim, on PostgreSQL.

use std::time::Duration;

use runcue_store::Store;
use runcue_store_postgres::{Options, PostgresStore};
use runcue_store_suite::round_trips::{no_round_trip_per_job, one_round_trip_from_news_to_claim};
use runcue_test_servers::{Counter, Postgres};

/// Two handles on a queue, behind a counter.
async fn counted() -> (Postgres, Counter, PostgresStore, PostgresStore) {
    let server = Postgres::settings().start().unwrap();
    let counter = Counter::to(server.port()).unwrap();
    let through = format!("127.0.0.1:{}", counter.port());
    let url = server.url().replace(&format!("127.0.0.1:{}", server.port()), &through);
    let open = || {
        let mut options = Options::parse(&url).unwrap();
        options.callers_clock = true;
        options.look = Duration::from_secs(24 * 3600);
        runcue_store_postgres::open(options).unwrap()
    };
    let (one, two) = (open(), open());
    one.stats(runcue_store_suite::scene::BEGINNING).await.unwrap();
    assert!(counter.trips() > 0, "{url}");
    (server, counter, one, two)
}

#[tokio::test]
async fn batches_take_as_many_round_trips_as_one_job() {
    let (_server, counter, one, two) = counted().await;
    no_round_trip_per_job(&one, &two, || counter.trips()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_told_is_not_asked_for() {
    let (_server, counter, one, two) = counted().await;
    one_round_trip_from_news_to_claim(&one, &two, || counter.trips()).await;
}
