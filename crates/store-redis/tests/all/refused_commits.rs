//! Commits that the server refuses as a whole: it has no memory left, or the queue is one of a newer version by now.
//! Nothing is half written, the reason is one line, and a daemon that was refused for want of memory goes on as soon
//! as there is some.

use runcue_core::{JobSpec, Json};
use runcue_store::{ClaimRequest, Finish, Store, StoreError, SubmitBatch};
use runcue_store_redis::{RedisStore, SCHEMA, open_url};
use runcue_store_suite::scene::{BEGINNING, done, job, worker};
use runcue_test_servers::Redis;

const META: &str = "runcue:{default}:meta";

fn open(server: &Redis, more: &str) -> RedisStore {
    open_url(&format!("{}?clock=caller{more}", server.url())).unwrap()
}

fn info(server: &Redis, section: &str, name: &str) -> String {
    let mut connection = redis::Client::open(server.url()).unwrap().get_connection().unwrap();
    let all: String = redis::cmd("INFO").arg(section).query(&mut connection).unwrap();
    let line = all.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.unwrap_or_default().to_owned()
}

/// All that is stored, as the server sums it up.
fn digest(server: &Redis) -> String {
    server.command(&["DEBUG", "DIGEST"]).unwrap()
}

fn start() -> Redis {
    Redis::settings().set("enable-debug-command", "yes").start().unwrap()
}

/// Lets the server have so much more memory than it takes now; nothing means as much as it wants.
fn limit_memory(server: &Redis, more: Option<u64>) {
    let used: u64 = info(server, "memory", "used_memory").parse().unwrap();
    let most = more.map_or(0, |more| used + more).to_string();
    assert_eq!(server.command(&["CONFIG", "SET", "maxmemory", &most]).unwrap(), "+OK");
}

fn large(n: u128, bytes: usize) -> JobSpec {
    JobSpec { params: Json::parse(format!("\"{}\"", "x".repeat(bytes))).unwrap(), ..job(n) }
}

async fn claim(store: &dyn Store, most: usize) -> Vec<Finish> {
    let claimed = store.claim(BEGINNING, ClaimRequest::new(worker(1), most)).await.unwrap();
    let end = |(_, lease)| Finish { lease, outcome: done() };
    claimed.jobs.into_iter().map(end).collect()
}

/// Of the server's replies to commands so far, the errors of a kind.
fn errors(server: &Redis, kind: &str) -> u64 {
    let count = info(server, "errorstats", &format!("errorstat_{kind}"));
    count.strip_prefix("count=").map_or(0, |count| count.trim().parse().unwrap())
}

#[tokio::test]
async fn memory_that_runs_out_in_the_middle_of_a_transaction_leaves_nothing_of_it() {
    let server = start();
    let store = open(&server, "");
    // More than a hundred go as a transaction of plain commands.
    store.submit(BEGINNING, SubmitBatch::of((1..=200).map(job).collect())).await.unwrap();
    let held = claim(&store, 20).await;
    let transactions = info(&server, "commandstats", "cmdstat_exec");
    assert!(transactions.starts_with("calls="), "{transactions}");

    // The commands of the transaction take memory while they wait for its end, more than there is.
    limit_memory(&server, Some(200_000));
    let before = digest(&server);
    let batch: Vec<_> = (1001..=1200).map(|n| large(n, 2000)).collect();
    let error = store.submit(BEGINNING, SubmitBatch::of(batch.clone())).await.unwrap_err();
    let line = error.to_string();
    assert_eq!(line.lines().count(), 1, "{line}");
    assert!(line.contains("out of memory") && line.contains("raise its maxmemory"), "{line}");
    assert!(errors(&server, "EXECABORT") > 0, "it was refused before it was a transaction");
    assert!(info(&server, "errorstats", "errorstat_OOM").starts_with("count="));
    assert_eq!(digest(&server), before);

    limit_memory(&server, None);
    store.submit(BEGINNING, SubmitBatch::of(batch)).await.unwrap();
    store.finish(BEGINNING, held).await.unwrap();
    let counts = store.stats(BEGINNING).await.unwrap().counts;
    assert_eq!((counts.queued, counts.completed), (380, 20));
    assert_eq!(store.check(BEGINNING).await.unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn ends_that_a_full_server_refuses_are_taken_once_it_has_memory() {
    let server = start();
    let store = open(&server, "");
    store.submit(BEGINNING, SubmitBatch::of((1..=40).map(job).collect())).await.unwrap();
    let held = claim(&store, 30).await;
    limit_memory(&server, Some(0));
    let before = digest(&server);
    let line = store.finish(BEGINNING, held.clone()).await.unwrap_err().to_string();
    assert!(line.contains("out of memory"), "{line}");
    let line = store.claim(BEGINNING, ClaimRequest::new(worker(1), 9)).await.unwrap_err();
    assert!(line.to_string().contains("out of memory"), "{line}");
    assert_eq!(digest(&server), before);
    limit_memory(&server, None);
    store.finish(BEGINNING, held).await.unwrap();
    let rest = claim(&store, 100).await;
    assert_eq!(rest.len(), 10);
    store.finish(BEGINNING, rest).await.unwrap();
    assert_eq!(store.stats(BEGINNING).await.unwrap().counts.completed, 40);
    assert_eq!(store.check(BEGINNING).await.unwrap(), Vec::<String>::new());
}

/// Raises the queue as a newer version does when it opens it.
fn raise(server: &Redis) {
    let raised = (SCHEMA + 1).to_string();
    assert_eq!(server.command(&["HSET", META, "schema", &raised]).unwrap(), ":0");
}

fn is_told_that_it_is_too_old(error: &StoreError) {
    let found = SCHEMA + 1;
    assert!(matches!(error, StoreError::Newer { known: SCHEMA, .. }), "{error:?}");
    let line = error.to_string();
    assert_eq!(line.lines().count(), 1, "{line}");
    for word in [&format!("{found}")[..], "newer", "upgrade"] {
        assert!(line.contains(word), "{word:?} is not in {line:?}");
    }
}

#[tokio::test]
async fn a_daemon_that_runs_on_while_the_queue_is_raised_writes_no_more() {
    // By a daemon alone, which takes no turns, and by one among others.
    for alone in [true, false] {
        let server = start();
        let old = open(&server, "");
        old.submit(BEGINNING, SubmitBatch::of((1..=100).map(job).collect())).await.unwrap();
        let mut held = Vec::new();
        for _ in 0..8 {
            held = claim(&old, 5).await;
            if !alone {
                let other = open(&server, "");
                let rest = claim(&other, 1).await;
                other.finish(BEGINNING, rest).await.unwrap();
            }
        }
        raise(&server);
        let before = digest(&server);
        let error = old.finish(BEGINNING, held.clone()).await.unwrap_err();
        is_told_that_it_is_too_old(&error);
        let claimed = old.claim(BEGINNING, ClaimRequest::new(worker(1), 5)).await.unwrap_err();
        is_told_that_it_is_too_old(&claimed);
        let many = (1001..=1200).map(job).collect();
        is_told_that_it_is_too_old(
            &old.submit(BEGINNING, SubmitBatch::of(many)).await.unwrap_err(),
        );
        assert_eq!(digest(&server), before, "{alone}");
        is_told_that_it_is_too_old(&open_url(&server.url()).unwrap_err());
    }
}
