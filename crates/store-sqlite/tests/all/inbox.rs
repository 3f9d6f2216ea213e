//! Jobs from an application's own transaction on the same file, in Rust and in the sqlite3 shell.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use runcue_core::{JobId, JobSpec, OnFull, QueueName, QueueSpec, TaskName, Timestamp, WorkerId};
use runcue_store::{ClaimRequest, ListRequest, Store, StoreError, SubmitBatch, Submitted};
use runcue_store_sqlite::{Options, SqliteStore, enqueue_in};
use rusqlite::Connection;

const NOW: Timestamp = Timestamp::from_millis(1_700_000_000_000);

/// A queue in a directory that goes with the test.
fn place() -> (tempfile::TempDir, PathBuf, SqliteStore) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("queue.db");
    let store = SqliteStore::open(Options::new(&path)).unwrap();
    (directory, path, store)
}

/// The real program.
fn shell(path: &Path, sql: &str) -> std::process::Output {
    Command::new("sqlite3").args(["-cmd", ".timeout 10000"]).arg(path).arg(sql).output().unwrap()
}

fn ask(path: &Path, sql: &str) -> String {
    let answer = shell(path, sql);
    assert!(answer.status.success(), "{}", String::from_utf8_lossy(&answer.stderr));
    String::from_utf8(answer.stdout).unwrap().trim().to_owned()
}

fn application(path: &Path) -> Connection {
    let connection = Connection::open(path).unwrap();
    connection.busy_timeout(Duration::from_secs(10)).unwrap();
    connection
}

fn job(n: u128) -> JobSpec {
    JobSpec::new(JobId::from_u128(n), TaskName::new("work").unwrap())
}

async fn claim(store: &SqliteStore, max: usize) -> Vec<JobSpec> {
    let request = ClaimRequest::new(WorkerId::from_u128(1), max);
    let claimed = store.claim(NOW, request).await.unwrap();
    claimed.jobs.iter().map(|(job, _)| JobSpec::clone(&job.spec)).collect()
}

