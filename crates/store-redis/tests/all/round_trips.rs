//! No round trip per job, on Redis.

use runcue_store::Store;
use runcue_store_suite::round_trips::no_round_trip_per_job;
use runcue_test_servers::{Counter, Redis};

#[tokio::test]
async fn batches_take_as_many_round_trips_as_one_job() {
    let server = Redis::settings().start().unwrap();
    let counter = Counter::to(server.port()).unwrap();
    let url = format!("redis://127.0.0.1:{}/0?clock=caller", counter.port());
    let open = || runcue_store_redis::open_url(&url).unwrap();
    let (one, two) = (open(), open());
    one.stats(runcue_store_suite::scene::BEGINNING).await.unwrap();
    assert!(counter.trips() > 0, "{url}");
    no_round_trip_per_job(&one, &two, || counter.trips()).await;
}
