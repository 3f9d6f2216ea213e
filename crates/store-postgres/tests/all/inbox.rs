//! Jobs from an application's own transaction, in SQL and in Rust.

use std::sync::Arc;
use std::time::{Duration, Instant};

use runcue_core::{JobId, JobSpec, TaskName, Timestamp};
use runcue_store::{ListRequest, Store, Submitted};
use runcue_store_postgres::{Options, PostgresStore, enqueue_in, open_url};

async fn client(url: &str) -> tokio_postgres::Client {
    let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

async fn queued(store: &PostgresStore) -> u64 {
    store.stats(Timestamp::ZERO).await.unwrap().counts.queued
}

/// Waits for jobs to be admitted by themselves.
async fn arrived(store: &PostgresStore, count: u64) {
    let begun = Instant::now();
    // A listing admits nothing, as a count would.
    let page = || store.list(ListRequest { limit: 10, ..ListRequest::default() });
    while (page().await.unwrap().rows.len() as u64) < count {
        assert!(begun.elapsed() < Duration::from_secs(20), "they were not admitted");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn a_job_put_down_in_sql_takes_part_once_its_transaction_commits() {
    let database = runcue_test_servers::postgres().unwrap();
    let store = open_url(&database.url()).unwrap();
    let mut client = client(&database.url()).await;
    let undone = client.transaction().await.unwrap();
    undone.execute("SELECT runcue.enqueue('never')", &[]).await.unwrap();
    undone.rollback().await.unwrap();
    let own = client.transaction().await.unwrap();
    own.batch_execute("CREATE TABLE orders (n int); INSERT INTO orders VALUES (1)").await.unwrap();
    let sql = "SELECT runcue.enqueue('mail', '{\"to\": \"me\"}', queue => 'slow', \"group\" => 'g', priority => 5, \
               idempotency_key => 'k', options => '{\"labels\": [\"a\"]}')";
    let row = own.query_one(sql, &[]).await.unwrap();
    let id = JobId::from_u128(row.get::<_, uuid::Uuid>(0).as_u128());
    assert_eq!(store.admit(Timestamp::ZERO).await.unwrap(), 0, "it has not committed yet");
    own.commit().await.unwrap();
    assert_eq!(store.admit(Timestamp::ZERO).await.unwrap(), 1);
    let job = store.get(vec![id]).await.unwrap().pop().flatten().unwrap();
    assert_eq!(job.spec.task.as_str(), "mail");
    assert_eq!(job.spec.queue.as_str(), "slow");
    assert_eq!(job.spec.group.as_ref().unwrap().as_str(), "g");
    assert_eq!(job.spec.priority, 5);
    assert_eq!(job.spec.params.as_str(), r#"{"to": "me"}"#);
    assert!(job.spec.labels.contains("a"));
    assert_eq!(queued(&store).await, 1);
    assert_eq!(database.sql("SELECT count(*) FROM runcue.inbox").unwrap().trim(), "0");
}

#[tokio::test]
async fn a_refused_job_is_kept_with_the_reason_and_holds_up_no_other() {
    let database = runcue_test_servers::postgres().unwrap();
    let store = open_url(&database.url()).unwrap();
    let bad = "SELECT runcue.enqueue('a', options => '{\"services\": [{\"service\": \"nowhere\", \"units\": 1}]}'), \
               runcue.enqueue('b'), runcue.enqueue('')";
    database.sql(bad).unwrap();
    assert_eq!(store.admit(Timestamp::ZERO).await.unwrap(), 3);
    assert_eq!(queued(&store).await, 1);
    let kept = database.sql("SELECT why FROM runcue.refused ORDER BY n").unwrap();
    assert!(kept.contains("nowhere") && kept.contains("not a job"), "{kept}");
    let refused = store.refused(10).await.unwrap();
    assert_eq!(refused.len(), 2);
    assert!(
        refused[0].why.contains("not a job") && refused[1].body.contains("nowhere"),
        "{refused:?}"
    );
    assert_eq!(database.sql("SELECT count(*) FROM runcue.inbox").unwrap().trim(), "0");
}

#[tokio::test]
async fn rust_puts_jobs_down_in_its_transaction_and_a_listening_daemon_admits_them() {
    let database = runcue_test_servers::postgres().unwrap();
    let store = open_url(&database.url()).unwrap();
    // Whoever waits for news listens.
    let version = store.changed(0).await;
    let options = Options::parse(&database.url()).unwrap();
    let mut client = client(&database.url()).await;
    let own = client.transaction().await.unwrap();
    let job = |n| JobSpec::new(JobId::from_u128(n), TaskName::new("work").unwrap());
    enqueue_in(&options, &own, &[job(1), job(2)]).await.unwrap();
    own.commit().await.unwrap();
    arrived(&store, 2).await;
    assert!(store.changed(version).await > version);
    let again = store.submit(Timestamp::ZERO, runcue_store::SubmitBatch::of(vec![job(1)])).await;
    assert_eq!(again.unwrap(), [Submitted::Existing(JobId::from_u128(1))]);
}

#[tokio::test]
async fn a_field_that_no_job_has_is_refused_by_its_name() {
    let database = runcue_test_servers::postgres().unwrap();
    let store = open_url(&database.url()).unwrap();
    let calls = "SELECT runcue.enqueue('a', options => '{\"prioritty\": 5}'), runcue.enqueue('b')";
    database.sql(calls).unwrap();
    assert_eq!(store.admit(Timestamp::ZERO).await.unwrap(), 2);
    assert_eq!(queued(&store).await, 1);
    let why = &store.refused(9).await.unwrap()[0].why;
    assert_eq!(why, "it is not a job: prioritty is no field of a job");
}

/// More than one look takes.
#[tokio::test]
async fn thousands_that_wait_for_room_hide_nothing_behind_them() {
    let database = runcue_test_servers::postgres().unwrap();
    let store = open_url(&database.url()).unwrap();
    let queue = runcue_core::QueueSpec {
        name: runcue_core::QueueName::new("narrow").unwrap(),
        max_queued: Some(1),
        on_full: runcue_core::OnFull::Block,
        paused: false,
    };
    store.upsert_queues(Timestamp::ZERO, vec![queue]).await.unwrap();
    let jobs = "SELECT count(runcue.enqueue('slow', options => '{\"queue\": \"narrow\"}')) \
                FROM generate_series(1, 2500)";
    database.sql(jobs).unwrap();
    database.sql("SELECT runcue.enqueue('behind')").unwrap();
    let mut admitted = 0;
    for _ in 0..5 {
        admitted += store.admit(Timestamp::ZERO).await.unwrap();
    }
    assert_eq!(
        admitted, 2,
        "one that there was room for, and the one behind all that there was none for"
    );
    assert_eq!(queued(&store).await, 2);
}

#[tokio::test]
async fn rust_leaves_nothing_behind_in_a_transaction_that_is_rolled_back() {
    let database = runcue_test_servers::postgres().unwrap();
    let store = open_url(&database.url()).unwrap();
    let options = Options::parse(&database.url()).unwrap();
    let mut client = client(&database.url()).await;
    client.batch_execute("CREATE TABLE orders (n integer)").await.unwrap();
    let job = |n| JobSpec::new(JobId::from_u128(n), TaskName::new("work").unwrap());
    let undone = client.transaction().await.unwrap();
    undone.batch_execute("INSERT INTO orders VALUES (1)").await.unwrap();
    enqueue_in(&options, &undone, &[job(1), job(2)]).await.unwrap();
    let seen = undone.query_one("SELECT count(*) FROM runcue.inbox", &[]).await.unwrap();
    assert_eq!(seen.get::<_, i64>(0), 2);
    assert_eq!(store.admit(Timestamp::ZERO).await.unwrap(), 0, "nobody else sees them");
    undone.rollback().await.unwrap();
    assert_eq!(store.admit(Timestamp::ZERO).await.unwrap(), 0);
    let left = "SELECT (SELECT count(*) FROM orders), (SELECT count(*) FROM runcue.inbox), \
                (SELECT count(*) FROM runcue.refused), (SELECT count(*) FROM runcue.job)";
    assert_eq!(database.sql(left).unwrap(), "0|0|0|0");
    assert_eq!(queued(&store).await, 0);
    // A transaction that ends with its connection is rolled back, too.
    let lost = client.transaction().await.unwrap();
    enqueue_in(&options, &lost, &[job(3)]).await.unwrap();
    let end = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
               WHERE datname = current_database() AND query LIKE '%pg_notify%' AND state LIKE 'idle in%'";
    assert_eq!(database.sql(end).unwrap(), "1");
    assert!(lost.commit().await.is_err());
    assert_eq!(store.admit(Timestamp::ZERO).await.unwrap(), 0);
    assert_eq!(database.sql(left).unwrap(), "0|0|0|0");
}

/// What each of several handles says that it dealt with is, all together, what there was.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn handles_that_admit_at_once_share_the_rows_between_them() {
    const EACH: u64 = 200;
    const TIMES: u64 = 6;
    let database = Arc::new(runcue_test_servers::postgres().unwrap());
    let open = || Arc::new(open_url(&database.url()).unwrap());
    let stores = [open(), open(), open()];
    let all = EACH * TIMES;
    let dealt = Arc::new(std::sync::atomic::AtomicU64::new(0));
    let admits = |store: &Arc<PostgresStore>| {
        let (store, dealt) = (Arc::clone(store), Arc::clone(&dealt));
        tokio::spawn(async move {
            use std::sync::atomic::Ordering;
            let (begun, mut own) = (Instant::now(), 0);
            while dealt.load(Ordering::Acquire) < all {
                let admitted = store.admit(Timestamp::ZERO).await.unwrap();
                own += admitted;
                dealt.fetch_add(admitted, Ordering::AcqRel);
                assert!(begun.elapsed() < Duration::from_secs(60), "{own} were admitted");
            }
            own
        })
    };
    let tasks: Vec<_> = stores.iter().map(admits).collect();
    for _ in 0..TIMES {
        let sql = format!("SELECT count(runcue.enqueue('work')) FROM generate_series(1, {EACH})");
        tokio::task::block_in_place(|| database.sql(&sql).unwrap());
    }
    let mut own = Vec::new();
    for task in tasks {
        own.push(task.await.unwrap());
    }
    assert_eq!(own.iter().sum::<u64>(), all, "{own:?}");
    assert_eq!(queued(&stores[0]).await, all);
    assert_eq!(stores[0].check(Timestamp::ZERO).await.unwrap(), Vec::<String>::new());
    let rows =
        "SELECT count(*), count(DISTINCT id), (SELECT count(*) FROM runcue.inbox) FROM runcue.job";
    assert_eq!(database.sql(rows).unwrap(), format!("{all}|{all}|0"));
}
