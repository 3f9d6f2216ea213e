//! What the server tells at once is enough to hear of others, also when nobody ever looks. That looking is enough
//! where nothing may be told is a test of [`super::refusals`].

use std::sync::Arc;
use std::time::Duration;

use runcue_store::{Store, SubmitBatch};
use runcue_store_redis::{Options, RedisStore};
use runcue_store_suite::scene::{BEGINNING, job};
use runcue_test_servers::Redis;

/// What has not come by then does not come.
const BOUND: Duration = Duration::from_secs(30);

fn never(url: &str) -> RedisStore {
    let mut options = Options::parse(url).unwrap();
    options.look = Duration::from_secs(24 * 3600);
    runcue_store_redis::open(options).unwrap()
}

/// Waits until a store hears that another has submitted a job.
async fn hears(one: &Arc<RedisStore>, other: &RedisStore, n: u128) {
    let version = one.changed(0).await;
    let listener = Arc::clone(one);
    let heard = tokio::spawn(async move { listener.changed(version).await });
    other.submit(BEGINNING, SubmitBatch::of(vec![job(n)])).await.unwrap();
    let later = tokio::time::timeout(BOUND, heard).await.expect("nothing was heard").unwrap();
    assert!(later > version);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_server_tells_is_enough() {
    let server = Redis::settings().start().unwrap();
    let one = Arc::new(never(&server.url()));
    let other = never(&server.url());
    for n in 1..=5 {
        hears(&one, &other, n).await;
    }
}

/// What was told while the subscription was away was not heard; the look after it finds it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_subscription_is_replaced_and_finds_what_it_missed() {
    let server = Redis::settings().start().unwrap();
    let one = Arc::new(never(&server.url()));
    let other = never(&server.url());
    hears(&one, &other, 1).await;
    for n in 2..=4 {
        assert_eq!(
            server.command(&["CLIENT", "KILL", "TYPE", "pubsub"]).unwrap().chars().next(),
            Some(':')
        );
        hears(&one, &other, n).await;
    }
}
