//! No round trip per job, on PostgreSQL.

use runcue_store::Store;
use runcue_store_postgres::Options;
use runcue_store_suite::round_trips::no_round_trip_per_job;
use runcue_test_servers::{Counter, Postgres};

#[tokio::test]
async fn batches_take_as_many_round_trips_as_one_job() {
    let server = Postgres::settings().start().unwrap();
    let counter = Counter::to(server.port()).unwrap();
    let through = format!("127.0.0.1:{}", counter.port());
    let url = server.url().replace(&format!("127.0.0.1:{}", server.port()), &through);
    let open = || {
        let mut options = Options::parse(&url).unwrap();
        options.callers_clock = true;
        runcue_store_postgres::open(options).unwrap()
    };
    let (one, two) = (open(), open());
    one.stats(runcue_store_suite::scene::BEGINNING).await.unwrap();
    assert!(counter.trips() > 0, "{url}");
    no_round_trip_per_job(&one, &two, || counter.trips()).await;
}
