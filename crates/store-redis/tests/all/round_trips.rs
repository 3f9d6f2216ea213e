//! Round trips: none per job, and one from the news to the claim, on Redis.

use std::time::Duration;

use runcue_store::Store;
use runcue_store_redis::{Options, RedisStore};
use runcue_store_suite::round_trips::{no_round_trip_per_job, one_round_trip_from_news_to_claim};
use runcue_test_servers::{Counter, Redis};

/// Two handles on a queue, behind a counter.
async fn counted() -> (Redis, Counter, RedisStore, RedisStore) {
    let server = Redis::settings().start().unwrap();
    let counter = Counter::to(server.port()).unwrap();
    let url = format!("redis://127.0.0.1:{}/0?clock=caller", counter.port());
    let open = || {
        let mut options = Options::parse(&url).unwrap();
        options.look = Duration::from_secs(24 * 3600);
        runcue_store_redis::open(options).unwrap()
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

/// Whoever may publish and knows nothing of the queue is not believed; everybody who listens looks for themselves.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_that_nobody_signed_changes_nothing() {
    let (server, _counter, one, two) = counted().await;
    let beginning = runcue_store_suite::scene::BEGINNING;
    one.changed(0).await;
    two.changed(0).await;
    for n in 1..=20_u128 {
        let revision = server.command(&["HGET", "runcue:{default}:meta", "revision"]).unwrap();
        let revision: u64 = revision.lines().last().unwrap().trim().parse().unwrap_or(1);
        let (next, nobody) = (revision + 1, "0".repeat(64));
        let forged = format!(r#"{next} {nobody} {{"from":{revision},"to":{next}}}"#);
        server.command(&["PUBLISH", "runcue:{default}:news", &forged]).unwrap();
        let store = if n % 2 == 0 { &one } else { &two };
        let job = runcue_store_suite::scene::job(n);
        store.submit(beginning, runcue_store::SubmitBatch::of(vec![job])).await.unwrap();
        assert_eq!(store.stats(beginning).await.unwrap().counts.queued, u64::try_from(n).unwrap());
    }
    assert_eq!(one.check(beginning).await.unwrap(), Vec::<String>::new());
}

/// A daemon that connects while the server takes no writes is answered what needs none.
#[tokio::test]
async fn a_server_without_memory_is_connected_to_and_read() {
    let (server, _counter, one, _two) = counted().await;
    let beginning = runcue_store_suite::scene::BEGINNING;
    let job = runcue_store_suite::scene::job(1);
    one.submit(beginning, runcue_store::SubmitBatch::of(vec![job])).await.unwrap();
    server.command(&["CONFIG", "SET", "maxmemory", "1"]).unwrap();
    let late = runcue_store_redis::open_url(&format!("{}?clock=caller", server.url())).unwrap();
    let stats = tokio::time::timeout(Duration::from_secs(20), late.stats(beginning)).await;
    assert_eq!(stats.expect("no answer").unwrap().counts.queued, 1);
}
