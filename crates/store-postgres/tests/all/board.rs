//! What turns have changed on the board: it stands in their own rows until it is moved, and whoever comes sees the same
//! before and after.

use std::collections::BTreeMap;
use std::time::Duration;

use runcue_core::{GroupName, JobId, JobSpec, QueueName, QueueSpec, TaskName, Timestamp};
use runcue_store::{ClaimRequest, Finish, Keep, Retention, Store, SubmitBatch};
use runcue_store_postgres::PostgresStore;
use runcue_test_servers::Database;

use crate::lease_runs::{NOW, WORKER, done, open};

fn job(n: u128, group: u128) -> JobSpec {
    let group = Some(GroupName::new(format!("group-{group}")).unwrap());
    JobSpec { group, ..JobSpec::new(JobId::from_u128(n), TaskName::new("t").unwrap()) }
}

async fn submit(store: &PostgresStore, jobs: Vec<JobSpec>) {
    store.submit(NOW, SubmitBatch::of(jobs)).await.unwrap();
}

async fn run_one(store: &PostgresStore) {
    let claimed = store.claim(NOW, ClaimRequest::new(WORKER, 1)).await.unwrap();
    let end = |(_, lease)| Finish { lease, outcome: done() };
    store.finish(NOW, claimed.jobs.into_iter().map(end).collect()).await.unwrap();
}

/// Queued jobs by group, as the store has them.
async fn counted(store: &PostgresStore) -> BTreeMap<String, u64> {
    let groups = store.groups().await.unwrap().into_iter();
    groups.map(|group| (group.name.unwrap().to_string(), group.counts.queued)).collect()
}

/// The same, as people see them with psql.
fn seen(database: &Database) -> BTreeMap<String, u64> {
    let sql = r#"SELECT "group" || ' ' || (counts ->> 'queued') FROM runcue.groups"#;
    let rows = database.sql(sql).unwrap();
    let row =
        |row: &str| row.split_once(' ').map(|(name, n)| (name.to_owned(), n.parse().unwrap()));
    rows.lines().filter_map(row).collect()
}

fn number(database: &Database, sql: &str) -> u64 {
    database.sql(sql).unwrap().trim().parse().unwrap()
}

async fn check(store: &PostgresStore) {
    assert_eq!(store.check(NOW).await.unwrap(), Vec::<String>::new());
}

/// Somebody who knows nothing yet sees what the store sees, and so do people.
async fn whoever_comes_agrees(database: &Database, store: &PostgresStore) {
    let other = open(database);
    assert_eq!(counted(&other).await, counted(store).await);
    assert_eq!(counted(&other).await, seen(database));
    check(&other).await;
    other.close().await.unwrap();
}

#[tokio::test]
async fn whoever_comes_later_sees_what_each_turn_has_changed() {
    let database = runcue_test_servers::postgres().unwrap();
    let store = open(&database);
    let mut moved = Vec::new();
    for step in 1..=150_u128 {
        submit(&store, vec![job(step, step % 3)]).await;
        if step.is_multiple_of(4) {
            run_one(&store).await;
        }
        assert_eq!(seen(&database), counted(&store).await, "after step {step}");
        if step.is_multiple_of(10) {
            whoever_comes_agrees(&database, &store).await;
        }
        let behind = "SELECT revision - moved FROM runcue.turn ORDER BY revision DESC LIMIT 1";
        moved.push(number(&database, behind));
    }
    assert!(moved.iter().all(|behind| *behind < 64), "{moved:?}");
    assert!(moved.windows(2).any(|pair| pair[1] < pair[0]), "{moved:?}");
    // One row for each thing, however often it was moved.
    let rows = "SELECT count(*) - count(DISTINCT (kind, name)) FROM runcue.board_row";
    assert_eq!(number(&database, rows), 0);
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_daemon_that_fell_behind_learns_what_was_moved_meanwhile() {
    let database = runcue_test_servers::postgres().unwrap();
    let (one, other) = (open(&database), open(&database));
    submit(&one, vec![job(1, 0)]).await;
    submit(&other, vec![job(2, 1)]).await;
    for n in 3..=200 {
        submit(&one, vec![job(n, n % 2)]).await;
        if n.is_multiple_of(37) {
            let paused = QueueSpec { paused: n % 2 == 0, ..QueueSpec::default() };
            one.upsert_queues(NOW, vec![paused]).await.unwrap();
        }
    }
    let limit = QueueSpec { max_queued: Some(200), ..QueueSpec::default() };
    one.upsert_queues(NOW, vec![limit]).await.unwrap();
    // It knows of 200 jobs without asking for them one by one, so one more is refused.
    let more = other.submit(NOW, SubmitBatch::of(vec![job(201, 0)])).await;
    assert!(more.is_err(), "{more:?}");
    run_one(&one).await;
    submit(&other, vec![job(201, 0)]).await;
    assert_eq!(counted(&other).await, counted(&one).await);
    let default = QueueName::default();
    let queues = other.queues().await.unwrap();
    assert_eq!(queues.iter().find(|queue| queue.name == default).unwrap().queued, 200);
    check(&other).await;
    one.close().await.unwrap();
    other.close().await.unwrap();
}

#[tokio::test]
async fn many_groups_at_once_are_moved_at_once() {
    let database = runcue_test_servers::postgres().unwrap();
    let store = open(&database);
    submit(&store, vec![job(1, 1)]).await;
    submit(&store, (2..=40).map(|n| job(n, n % 20)).collect()).await;
    submit(&store, vec![job(41, 1)]).await;
    assert_eq!(number(&database, "SELECT max(cardinality(board_kind)) FROM runcue.turn"), 2);
    assert_eq!(seen(&database), counted(&store).await);
    whoever_comes_agrees(&database, &store).await;
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_group_that_has_gone_does_not_come_back() {
    let database = runcue_test_servers::postgres().unwrap();
    let store = open(&database);
    submit(&store, vec![job(1, 1)]).await;
    run_one(&store).await;
    submit(&store, vec![job(2, 2)]).await;
    let later = Timestamp::from_micros(NOW.as_micros() + 60_000_000);
    let none = Keep { age: Duration::from_secs(1), count: 0 };
    let retention = Retention { completed: none, ..Retention::default() };
    while !store.prune(later, retention, false).await.unwrap().is_empty() {}
    let only: Vec<String> = vec!["group-2".to_owned()];
    for n in 3..=90 {
        assert_eq!(seen(&database).into_keys().collect::<Vec<_>>(), only);
        submit(&store, vec![job(n, 2)]).await;
    }
    assert_eq!(seen(&database).into_keys().collect::<Vec<_>>(), only);
    whoever_comes_agrees(&database, &store).await;
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_turn_in_the_place_of_a_lost_commit_forgets_nothing() {
    let database = runcue_test_servers::postgres().unwrap();
    let store = open(&database);
    for n in 1..=70 {
        submit(&store, vec![job(n, n % 3)]).await;
    }
    let before = seen(&database);
    // As a daemon does whose commit was lost on the way.
    let lost = "SELECT runcue.settle(gen_random_uuid(), (SELECT max(revision) FROM runcue.turn))";
    assert_eq!(number(&database, lost), 0);
    assert_eq!(seen(&database), before);
    for n in 71..=140 {
        submit(&store, vec![job(n, n % 3)]).await;
    }
    assert_eq!(seen(&database), counted(&store).await);
    whoever_comes_agrees(&database, &store).await;
    store.close().await.unwrap();
}
