//! What can be wrong with the directory: the answer names it and the fix, and nothing acknowledged is lost.

use std::fs::{self, OpenOptions};
use std::path::Path;
use std::sync::Arc;

use heed::types::Bytes;
use heed::{CommitOrAbort, Database, Env, EnvOpenOptions};
use runcue_core::{Capabilities, JobId, JobSpec, Json, StateWord, TaskName, Timestamp, WorkerId};
use runcue_store::{ClaimRequest, Finish, Outcome, Store, StoreError, SubmitBatch, WorkerSpec};
use runcue_store_lmdb::{Durability, FORMAT, LmdbStore, Options};

fn now() -> Timestamp {
    Timestamp::from_millis(1_700_000_000_000)
}

fn job(n: u128) -> JobSpec {
    JobSpec::new(JobId::from_u128(n), TaskName::new("t").unwrap())
}

fn open(path: &Path) -> Result<LmdbStore, StoreError> {
    LmdbStore::open(&Options::new(path))
}

/// Something else than the store writes into the environment.
fn meddle(path: &Path, table: &str, key: &[u8], value: &[u8]) {
    let mut settings = EnvOpenOptions::new();
    settings.max_dbs(8).map_size(64 << 20);
    #[expect(unsafe_code, reason = "the store is closed, nobody else has the file")]
    let env: Env = unsafe { settings.open(path).unwrap() };
    let made = env.create_databases_and_commit(env.write_txn().unwrap(), |opener, txn| {
        opener.create_database::<Bytes, Bytes>(txn, Some(table)).map(CommitOrAbort::<_, ()>::Commit)
    });
    let table: Database<'static, Bytes, Bytes> = made.unwrap().unwrap_commit();
    let mut txn = env.write_txn().unwrap();
    table.put(&mut txn, key, value).unwrap();
    txn.commit().unwrap();
    env.prepare_for_closing().wait();
}

/// A queue with two thousand jobs that nobody has open.
async fn filled(path: &Path) {
    let store = open(path).unwrap();
    let jobs = (1..=2_000).map(job).collect();
    store.submit(now(), SubmitBatch::of(jobs)).await.unwrap();
    store.close().await.unwrap();
}

#[test]
fn a_file_that_is_not_of_lmdb_is_named_and_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("queue");
    fs::create_dir(&path).unwrap();
    let text = "these are my notes, which are much longer than a page of a database\n".repeat(400);
    fs::write(path.join("data.mdb"), &text).unwrap();
    let error = open(&path).unwrap_err();
    assert!(matches!(error, StoreError::Corrupt { .. }), "{error:?}");
    let told = error.to_string();
    assert!(told.contains("queue") && told.contains("not of LMDB"), "{told}");
    assert_eq!(fs::read_to_string(path.join("data.mdb")).unwrap(), text);
}

#[test]
fn an_environment_of_another_program_is_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    meddle(directory.path(), "notes", b"monday", b"buy milk");
    let before = fs::read(directory.path().join("data.mdb")).unwrap();
    let error = open(directory.path()).unwrap_err().to_string();
    assert!(error.contains("another program") && error.contains("--store"), "{error}");
    assert_eq!(fs::read(directory.path().join("data.mdb")).unwrap(), before);
}

#[tokio::test]
async fn a_newer_format_is_refused_with_both_versions() {
    let directory = tempfile::tempdir().unwrap();
    filled(directory.path()).await;
    meddle(directory.path(), "meta", b"format", &(FORMAT + 7).to_be_bytes());
    let error = open(directory.path()).unwrap_err();
    assert!(
        matches!(error, StoreError::Newer { found, known, .. } if found == FORMAT + 7 && known == FORMAT),
        "{error:?}"
    );
    assert!(error.to_string().contains("upgrade runcue"));
}

/// Set where a test runs as the process of a newer version.
const NEWER: &str = "RUNCUE_TEST_NEWER";

