//! Changes of groups go through a log before they reach their rows. Nobody must see the difference: not another
//! process, not one that opens the file later, not a person with a shell.

use std::collections::BTreeMap;
use std::path::Path;

use runcue_core::{GroupName, JobId, JobSpec, Lease, TaskName, Timestamp, WorkerId};
use runcue_store::{ClaimRequest, Finish, GroupInfo, Outcome, Store, SubmitBatch};
use runcue_store_sqlite::{Options, SqliteStore};

const NOW: Timestamp = Timestamp::from_millis(1_700_000_000_000);
const GROUPS: u128 = 60;

fn open(path: &Path) -> SqliteStore {
    SqliteStore::open(Options::new(path)).unwrap()
}

/// Jobs that go round the groups.
fn jobs(from: u128, count: u128) -> Vec<JobSpec> {
    let job = |n| {
        let mut job = JobSpec::new(JobId::from_u128(n + 1), TaskName::new("t").unwrap());
        job.group = Some(GroupName::new(format!("g{}", n % GROUPS)).unwrap());
        job
    };
    (from..from + count).map(job).collect()
}

async fn claim(store: &SqliteStore, max: usize) -> Vec<Lease> {
    let request = ClaimRequest::new(WorkerId::from_u128(1), max);
    let claimed = store.claim(NOW, request).await.unwrap();
    claimed.jobs.into_iter().map(|(_, lease)| lease).collect()
}

async fn finish(store: &SqliteStore, leases: Vec<Lease>) {
    let outcome = Outcome::Done { result: None, result_key: None };
    let end = |lease| Finish { lease, outcome: outcome.clone() };
    store.finish(NOW, leases.into_iter().map(end).collect()).await.unwrap();
}

async fn groups(store: &SqliteStore) -> BTreeMap<String, GroupInfo> {
    let named = |group: GroupInfo| (format!("{:?}", group.name), group);
    store.groups().await.unwrap().into_iter().map(named).collect()
}

fn count(path: &Path, sql: &str) -> i64 {
    let connection = rusqlite::Connection::open(path).unwrap();
    connection.query_row(sql, [], |row| row.get(0)).unwrap()
}

/// What the shell's view tells of completed and queued jobs.
fn by_view(path: &Path) -> Vec<(String, u64, u64)> {
    let connection = rusqlite::Connection::open(path).unwrap();
    let sql = "SELECT \"group\", queued, completed FROM groups ORDER BY \"group\"";
    let mut statement = connection.prepare(sql).unwrap();
    let read = |row: &rusqlite::Row<'_>| {
        let count = |n| row.get::<_, i64>(n).map(i64::unsigned_abs);
        Ok((row.get(0)?, count(1)?, count(2)?))
    };
    statement.query_map([], read).unwrap().map(Result::unwrap).collect()
}

#[tokio::test]
async fn two_processes_agree_on_every_group_while_the_log_grows_and_moves() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("queue.db");
    let (one, other) = (open(&path), open(&path));
    let (mut longest, mut emptied) = (0, 0);
    for round in 0..60_u128 {
        // They take turns in doing what the other one must know of.
        let (this, that) = if round % 3 == 0 { (&other, &one) } else { (&one, &other) };
        this.submit(NOW, SubmitBatch::of(jobs(round * 100, 100))).await.unwrap();
        let leases = claim(this, 80).await;
        assert_eq!(leases.len(), 80);
        finish(if round % 2 == 0 { this } else { that }, leases).await;
        assert_eq!(groups(this).await, groups(that).await, "round {round}");
        let entries = count(&path, "SELECT ifnull(sum(json_array_length(body)), 0) FROM group_run");
        emptied += usize::from(entries < longest);
        longest = entries;
        assert!(entries < 2_000, "the log has {entries} entries");
    }
    assert!(emptied > 2, "the log never moved");
    assert_eq!(one.check(NOW).await.unwrap(), Vec::<String>::new());
    let told = groups(&one).await;
    let third = open(&path);
    assert_eq!(groups(&third).await, told, "whoever opens the file later");
    let view = by_view(&path);
    assert_eq!(view.len(), told.len());
    for (name, queued, completed) in view {
        let group = told.values().find(|info| info.name.as_ref().unwrap().as_str() == name);
        let counts = group.unwrap().counts;
        assert_eq!((queued, completed), (counts.queued, counts.completed), "{name}");
    }
}

#[tokio::test]
async fn a_pause_in_one_process_holds_in_another_whether_it_has_moved_or_not() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("queue.db");
    let (one, other) = (open(&path), open(&path));
    one.submit(NOW, SubmitBatch::of(jobs(0, GROUPS * 40))).await.unwrap();
    let name = GroupName::new("g7").unwrap();
    one.set_group_paused(NOW, name.clone(), true).await.unwrap();
    for _ in 0..39 {
        let leases = claim(&other, 59).await;
        assert_eq!(leases.len(), 59);
        finish(&other, leases).await;
    }
    let paused = groups(&one).await.into_values().find(|group| group.name.as_ref() == Some(&name));
    let paused = paused.unwrap();
    assert!(paused.paused && paused.counts.queued == 40, "{paused:?}");
    assert_eq!(groups(&open(&path)).await, groups(&one).await);
    assert_eq!(one.check(NOW).await.unwrap(), Vec::<String>::new());
}
