//! Queues of older schemas: what was in them is there afterwards, limits included.

use runcue_core::{JobFilter, StateWord, Timestamp, WorkerId};
use runcue_store::{ClaimRequest, ListRequest, Store};
use runcue_store_postgres::{SCHEMA, migrate, open_url};
use runcue_test_servers::Database;

const FIXTURES: [&str; 6] = [
    include_str!("../fixtures/schema-1.sql"),
    include_str!("../fixtures/schema-2.sql"),
    include_str!("../fixtures/schema-3.sql"),
    include_str!("../fixtures/schema-4.sql"),
    include_str!("../fixtures/schema-5.sql"),
    include_str!("../fixtures/schema-6.sql"),
];
const MIGRATIONS: [&str; 6] = [
    include_str!("../../migrations/0001_queue.sql"),
    include_str!("../../migrations/0002_sessions.sql"),
    include_str!("../../migrations/0003_lease_runs.sql"),
    include_str!("../../migrations/0004_told.sql"),
    include_str!("../../migrations/0005_rows_as_they_come.sql"),
    include_str!("../../migrations/0006_ready_runs.sql"),
];

/// The tables of a schema, filled by the runcue that made them.
fn old_queue(schema: usize) -> Database {
    let database = runcue_test_servers::postgres().unwrap();
    let versions =
        "CREATE TABLE runcue.schema_version (version integer PRIMARY KEY, at timestamptz)";
    database.sql(&format!("CREATE SCHEMA runcue; {versions}")).unwrap();
    for migration in &MIGRATIONS[..schema] {
        database.sql(migration).unwrap();
    }
    database.sql("DELETE FROM runcue.turn; DELETE FROM runcue.board").unwrap();
    database.sql(FIXTURES[schema - 1]).unwrap();
    database
}

#[tokio::test]
async fn a_queue_of_schema_1_goes_on() {
    goes_on(1).await;
}

#[tokio::test]
async fn a_queue_of_schema_2_goes_on() {
    goes_on(2).await;
}

#[tokio::test]
async fn a_queue_of_schema_3_goes_on() {
    goes_on(3).await;
}

#[tokio::test]
async fn a_queue_of_schema_4_goes_on() {
    goes_on(4).await;
}

#[tokio::test]
async fn a_queue_of_schema_5_goes_on() {
    goes_on(5).await;
}

#[tokio::test]
async fn a_queue_of_schema_6_goes_on() {
    goes_on(6).await;
}

async fn goes_on(schema: u32) {
    let database = old_queue(schema as usize);
    assert_eq!(migrate(&database.url()).await.unwrap(), schema);
    assert_eq!(migrate(&database.url()).await.unwrap(), SCHEMA);
    let store = open_url(&database.url()).unwrap();
    let now = Timestamp::ZERO;
    let counts = store.stats(now).await.unwrap().counts;
    assert_eq!((counts.queued, counts.running), (1, 2));
    assert_eq!((counts.completed, counts.quarantined), (20, 1));
    assert_eq!(store.check(now).await.unwrap(), Vec::<String>::new());
    let filter = JobFilter { states: [StateWord::Running].into(), ..JobFilter::default() };
    let request = ListRequest { filter, before: None, limit: 10 };
    assert_eq!(store.list(request).await.unwrap().rows.len(), 2);

    // Events of both forms are one sequence, and the view reads them too.
    let last = store.last_event().await.unwrap();
    let events = store.events(0, 1000).await.unwrap();
    let seqs: Vec<u64> = events.iter().map(|event| event.seq).collect();
    assert_eq!(seqs, (1..=last).collect::<Vec<_>>());

    // Two of two places of the service are taken by those that run, so the third job does not get one.
    let worker = WorkerId::from_u128(9);
    assert!(store.claim(now, ClaimRequest::new(worker, 5)).await.unwrap().jobs.is_empty());
    assert_eq!(store.services(now).await.unwrap()[0].in_use, 2);
    let dead = store.workers().await.unwrap()[0].spec.id;
    store.reap(now, vec![dead]).await.unwrap();
    assert_eq!(store.services(now).await.unwrap()[0].in_use, 0);
    assert_eq!(store.check(now).await.unwrap(), Vec::<String>::new());
    let later = store.last_event().await.unwrap();
    assert!(later > last);
    let seen = database.sql("SELECT count(*), count(type), max(seq) FROM runcue.events").unwrap();
    assert_eq!(seen.trim(), format!("{later}|{later}|{later}"));
    store.close().await.unwrap();
}