#[tokio::test]
async fn a_directory_that_becomes_newer_under_a_handle_is_not_written_any_more() {
    let raise = |path: &Path| meddle(path, "meta", b"format", &(FORMAT + 1).to_be_bytes());
    if let Some(path) = std::env::var_os(NEWER) {
        return raise(Path::new(&path));
    }
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path()).unwrap();
    store.submit(now(), SubmitBatch::of((1..=9).map(job).collect())).await.unwrap();
    let request = ClaimRequest::new(WorkerId::from_u128(1), 2);
    let held = store.claim(now(), request.clone()).await.unwrap().jobs;
    let name = "directory::a_directory_that_becomes_newer_under_a_handle_is_not_written_any_more";
    let newer = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name])
        .env(NEWER, directory.path())
        .output()
        .unwrap();
    assert!(newer.status.success(), "{}", String::from_utf8_lossy(&newer.stdout));
    let last = store.last_event().await.unwrap();
    let done =
        |(_, lease)| Finish { lease, outcome: Outcome::Done { result: None, result_key: None } };
    let ends = held.into_iter().map(done).collect();
    let errors = [
        store.submit(now(), SubmitBatch::of(vec![job(10)])).await.unwrap_err(),
        store.claim(now(), request).await.unwrap_err(),
        store.finish(now(), ends).await.unwrap_err(),
        store.reap(now(), Vec::new()).await.unwrap_err(),
        store.stats(now()).await.unwrap_err(),
    ];
    for error in errors {
        let line = error.to_string();
        assert_eq!(line.lines().count(), 1, "{line}");
        let (found, place) =
            (format!("schema {}", FORMAT + 1), directory.path().display().to_string());
        for word in [&place[..], "newer runcue", &found, "upgrade runcue"] {
            assert!(line.contains(word), "{word:?} is not in {line:?}");
        }
    }
    assert_eq!(store.last_event().await.unwrap(), last, "nothing was written");
    assert_eq!(store.get(vec![JobId::from_u128(10)]).await.unwrap(), [None]);
    // Whoever shares the environment is refused like everybody else.
    let error = open(directory.path()).unwrap_err();
    assert!(matches!(error, StoreError::Newer { .. }), "{error:?}");
}

#[tokio::test]
async fn a_file_whose_end_is_missing_is_found_before_anything_is_read() {
    let directory = tempfile::tempdir().unwrap();
    filled(directory.path()).await;
    let file = directory.path().join("data.mdb");
    let length = fs::metadata(&file).unwrap().len();
    OpenOptions::new().write(true).open(&file).unwrap().set_len(length / 2).unwrap();
    let error = open(directory.path()).unwrap_err();
    assert!(matches!(error, StoreError::Corrupt { .. }), "{error:?}");
    let told = error.to_string();
    assert!(told.contains("its end is missing") && told.contains("restore a backup"), "{told}");
}

#[tokio::test]
async fn a_damaged_row_is_named_and_the_others_are_not_touched() {
    let directory = tempfile::tempdir().unwrap();
    filled(directory.path()).await;
    meddle(directory.path(), "job", &7_u64.to_be_bytes(), b"what is this");
    let store = open(directory.path()).unwrap();
    let error = store.check(now()).await.unwrap_err();
    assert!(matches!(error, StoreError::Corrupt { .. }), "{error:?}");
    assert!(error.to_string().contains("restore a backup"), "{error}");
    let ids = vec![JobId::from_u128(6), JobId::from_u128(8)];
    let there = store.get(ids).await.unwrap();
    assert!(there.iter().all(Option::is_some));
}

#[tokio::test]
async fn an_index_that_lost_an_entry_is_found() {
    let directory = tempfile::tempdir().unwrap();
    filled(directory.path()).await;
    meddle(directory.path(), "ready", &[9; 20], b"");
    let store = open(directory.path()).unwrap();
    let findings = store.check(now()).await.unwrap();
    assert_eq!(findings, ["ready has 2001 entries, 2000 are expected"]);
}

#[tokio::test]
async fn a_directory_that_cannot_be_made_is_named() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("file"), "").unwrap();
    let error = open(&directory.path().join("file/queue")).unwrap_err().to_string();
    assert!(error.contains("file/queue") && error.contains("directory"), "{error}");
    let error = open(&directory.path().join("file")).unwrap_err().to_string();
    assert!(error.contains("lmdb:queue"), "{error}");
}

#[tokio::test]
async fn a_full_map_refuses_new_work_loses_none_and_can_be_made_larger() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("queue");
    let url = format!("lmdb:{}?size=1MiB", path.display());
    let store = LmdbStore::open_url(&url).unwrap();
    let big =
        |n| JobSpec { params: Json::trusted(format!("\"{}\"", "x".repeat(50_000))), ..job(n) };
    let mut accepted = 0;
    let error = loop {
        match store.submit(now(), SubmitBatch::of(vec![big(accepted + 1)])).await {
            Ok(_) => accepted += 1,
            Err(error) => break error,
        }
        assert!(accepted < 100, "a mebibyte does not hold this much");
    };
    assert!(error.is_transient(), "{error:?}");
    let told = error.to_string();
    assert!(told.contains("1MiB") && told.contains("size=2MiB") && told.contains("lost"), "{told}");
    assert!(accepted > 5);
    let stats = store.stats(now()).await.unwrap();
    assert_eq!(u128::from(stats.counts.queued), accepted, "all that was acknowledged, no more");
    store.close().await.unwrap();
    drop(store);
    let store = LmdbStore::open_url(&url.replace("1MiB", "16MiB")).unwrap();
    store.submit(now(), SubmitBatch::of(vec![big(accepted + 1)])).await.unwrap();
    let claimed = store.claim(now(), ClaimRequest::new(WorkerId::from_u128(1), 100)).await.unwrap();
    assert_eq!(claimed.jobs.len() as u128, accepted + 1);
    assert_eq!(store.check(now()).await.unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn params_of_a_mebibyte_and_long_keys_come_back_whole() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path()).unwrap();
    let params = Json::trusted(format!("\"{}\"", "é".repeat(500_000)));
    // Longer than a key of LMDB may be, and the same up to the last letter.
    let key = |end: &str| Some(format!("{}{end}", "k".repeat(1_000)));
    let labels = (0..64).map(|n| format!("{n}{}", "l".repeat(1_000))).collect();
    let first = JobSpec { params: params.clone(), idempotency_key: key("a"), labels, ..job(1) };
    let second = JobSpec { idempotency_key: key("b"), ..job(2) };
    store.submit(now(), SubmitBatch::of(vec![first.clone(), second])).await.unwrap();
    let again = JobSpec { idempotency_key: key("a"), ..job(3) };
    let known = store.submit(now(), SubmitBatch::of(vec![again])).await.unwrap();
    assert_eq!(known[0].id(), JobId::from_u128(1));
    let job = store.get(vec![JobId::from_u128(1)]).await.unwrap().remove(0).unwrap();
    assert_eq!(*job.spec, first);
}

