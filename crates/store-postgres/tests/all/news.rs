//! Two ways to hear of what others wrote, each of which is enough by itself: what the server tells at once, and a
//! slow look underneath.

use std::collections::BTreeSet;
use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use runcue_core::{JobId, JobSpec, TaskName, Timestamp};
use runcue_store::{Store, SubmitBatch};
use runcue_store_postgres::{Options, PostgresStore, open, open_url};
use runcue_test_servers::Database;
use tokio::sync::mpsc;
use tokio_postgres::{AsyncMessage, Notification};

/// What has not come by then does not come.
const BOUND: Duration = Duration::from_secs(30);

fn never(url: &str) -> PostgresStore {
    let mut options = Options::parse(url).unwrap();
    options.look = Duration::from_secs(24 * 3600);
    open(options).unwrap()
}

/// Waits until a store hears that another has submitted a job.
async fn hears(one: &Arc<PostgresStore>, other: &PostgresStore, n: u128) {
    let version = one.changed(0).await;
    let listener = Arc::clone(one);
    let heard = tokio::spawn(async move { listener.changed(version).await });
    let job = JobSpec::new(JobId::from_u128(n), TaskName::new("work").unwrap());
    other.submit(Timestamp::ZERO, SubmitBatch::of(vec![job])).await.unwrap();
    let later = tokio::time::timeout(BOUND, heard).await.expect("nothing was heard").unwrap();
    assert!(later > version);
}

fn listeners(database: &Database) -> u32 {
    let sql = "SELECT count(*) FROM pg_stat_activity \
               WHERE datname = current_database() AND query LIKE '%FROM \"runcue\".turn%'";
    database.sql(sql).unwrap().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_server_tells_is_enough() {
    let database = runcue_test_servers::postgres().unwrap();
    let one = Arc::new(never(&database.url()));
    let other = never(&database.url());
    for n in 1..=5 {
        hears(&one, &other, n).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_slow_look_is_enough() {
    let database = runcue_test_servers::postgres().unwrap();
    let one = Arc::new(open_url(&format!("{}?pooler=on", database.url())).unwrap());
    let other = open_url(&database.url()).unwrap();
    for n in 1..=3 {
        hears(&one, &other, n).await;
    }
}

/// What was told while the listening connection was away was not heard; the look after it finds it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_listener_is_replaced_and_finds_what_it_missed() {
    let database = runcue_test_servers::postgres().unwrap();
    let one = Arc::new(never(&database.url()));
    let other = never(&database.url());
    hears(&one, &other, 1).await;
    assert!(listeners(&database) >= 1);
    for n in 2..=4 {
        let sql = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
                   WHERE datname = current_database() AND pid <> pg_backend_pid()";
        database.sql(sql).unwrap();
        hears(&one, &other, n).await;
    }
}

/// What the server tells of a queue.
struct Ear {
    database: Database,
    heard: mpsc::UnboundedReceiver<Notification>,
    _client: tokio_postgres::Client,
}

impl Ear {
    async fn new() -> Self {
        let database = runcue_test_servers::postgres().unwrap();
        let (client, mut connection) =
            tokio_postgres::connect(&database.url(), tokio_postgres::NoTls).await.unwrap();
        let (tell, heard) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await
            {
                if let AsyncMessage::Notification(told) = message {
                    let _ = tell.send(told);
                }
            }
        });
        client.batch_execute("LISTEN \"\"\"runcue\"\".\"").await.unwrap();
        Self { database, heard, _client: client }
    }

    /// Everything that was told so far. What comes is in the order of the commits.
    async fn so_far(&mut self) -> Vec<Notification> {
        self.database.sql("NOTIFY \"\"\"runcue\"\".\", 'so far'").unwrap();
        let mut all = Vec::new();
        loop {
            let told = tokio::time::timeout(BOUND, self.heard.recv()).await.unwrap().unwrap();
            if told.payload() == "so far" {
                return all;
            }
            all.push(told);
        }
    }
}

fn jobs(from: u128, count: u128) -> SubmitBatch {
    let task = TaskName::new("work").unwrap();
    let job = |n| JobSpec::new(JobId::from_u128(n), task.clone());
    SubmitBatch::of((from..from + count).map(job).collect())
}

/// However many jobs are in it. The one that listens is another connection than the one that commits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_is_told_of_once() {
    let mut ear = Ear::new().await;
    let store = Arc::new(open_url(&ear.database.url()).unwrap());
    assert_eq!(ear.so_far().await.len(), 0);
    let mut by = BTreeSet::new();
    for (n, count) in (0..).map(|n| n * 10_000).zip([1, 600, 50, 2000, 5]) {
        store.submit(Timestamp::ZERO, jobs(n, count)).await.unwrap();
        let told = ear.so_far().await;
        assert_eq!(told.len(), 1, "of {count} jobs: {told:?}");
        by.insert(told[0].process_id());
        // Whoever waits for news listens.
        store.changed(0).await;
    }
    let deadline = std::time::Instant::now() + BOUND;
    while listeners(&ear.database) == 0 {
        assert!(std::time::Instant::now() < deadline, "nobody listens");
        tokio::task::yield_now().await;
    }
    let listening = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() \
                     AND query LIKE 'SELECT max(revision), EXISTS%'";
    let listening: i32 = ear.database.sql(listening).unwrap().parse().unwrap();
    store.submit(Timestamp::ZERO, jobs(90_000, 1)).await.unwrap();
    by.extend(ear.so_far().await.iter().map(Notification::process_id));
    assert!(!by.contains(&listening), "{listening} listens, {by:?} commit");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn submissions_that_share_a_commit_are_told_of_together() {
    const MANY: u128 = 400;
    let mut ear = Ear::new().await;
    let store = Arc::new(open_url(&ear.database.url()).unwrap());
    store.submit(Timestamp::ZERO, jobs(0, 1)).await.unwrap();
    ear.so_far().await;
    let turn = "SELECT max(revision) FROM runcue.turn";
    let number = |database: &Database| database.sql(turn).unwrap().parse::<usize>().unwrap();
    let before = number(&ear.database);
    let all = (1..=MANY).map(|n| {
        let store = Arc::clone(&store);
        async move { store.submit(Timestamp::ZERO, jobs(n, 1)).await.unwrap() }
    });
    let tasks: Vec<_> = all.map(tokio::spawn).collect();
    for task in tasks {
        task.await.unwrap();
    }
    let told = ear.so_far().await.len();
    let commits = number(&ear.database) - before;
    assert!(told <= commits, "{commits} commits are told of {told} times");
    assert!((1..=MANY as usize / 4).contains(&told), "{MANY} submissions are told of {told} times");
    assert_eq!(store.stats(Timestamp::ZERO).await.unwrap().counts.total(), MANY as u64 + 1);
}
