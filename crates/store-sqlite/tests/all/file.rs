//! What can be wrong with the file: the answer names it and the fix, and nothing acknowledged is lost.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use runcue_core::{JobId, JobSpec, Json, TaskName, Timestamp, WorkerId};
use runcue_store::{ClaimRequest, Finish, Outcome, Store, StoreError, SubmitBatch};
use runcue_store_sqlite::{Durability, Options, SCHEMA, SqliteStore};

fn now() -> Timestamp {
    Timestamp::from_millis(1_700_000_000_000)
}

fn job(n: u128) -> JobSpec {
    JobSpec::new(JobId::from_u128(n), TaskName::new("t").unwrap())
}

fn open(path: &Path) -> Result<SqliteStore, StoreError> {
    SqliteStore::open(Options::new(path))
}

#[test]
fn a_file_that_is_no_database_is_named_and_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("notes.db");
    let text = "these are my notes, which are much longer than a header of a database would be\n"
        .repeat(20);
    fs::write(&path, &text).unwrap();
    let error = open(&path).unwrap_err();
    assert!(matches!(error, StoreError::Corrupt { .. }), "{error:?}");
    assert!(
        error.to_string().contains("notes.db")
            && error.to_string().contains("not a SQLite database")
    );
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
}

#[test]
fn a_database_of_another_program_is_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("theirs.db");
    rusqlite::Connection::open(&path).unwrap().execute_batch("CREATE TABLE notes (text)").unwrap();
    let error = open(&path).unwrap_err().to_string();
    assert!(error.contains("another program") && error.contains("--store"), "{error}");
}

#[test]
fn a_newer_database_is_refused_with_both_versions() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("queue.db");
    drop(open(&path).unwrap());
    let connection = rusqlite::Connection::open(&path).unwrap();
    connection.pragma_update(None, "user_version", SCHEMA + 7).unwrap();
    let error = open(&path).unwrap_err();
    assert!(
        matches!(error, StoreError::Newer { found, known, .. } if found == SCHEMA + 7 && known == SCHEMA)
    );
    assert!(error.to_string().contains("upgrade runcue"));
}

#[tokio::test]
async fn damage_in_the_middle_is_found_and_named() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("queue.db");
    let store = open(&path).unwrap();
    let jobs = (1..=2_000).map(job).collect();
    store.submit(now(), SubmitBatch::of(jobs)).await.unwrap();
    store.close().await.unwrap();
    drop(store);
    let mut bytes = fs::read(&path).unwrap();
    for byte in bytes.iter_mut().skip(8 * 4096) {
        *byte ^= 0x5a;
    }
    fs::write(&path, bytes).unwrap();
    let found = match open(&path) {
        Err(error) => error.to_string(),
        Ok(store) => match store.check(now()).await {
            Ok(findings) => findings.join("; "),
            Err(error) => error.to_string(),
        },
    };
    assert!(!found.is_empty());
    assert!(found.contains("damaged") || found.to_lowercase().contains("tree"), "{found}");
}

#[tokio::test]
async fn a_directory_that_cannot_be_made_is_named() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("file"), "").unwrap();
    let error = open(&directory.path().join("file/queue.db")).unwrap_err().to_string();
    assert!(error.contains("file/queue.db") && error.contains("directory"), "{error}");
}

