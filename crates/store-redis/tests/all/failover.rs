//! A server that becomes a replica under a running daemon, for a while or for good: the daemon says so, goes on trying,
//! and works with the primary as soon as there is one at the address.

use std::sync::Arc;
use std::time::Duration;

use runcue_store::{ClaimRequest, Finish, Store, SubmitBatch};
use runcue_store_redis::{RedisStore, open_url};
use runcue_store_suite::scene::{BEGINNING, done, drain, id, job, worker};
use runcue_test_servers::{Proxy, Redis};
use tokio::time::timeout;

/// What has not happened by then does not happen.
const BOUND: Duration = Duration::from_secs(30);

fn is_ok(server: &Redis, words: &[&str]) {
    assert_eq!(server.command(words).unwrap(), "+OK", "{words:?}");
}

/// Waits until a store says what is the matter.
async fn says(store: &RedisStore, words: &[&str]) {
    let look = async {
        loop {
            let told = store.trouble().unwrap_or_default();
            if words.iter().all(|word| told.contains(word)) {
                assert_eq!(told.lines().count(), 1, "{told}");
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let told = timeout(BOUND, look).await;
    told.unwrap_or_else(|_| panic!("{:?} is all it says", store.trouble()));
}

/// Submits ten jobs and holds three of them.
async fn begun(url: &str) -> (Arc<RedisStore>, Vec<Finish>) {
    let store = Arc::new(open_url(url).unwrap());
    store.submit(BEGINNING, SubmitBatch::of((1..=10).map(job).collect())).await.unwrap();
    let claimed = store.claim(BEGINNING, ClaimRequest::new(worker(1), 3)).await.unwrap().jobs;
    let end = |(_, lease)| Finish { lease, outcome: done() };
    (store, claimed.into_iter().map(end).collect())
}

/// Ends what is held, of which some may be written down already, and the rest.
async fn is_worked_off(store: &Arc<RedisStore>, jobs: u64) {
    drain(store.clone(), BEGINNING, 1, 4).await;
    assert_eq!(store.trouble(), None);
    assert_eq!(store.stats(BEGINNING).await.unwrap().counts.completed, jobs);
    assert_eq!(store.check(BEGINNING).await.unwrap(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_primary_that_is_a_replica_for_a_while_is_waited_for() {
    let server = Redis::settings().start().unwrap();
    let place = server.url();
    for how in ["?space=a&transactions=off", "?space=b"] {
        let (store, held) = begun(&format!("{place}{how}")).await;
        // Of a primary that is not there, so that it keeps what it has.
        is_ok(&server, &["REPLICAOF", "127.0.0.1", "1"]);
        let waiting = store.clone();
        let ended = tokio::spawn(async move { waiting.finish(BEGINNING, held).await });
        says(&store, &[&place, "read-only replica", "put the primary into the address"]).await;
        assert_eq!(store.get(vec![id(1)]).await.unwrap().len(), 1, "it can be read");
        is_ok(&server, &["REPLICAOF", "NO", "ONE"]);
        let ended = timeout(BOUND, ended).await.unwrap().unwrap();
        assert_eq!(ended.unwrap().len(), 3, "without anybody asking again");
        is_worked_off(&store, 10).await;
    }
}

/// The connection to the former primary stays open, as it does where a name or an address moves from one machine to another.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_follows_its_address_to_the_new_primary() {
    let start = || Redis::settings().set("repl-diskless-sync-delay", "0").start().unwrap();
    let (old, new) = (start(), start());
    is_ok(&new, &["REPLICAOF", "127.0.0.1", &old.port().to_string()]);
    let proxy = Proxy::to(old.port()).unwrap();
    let (store, held) = begun(&old.url_through(&proxy)).await;
    let mut control = redis::Client::open(old.url()).unwrap().get_connection().unwrap();
    redis::cmd("SET").arg("everything before").arg(1).exec(&mut control).unwrap();
    let copies: u32 = redis::cmd("WAIT").arg(1).arg(30_000).query(&mut control).unwrap();
    assert_eq!(copies, 1);
    is_ok(&new, &["REPLICAOF", "NO", "ONE"]);
    is_ok(&old, &["REPLICAOF", "127.0.0.1", &new.port().to_string()]);
    proxy.lead_to(new.port());
    let ended = timeout(BOUND, store.finish(BEGINNING, held)).await.unwrap();
    assert_eq!(ended.unwrap().len(), 3);
    store.submit(BEGINNING, SubmitBatch::of(vec![job(11)])).await.unwrap();
    is_worked_off(&store, 11).await;
    drop(old);
    assert_eq!(store.stats(BEGINNING).await.unwrap().counts.completed, 11);
}
