//! The file is readable with the sqlite3 shell: the views a person asks, through the real program.

use std::process::Command;

use runcue_core::{GroupName, JobId, JobSpec, Json, TaskName, Timestamp};
use runcue_store::{Store, SubmitBatch};
use runcue_store_sqlite::{Options, SqliteStore};

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
    let ask = |sql: &str| {
        let answer = Command::new("sqlite3").arg("-readonly").arg(&path).arg(sql).output().unwrap();
        assert!(answer.status.success(), "{}", String::from_utf8_lossy(&answer.stderr));
        String::from_utf8(answer.stdout).unwrap().trim().to_owned()
    };
    let sql = "SELECT id, state, waits_for, task, \"group\", target, params, created_at FROM jobs";
    let expected = "00000000000000000000000000000007|queued|its turn|resize|photos|a.png|{\"width\":640}|2023-11-14 22:13:20";
    assert_eq!(ask(sql), expected);
    assert_eq!(ask("SELECT seq, type, task FROM events"), "1|work_queued|resize");
    assert_eq!(ask("PRAGMA journal_mode"), "wal");
}