#[tokio::test]
async fn a_job_put_down_in_the_shell_takes_part_once_its_transaction_commits() {
    let (_directory, path, store) = place();
    let undone = "BEGIN; INSERT INTO inbox (body) VALUES ('{\"task\": \"never\"}'); ROLLBACK";
    ask(&path, undone);
    assert_eq!(claim(&store, 9).await, []);
    let id = ask(
        &path,
        "CREATE TABLE orders (n); BEGIN; INSERT INTO orders VALUES (1); \
         INSERT INTO inbox (body) VALUES (json_object('task', 'mail', 'params', json_object('to', 'me'), \
         'queue', 'slow', 'group', 'g', 'priority', 5, 'labels', json_array('a'))) RETURNING id; COMMIT",
    );
    let found = claim(&store, 9).await;
    let [job] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!(job.id.to_string(), id);
    assert_eq!(id.len(), 32, "{id}");
    let (millis, version) = (u64::from_str_radix(&id[..12], 16).unwrap(), &id[12..13]);
    assert!(millis > 1_700_000_000_000 && version == "7" && &id[16..17] == "8", "{id}");
    assert_eq!((job.task.as_str(), job.queue.as_str(), job.priority), ("mail", "slow", 5));
    assert_eq!(job.params.as_str(), r#"{"to":"me"}"#);
    assert_eq!(job.group.as_ref().unwrap().as_str(), "g");
    assert!(job.labels.contains("a"));
    assert_eq!(ask(&path, "SELECT count(*) FROM inbox"), "0");
    assert_eq!(claim(&store, 9).await, [], "it is admitted once");
    assert_eq!(store.check(NOW).await.unwrap(), [""; 0]);
}

#[tokio::test]
async fn rust_puts_jobs_down_in_its_transaction_and_a_repeated_id_is_one_job() {
    let (_directory, path, store) = place();
    let mut application = application(&path);
    let undone = application.transaction().unwrap();
    enqueue_in(&undone, &job(1)).unwrap();
    undone.rollback().unwrap();
    assert_eq!(claim(&store, 9).await, []);
    let own = application.transaction().unwrap();
    own.execute_batch("CREATE TABLE orders (n); INSERT INTO orders VALUES (1)").unwrap();
    for n in [2, 3, 3] {
        enqueue_in(&own, &job(n)).unwrap();
    }
    own.commit().unwrap();
    assert_eq!(claim(&store, 9).await, [job(2), job(3)]);
    let again = store.submit(NOW, SubmitBatch::of(vec![job(2)])).await.unwrap();
    assert_eq!(again, [Submitted::Existing(JobId::from_u128(2))]);
    let bad = JobSpec { target: Some("x".repeat(1 << 20)), ..job(4) };
    let own = application.transaction().unwrap();
    let told = enqueue_in(&own, &bad).unwrap_err();
    assert!(matches!(told, StoreError::Invalid { .. }), "{told}");
}

#[tokio::test]
async fn more_jobs_than_one_look_takes_are_admitted_in_their_order() {
    let (_directory, path, store) = place();
    let sql = "WITH RECURSIVE number (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number WHERE n < 2500) \
               INSERT INTO inbox (body) SELECT json_object('task', 't', 'target', n || '') FROM number";
    ask(&path, sql);
    let mut found = Vec::new();
    while found.len() < 2500 {
        let more = claim(&store, 5000).await;
        assert!(!more.is_empty(), "after {}", found.len());
        found.extend(more.into_iter().map(|job| job.target.unwrap()));
    }
    assert!(found.into_iter().eq((1..=2500).map(|n| n.to_string())));
}

#[tokio::test]
async fn a_refused_job_is_kept_with_the_reason_and_holds_up_no_other() {
    let (_directory, path, store) = place();
    let bodies = "('{\"task\": \"a\", \"services\": [{\"service\": \"nowhere\", \"units\": 1}]}'), \
                  ('{\"task\": \"b\"}'), ('{\"target\": \"no task\"}'), ('[1]')";
    ask(&path, &format!("INSERT INTO inbox (body) VALUES {bodies}"));
    let no_json = shell(&path, "INSERT INTO inbox (body) VALUES ('{task')");
    assert!(!no_json.status.success(), "what is no JSON is refused at once");
    let tasks: Vec<String> =
        claim(&store, 9).await.into_iter().map(|job| job.task.to_string()).collect();
    assert_eq!(tasks, ["b"]);
    let refused = store.refused(10).await.unwrap();
    let numbers: Vec<u64> = refused.iter().map(|row| row.n).collect();
    assert_eq!(numbers, [4, 3, 1], "latest first");
    assert!(refused[2].why.contains("nowhere") && refused[1].why.contains("task"), "{refused:?}");
    assert!(refused[0].why.contains("not a job"), "{refused:?}");
    assert_eq!(ask(&path, "SELECT count(*) FROM inbox"), "0");
}

#[tokio::test]
async fn a_job_for_a_full_queue_waits_for_room() {
    let (_directory, path, store) = place();
    let (name, on_full) = (QueueName::default(), OnFull::Block);
    let queue = QueueSpec { name, max_queued: Some(1), on_full, paused: false };
    store.upsert_queues(NOW, vec![queue]).await.unwrap();
    ask(&path, "INSERT INTO inbox (body) VALUES ('{\"task\": \"a\"}'), ('{\"task\": \"b\"}')");
    for expected in ["a", "b"] {
        let found = claim(&store, 9).await;
        assert_eq!(found.iter().map(|job| job.task.as_str()).collect::<Vec<_>>(), [expected]);
    }
    assert_eq!(store.refused(9).await.unwrap(), []);
}

#[tokio::test]
async fn whoever_counts_jobs_counts_those_that_applications_have_put_down() {
    let (_directory, path, store) = place();
    ask(&path, "INSERT INTO inbox (body) VALUES ('{\"task\": \"a\"}')");
    assert_eq!(store.stats(NOW).await.unwrap().counts.queued, 1);
    let page = store.list(ListRequest { limit: 9, ..ListRequest::default() }).await.unwrap();
    assert_eq!(page.rows[0].life.queued_at, NOW);
}

#[tokio::test]
async fn whoever_waits_for_news_is_told_of_jobs_from_another_process() {
    let (_directory, path, store) = place();
    let mut version = store.changed(0).await;
    for n in 1..=3 {
        ask(&path, "INSERT INTO inbox (body) VALUES ('{\"task\": \"a\"}')");
        let told = tokio::time::timeout(Duration::from_secs(20), async {
            loop {
                version = store.changed(version).await;
                if !claim(&store, 9).await.is_empty() {
                    break;
                }
            }
        });
        told.await.unwrap_or_else(|_| panic!("nobody was told of job {n}"));
    }
}

#[tokio::test]
async fn a_field_that_no_job_has_is_refused_by_its_name() {
    let (_directory, path, store) = place();
    let bodies = "('{\"task\": \"a\", \"prioritty\": 5}'), ('{\"task\": \"b\", \"retry\": {\"attempts\": 5}}'), \
                  ('{\"task\": \"c\", \"params\": {\"whatever\": {\"it\": \"is\"}}}')";
    ask(&path, &format!("INSERT INTO inbox (body) VALUES {bodies}"));
    let tasks: Vec<String> =
        claim(&store, 9).await.into_iter().map(|job| job.task.to_string()).collect();
    assert_eq!(tasks, ["c"]);
    let why: Vec<String> = store.refused(9).await.unwrap().into_iter().map(|row| row.why).collect();
    let words = |field: &str| format!("it is not a job: {field} is no field of a job");
    assert_eq!(why, [words("retry.attempts"), words("prioritty")]);
}

/// More than one look takes.
#[tokio::test]
async fn thousands_that_wait_for_room_hide_nothing_behind_them() {
    let (_directory, path, store) = place();
    let (name, on_full) = (QueueName::new("narrow").unwrap(), OnFull::Block);
    let queue = QueueSpec { name, max_queued: Some(1), on_full, paused: false };
    store.upsert_queues(NOW, vec![queue]).await.unwrap();
    let sql = "WITH RECURSIVE number (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number WHERE n < 2500) \
               INSERT INTO inbox (body) SELECT json_object('task', 'slow', 'queue', 'narrow') FROM number; \
               INSERT INTO inbox (body) VALUES ('{\"task\": \"behind\"}')";
    ask(&path, sql);
    let wanted = ClaimRequest {
        filter: runcue_core::ClaimFilter {
            tasks: [TaskName::new("behind").unwrap()].into_iter().collect(),
            ..Default::default()
        },
        ..ClaimRequest::new(WorkerId::from_u128(1), 9)
    };
    let mut looks = 0;
    while store.claim(NOW, wanted.clone()).await.unwrap().jobs.is_empty() {
        looks += 1;
        assert!(looks < 10, "it is hidden");
    }
    // Those before it are still there, and get their turn as room comes.
    assert_eq!(ask(&path, "SELECT count(*) FROM inbox"), "2499");
    let mut ran = 0;
    for _ in 0..40 {
        let found = claim(&store, 9).await;
        ran += found.iter().filter(|job| job.task.as_str() == "slow").count();
    }
    assert!(ran >= 10, "{ran} of those that waited");
}

#[tokio::test]
async fn refused_jobs_are_kept_as_long_as_events() {
    let (_directory, path, store) = place();
    ask(&path, "INSERT INTO inbox (body) VALUES ('[1]'), ('[2]')");
    claim(&store, 9).await;
    let now =
        ask(&path, "SELECT max(at) FROM refused").parse().map(Timestamp::from_micros).unwrap();
    let keep = runcue_store::Retention::default();
    store.prune(now, keep, false).await.unwrap();
    assert_eq!(store.refused(9).await.unwrap().len(), 2);
    let later = now.plus(keep.events.age + Duration::from_secs(1));
    store.prune(later, keep, true).await.unwrap();
    assert_eq!(store.refused(9).await.unwrap().len(), 2, "a dry run deletes nothing");
    store.prune(later, keep, false).await.unwrap();
    assert_eq!(store.refused(9).await.unwrap().len(), 0);
}