#[tokio::test]
async fn thirty_thousand_jobs_go_in_and_out_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path()).unwrap();
    let jobs = (1..=30_000).map(job).collect();
    store.submit(now(), SubmitBatch::of(jobs)).await.unwrap();
    let request = ClaimRequest::new(WorkerId::from_u128(1), 30_000);
    let claimed = store.claim(now(), request).await.unwrap();
    assert_eq!(claimed.jobs.len(), 30_000);
    let done = || Outcome::Done { result: None, result_key: None };
    let ends = claimed.jobs.into_iter().map(|(_, lease)| Finish { lease, outcome: done() });
    store.finish(now(), ends.collect()).await.unwrap();
    let stats = store.stats(now()).await.unwrap();
    assert_eq!(stats.counts.get(StateWord::Completed), 30_000);
}

#[test]
fn one_process_opens_a_directory_in_one_mode() {
    let directory = tempfile::tempdir().unwrap();
    let first = open(directory.path()).unwrap();
    let full = Options { durability: Durability::Full, ..Options::new(directory.path()) };
    let error = LmdbStore::open(&full).unwrap_err().to_string();
    assert!(error.contains("durability=normal"), "{error}");
    drop(first);
    let second = LmdbStore::open(&full).unwrap();
    assert!(second.durability().starts_with("full"));
}

#[test]
fn a_directory_can_be_deleted_and_made_anew() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("queue");
    for _ in 0..3 {
        drop(open(&path).unwrap());
        assert!(path.join("data.mdb").exists());
        fs::remove_dir_all(&path).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_handles_on_one_directory_hand_each_job_out_once() {
    let directory = tempfile::tempdir().unwrap();
    let mut tasks = tokio::task::JoinSet::new();
    for handle in 0..6_u128 {
        let store = Arc::new(open(directory.path()).unwrap());
        tasks.spawn(async move {
            let mut got = 0;
            for n in 0..50_u128 {
                let batch = SubmitBatch::of(vec![job(handle * 1000 + n + 1)]);
                store.submit(now(), batch).await.unwrap();
                let request = ClaimRequest::new(WorkerId::from_u128(handle), 1);
                got += store.claim(now(), request).await.unwrap().jobs.len();
            }
            got
        });
    }
    let mut got = 0;
    while let Some(one) = tasks.join_next().await {
        got += one.unwrap();
    }
    assert_eq!(got, 300);
    let store = open(directory.path()).unwrap();
    assert_eq!(store.stats(now()).await.unwrap().counts.running, 300);
    assert_eq!(store.check(now()).await.unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn news_from_another_handle_arrives() {
    let directory = tempfile::tempdir().unwrap();
    let (here, there) = (open(directory.path()).unwrap(), open(directory.path()).unwrap());
    let version = here.changed(0).await;
    there.submit(now(), SubmitBatch::of(vec![job(1)])).await.unwrap();
    assert!(here.changed(version).await > version);
}

#[tokio::test]
async fn a_worker_is_gone_when_its_lock_is_and_not_before() {
    let directory = tempfile::tempdir().unwrap();
    let (first, second) = (open(directory.path()).unwrap(), open(directory.path()).unwrap());
    let worker = |n: u128| WorkerSpec {
        id: WorkerId::from_u128(n),
        name: format!("worker-{n}"),
        host: runcue_store::presence::host(),
        pid: 1,
        slots: 1,
        offers: Capabilities::default(),
    };
    first.upsert_worker(now(), worker(1)).await.unwrap();
    second.upsert_worker(now(), worker(2)).await.unwrap();
    assert_eq!(second.gone_workers().await.unwrap(), []);
    // As after a kill: the lock is let go of and nobody has said goodbye.
    drop(first);
    assert_eq!(second.gone_workers().await.unwrap(), [WorkerId::from_u128(1)]);
}