#[tokio::test]
async fn a_full_disk_refuses_new_work_and_loses_none() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("queue.db");
    let store = open(&path).unwrap();
    store.submit(now(), SubmitBatch::of(vec![job(1)])).await.unwrap();
    store.close().await.unwrap();
    drop(store);
    // SQLite's own bound on the file's size gives the same error as a disk without space.
    let connection = rusqlite::Connection::open(&path).unwrap();
    let pages: i64 = connection.query_row("PRAGMA page_count", [], |row| row.get(0)).unwrap();
    drop(connection);
    let store = SqliteStore::open_bounded(Options::new(&path), pages + 8).unwrap();
    let big =
        |n| JobSpec { params: Json::trusted(format!("\"{}\"", "x".repeat(200_000))), ..job(n) };
    let error =
        store.submit(now(), SubmitBatch::of((10..20).map(big).collect())).await.unwrap_err();
    assert!(matches!(error, StoreError::DiskFull { .. }), "{error:?}");
    assert!(error.to_string().contains("free some space"));
    assert!(error.is_transient());
    let claimed = store.claim(now(), ClaimRequest::new(WorkerId::from_u128(1), 10)).await.unwrap();
    assert_eq!(claimed.jobs.len(), 1, "what was acknowledged is there, what was refused is not");
    let (_, lease) = claimed.jobs.into_iter().next().unwrap();
    let done = Finish { lease, outcome: Outcome::Done { result: None, result_key: None } };
    store.finish(now(), vec![done]).await.unwrap();
    assert_eq!(store.check(now()).await.unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn params_of_a_mebibyte_come_back_whole() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory.path().join("queue.db")).unwrap();
    let params = Json::trusted(format!("\"{}\"", "é".repeat(500_000)));
    store
        .submit(now(), SubmitBatch::of(vec![JobSpec { params: params.clone(), ..job(1) }]))
        .await
        .unwrap();
    let job = store.get(vec![JobId::from_u128(1)]).await.unwrap().remove(0).unwrap();
    assert_eq!(job.spec.params, params);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_handles_on_one_file_never_see_that_it_is_locked() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("queue.db");
    let mut tasks = tokio::task::JoinSet::new();
    for handle in 0..6_u128 {
        let store = Arc::new(open(&path).unwrap());
        tasks.spawn(async move {
            for n in 0..50_u128 {
                store
                    .submit(now(), SubmitBatch::of(vec![job(handle * 1000 + n + 1)]))
                    .await
                    .unwrap();
                let claimed = store
                    .claim(now(), ClaimRequest::new(WorkerId::from_u128(handle), 1))
                    .await
                    .unwrap();
                let end = |(_, lease)| Finish {
                    lease,
                    outcome: Outcome::Done { result: None, result_key: None },
                };
                store.finish(now(), claimed.jobs.into_iter().map(end).collect()).await.unwrap();
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    let store = open(&path).unwrap();
    assert_eq!(store.stats(now()).await.unwrap().counts.total(), 300);
    assert_eq!(store.check(now()).await.unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn news_from_another_handle_arrives() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("queue.db");
    let (here, there) = (open(&path).unwrap(), open(&path).unwrap());
    let version = here.changed(0).await;
    there.submit(now(), SubmitBatch::of(vec![job(1)])).await.unwrap();
    assert!(here.changed(version).await > version);
}

#[test]
fn addresses_say_the_durability() {
    let options = Options::parse("sqlite:a/queue.db?durability=full").unwrap();
    assert_eq!((options.path.to_str(), options.durability), (Some("a/queue.db"), Durability::Full));
    assert_eq!(Options::parse("queue.db").unwrap().durability, Durability::Normal);
    assert!(Options::parse("sqlite:").unwrap_err().to_string().contains("path is missing"));
    assert!(
        Options::parse("sqlite:q.db?sync=1").unwrap_err().to_string().contains("durability=full")
    );
}

#[test]
fn a_file_that_another_process_is_about_to_use_is_waited_for() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("queue.db");
    // As a file is before it has a log of its own, which somebody else is about to give it.
    let other = rusqlite::Connection::open(&path).unwrap();
    other.execute_batch("CREATE TABLE t (a); DROP TABLE t; BEGIN IMMEDIATE").unwrap();
    let (tell, told) = std::sync::mpsc::channel();
    let opening = std::thread::spawn(move || {
        tell.send(SqliteStore::open(Options::new(path)).map(drop)).unwrap();
    });
    let early = told.recv_timeout(std::time::Duration::from_millis(200));
    assert!(early.is_err(), "it is busy, which is nobody's business: {early:?}");
    other.execute_batch("COMMIT").unwrap();
    told.recv().unwrap().unwrap();
    opening.join().unwrap();
}
