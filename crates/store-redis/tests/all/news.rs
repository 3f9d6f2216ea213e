//! What the server tells at once is enough to hear of others, also when nobody ever looks. That looking is enough
//! where nothing may be told is a test of [`super::refusals`].

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use runcue_store::{ClaimRequest, Store, SubmitBatch};
use runcue_store_redis::{Options, RedisStore};
use runcue_store_suite::scene::{BEGINNING, job, worker};
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
    hears_of(one, other, n..n + 1).await;
}

/// The same of so many jobs that they go as a transaction, at the latest the second time.
async fn hears_of_many(one: &Arc<RedisStore>, other: &RedisStore, from: u128) {
    hears_of(one, other, from..from + 300).await;
    hears_of(one, other, from + 300..from + 600).await;
}

async fn hears_of(one: &Arc<RedisStore>, other: &RedisStore, jobs: Range<u128>) {
    let version = one.changed(0).await;
    let listener = Arc::clone(one);
    let heard = tokio::spawn(async move { listener.changed(version).await });
    other.submit(BEGINNING, SubmitBatch::of(jobs.map(job).collect())).await.unwrap();
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

/// Whoever waits on the handle that a job is submitted to is woken by that, and needs no message of the server's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn those_who_wait_on_the_same_handle_are_woken() {
    let server = Redis::settings().start().unwrap();
    let words = ["ACL", "SETUSER", "me", "reset", "on", ">pass", "~*", "resetchannels", "+@all"];
    assert_eq!(server.command(&words).unwrap(), "+OK");
    let one = Arc::new(never(&server.url().replace("redis://", "redis://me:pass@")));
    for n in 1..=10 {
        hears(&one, &one, n).await;
    }
}

/// How many are told before the others, and how many behind them.
fn listeners(server: &Redis) -> [usize; 2] {
    ["runcue:{default}:news", "runcue:{default}:news:behind"].map(|channel| {
        let count = "return redis.call('PUBSUB', 'NUMSUB', ARGV[1])[2]";
        let said = server.command(&["EVAL", count, "0", channel]).unwrap();
        said.trim_start_matches(':').parse().unwrap()
    })
}

async fn until_there_are(server: &Redis, wanted: [usize; 2]) {
    let look = async {
        while listeners(server) != wanted {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let came = tokio::time::timeout(BOUND, look).await;
    assert!(came.is_ok(), "{:?} instead of {wanted:?}", listeners(server));
}

/// Whoever waits for jobs is told before whoever only submits some. All are told.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn those_who_wait_for_jobs_are_told_first() {
    let server = Redis::settings().start().unwrap();
    let one = Arc::new(never(&server.url()));
    let other = never(&server.url());
    hears(&one, &other, 1).await;
    until_there_are(&server, [0, 1]).await;
    // It is given all it asks for, so that nothing is claimed ahead for it, and it says nothing from here on.
    let waits = ClaimRequest { again: true, ..ClaimRequest::new(worker(1), 1) };
    assert_eq!(one.claim(BEGINNING, waits).await.unwrap().jobs.len(), 1);
    until_there_are(&server, [1, 0]).await;
    hears(&one, &other, 2).await;
    hears_of_many(&one, &other, 1000).await;
    let late = Arc::new(never(&server.url()));
    hears(&late, &other, 3).await;
    until_there_are(&server, [1, 1]).await;
    hears_of_many(&late, &other, 3000).await;
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
