//! What a daemon reads that knows nothing yet: counts that nobody writes down, because jobs and their sets say them.

use runcue_store::{ClaimRequest, Finish, Outcome, Store, SubmitBatch};
use runcue_store_redis::{RedisStore, open_url};
use runcue_store_suite::scene::{BEGINNING, done, job, job_using, slots, worker};
use runcue_test_servers::Redis;

const WAITING: &str = "runcue:{default}:waiting";

fn open(server: &Redis) -> RedisStore {
    open_url(&format!("{}?clock=caller", server.url())).unwrap()
}

/// Submits jobs that use two services in turn, each with so many slots.
async fn submit(store: &dyn Store, jobs: u128, max: u32) {
    store.upsert_services(BEGINNING, vec![slots("a", max), slots("b", max)]).await.unwrap();
    let service = |n: u128| if n.is_multiple_of(2) { "b" } else { "a" };
    let batch = (1..=jobs).map(|n| job_using(n, &[service(n)])).collect();
    store.submit(BEGINNING, SubmitBatch::of(batch)).await.unwrap();
}

async fn claim(store: &dyn Store, most: usize) -> Vec<Finish> {
    let claimed = store.claim(BEGINNING, ClaimRequest::new(worker(1), most)).await.unwrap();
    let end = |(_, lease)| Finish { lease, outcome: done() };
    claimed.jobs.into_iter().map(end).collect()
}

#[tokio::test]
async fn a_daemon_that_comes_later_counts_what_the_others_hold() {
    let server = Redis::settings().start().unwrap();
    let first = open(&server);
    submit(&first, 100, 10).await;
    let held = claim(&first, 7).await;
    assert_eq!(held.len(), 7);
    let second = open(&server);
    let more = claim(&second, 100).await;
    assert_eq!(more.len(), 13, "two services with ten slots each, and seven are taken");
    first.finish(BEGINNING, held).await.unwrap();
    drop((first, second));
    assert_eq!(claim(&open(&server), 100).await.len(), 7);
}

#[tokio::test]
async fn lanes_without_ready_jobs_are_struck_out_by_whoever_reads_them() {
    let server = Redis::settings().start().unwrap();
    let store = open(&server);
    submit(&store, 40, 100).await;
    store.submit(BEGINNING, SubmitBatch::of(vec![job(50)])).await.unwrap();
    let mut ends = claim(&store, 100).await;
    assert_eq!(ends.len(), 41);
    assert_eq!(server.command(&["HLEN", WAITING]).unwrap(), ":3");
    let another = open(&server);
    assert!(claim(&another, 100).await.is_empty());
    assert_eq!(server.command(&["HLEN", WAITING]).unwrap(), ":0");
    // A job that comes back is found again.
    let one = Finish { outcome: Outcome::HandBack, ..ends.pop().unwrap() };
    another.finish(BEGINNING, vec![one]).await.unwrap();
    assert_eq!(server.command(&["HLEN", WAITING]).unwrap(), ":1");
    assert_eq!(claim(&open(&server), 100).await.len(), 1);
    store.finish(BEGINNING, ends).await.unwrap();
    assert_eq!(store.check(BEGINNING).await.unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn a_lane_that_is_not_noted_is_a_contradiction() {
    let server = Redis::settings().start().unwrap();
    let store = open(&server);
    submit(&store, 3, 1).await;
    assert_eq!(store.check(BEGINNING).await.unwrap(), Vec::<String>::new());
    assert_eq!(server.command(&["HDEL", WAITING, "2"]).unwrap(), ":1");
    let found = store.check(BEGINNING).await.unwrap();
    assert_eq!(found, ["lane 2 has 1 ready jobs and is not noted for it"]);
}
