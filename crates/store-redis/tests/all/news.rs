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

/// So many that whoever submits them one by one listens from then on.
const OFTEN: u128 = 10;

async fn submit_often(store: &RedisStore, from: u128) {
    for n in from..from + OFTEN {
        store.submit(BEGINNING, SubmitBatch::of(vec![job(n)])).await.unwrap();
    }
}

/// How often something was published.
fn published(server: &Redis) -> u64 {
    let count = "local said = redis.call('INFO', 'commandstats') \
        return tonumber(string.match(said, 'cmdstat_publish:calls=(%d+)') or '0')";
    let said = server.command(&["EVAL", count, "0"]).unwrap();
    said.trim_start_matches(':').parse().unwrap()
}

/// Submits one job after the other until one of them is not told, or it is certain that they all are.
async fn until_nothing_is_told(server: &Redis, store: &RedisStore, from: u128) -> bool {
    for n in from..from + 200 {
        let before = published(server);
        store.submit(BEGINNING, SubmitBatch::of(vec![job(n)])).await.unwrap();
        if published(server) == before {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    false
}

/// A message that only its author would hear is not sent. As soon as somebody else listens there, it is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_told_where_only_its_author_listens() {
    let server = Redis::settings().start().unwrap();
    let one = never(&server.url());
    submit_often(&one, 1).await;
    until_there_are(&server, [0, 1]).await;
    assert!(until_nothing_is_told(&server, &one, 100).await);
    let other = Arc::new(never(&server.url()));
    hears(&other, &one, 1000).await;
    until_there_are(&server, [0, 2]).await;
    let before = published(&server);
    hears(&other, &one, 1001).await;
    assert_eq!(published(&server), before + 1);
    // From here on the other one is told first, and on the other channel its author is alone again.
    let waits = ClaimRequest { again: true, ..ClaimRequest::new(worker(1), 1) };
    assert_eq!(other.claim(BEGINNING, waits).await.unwrap().jobs.len(), 1);
    until_there_are(&server, [1, 1]).await;
    let before = published(&server);
    hears(&other, &one, 1002).await;
    assert_eq!(published(&server), before + 1);
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

/// Whoever has lost its subscription does not take that of another for its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn others_are_told_while_the_author_cannot_listen() {
    let server = Redis::settings().start().unwrap();
    let one = Arc::new(never(&server.url()));
    let words = ["ACL", "SETUSER", "me", "reset", "on", ">pass", "~*", "&*", "+@all"];
    assert_eq!(server.command(&words).unwrap(), "+OK");
    let author = never(&server.url().replace("redis://", "redis://me:pass@"));
    submit_often(&author, 1).await;
    hears(&one, &author, 100).await;
    // It is back after a second, and whether that was before the one who listens has heard of the job is seen afterwards.
    for n in 101..110 {
        until_there_are(&server, [0, 2]).await;
        let kill = ["CLIENT", "KILL", "TYPE", "pubsub", "USER", "me"];
        assert_eq!(server.command(&kill).unwrap(), ":1");
        let version = one.changed(0).await;
        let heard = one.changed(version);
        author.submit(BEGINNING, SubmitBatch::of(vec![job(n)])).await.unwrap();
        let back = until_there_are(&server, [0, 2]);
        tokio::select! {
            biased;
            _ = heard => return,
            () = back => {}
        }
    }
    panic!("nothing was told until the author listened again");
}
