//! The file is readable with the sqlite3 shell: the views a person asks, through the real program.

use std::path::Path;
use std::process::Command;

use runcue_core::{GroupName, JobFilter, JobId, JobSpec, Json, Key, TaskName, Timestamp};
use runcue_store::{Retention, Store, SubmitBatch};
use runcue_store_sqlite::{Options, SqliteStore};

fn ask(path: &Path, sql: &str) -> String {
    let answer = Command::new("sqlite3").arg("-readonly").arg(path).arg(sql).output().unwrap();
    assert!(answer.status.success(), "{}", String::from_utf8_lossy(&answer.stderr));
    String::from_utf8(answer.stdout).unwrap().trim().to_owned()
}

#[tokio::test]
async fn the_sqlite3_shell_shows_jobs_and_events() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("queue.db");
    let store = SqliteStore::open(Options::new(&path)).unwrap();
    let now = Timestamp::from_millis(1_700_000_000_000);
    let mut job = JobSpec::new(JobId::from_u128(7), TaskName::new("resize").unwrap());
    job.group = Some(GroupName::new("photos").unwrap());
    job.target = Some("a.png".into());
    job.params = Json::parse(r#"{"width":640}"#).unwrap();
    store.submit(now, SubmitBatch::of(vec![job])).await.unwrap();
    let ask = |sql: &str| ask(&path, sql);
    let sql = "SELECT id, state, waits_for, task, \"group\", target, params, created_at FROM jobs";
    let expected = "00000000000000000000000000000007|queued|its turn|resize|photos|a.png|{\"width\":640}|2023-11-14 22:13:20";
    assert_eq!(ask(sql), expected);
    assert_eq!(ask("SELECT seq, type, task FROM events"), "1|work_queued|resize");
    assert_eq!(ask("PRAGMA journal_mode"), "wal");
}

#[tokio::test]
async fn a_key_and_a_group_per_job_leave_nothing_behind_when_the_jobs_are_pruned() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("queue.db");
    let store = SqliteStore::open(Options::new(&path)).unwrap();
    let now = Timestamp::from_millis(1_700_000_000_000);
    let job = |n: u128| JobSpec {
        key: Some(Key::new(format!("user{n}")).unwrap()),
        group: Some(GroupName::new(format!("group{n}")).unwrap()),
        ..JobSpec::new(JobId::from_u128(n), TaskName::new("t").unwrap())
    };
    store.submit(now, SubmitBatch::of((1..=300).map(job).collect())).await.unwrap();
    store.cancel(now, JobFilter::of_ids((2..=300).map(JobId::from_u128)), false).await.unwrap();
    let rows = "SELECT (SELECT count(*) FROM lane), (SELECT count(*) FROM groups)";
    assert_eq!(ask(&path, rows), "300|300");
    let later = now.plus(std::time::Duration::from_secs(8 * 24 * 3600));
    store.prune(later, Retention::default(), false).await.unwrap();
    assert_eq!(ask(&path, rows), "1|1");
}
