//! Queues of older schemas: what was in them is there afterwards, limits included.

use std::path::{Path, PathBuf};

use runcue_core::{JobFilter, StateWord, Timestamp, WorkerId};
use runcue_store::{ClaimRequest, ListRequest, Store, StoreError};
use runcue_store_postgres::{SCHEMA, migrate, open_url};
use runcue_test_servers::Database;

/// What a file beside the tests holds.
fn read(path: &Path) -> String {
    let whole = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    std::fs::read_to_string(&whole).unwrap_or_else(|_| {
        panic!(
            "{} is missing; it is a queue that the last version with that schema has filled",
            whole.display()
        )
    })
}

/// The steps up to a schema, in their order.
fn migrations(schema: u32) -> Vec<String> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("migrations");
    let files = std::fs::read_dir(directory).unwrap().map(|file| file.unwrap().path());
    let mut files: Vec<PathBuf> = files.collect();
    files.sort();
    assert_eq!(files.len(), SCHEMA as usize, "{files:?}");
    files[..schema as usize].iter().map(|file| read(file)).collect()
}

/// The tables of a schema, filled by the runcue that made them.
fn old_queue(schema: u32) -> Database {
    let database = runcue_test_servers::postgres().unwrap();
    let versions =
        "CREATE TABLE runcue.schema_version (version integer PRIMARY KEY, at timestamptz)";
    database.sql(&format!("CREATE SCHEMA runcue; {versions}")).unwrap();
    for migration in migrations(schema) {
        database.sql(&migration).unwrap();
    }
    let board = if schema < 7 { "board" } else { "board_row" };
    database.sql(&format!("DELETE FROM runcue.turn; DELETE FROM runcue.{board}")).unwrap();
    database.sql(&read(Path::new(&format!("tests/fixtures/schema-{schema}.sql")))).unwrap();
    database
}

#[tokio::test]
async fn queues_of_every_schema_so_far_go_on() {
    for schema in 1..SCHEMA {
        goes_on(schema).await;
    }
}

/// The number of a turn, and which versions the schema went through.
fn history(database: &Database) -> (u64, String) {
    let turn = database.sql("SELECT max(revision) FROM runcue.turn").unwrap().parse().unwrap();
    let versions =
        "SELECT string_agg(version::text, ' ' ORDER BY version) FROM runcue.schema_version";
    (turn, database.sql(versions).unwrap())
}

#[tokio::test]
async fn an_old_schema_is_left_alone_by_whoever_may_not_raise_it() {
    let old = SCHEMA - 1;
    let database = old_queue(old);
    let before = history(&database);
    let url = format!("{}?migrate=off", database.url());
    let error = open_url(&url).unwrap_err();
    assert!(matches!(error, StoreError::BadAddress { .. }), "{error:?}");
    let line = error.to_string();
    assert_eq!(line.lines().count(), 1, "{line}");
    for word in
        [&format!("version {old}"), &format!("needs {SCHEMA}"), "upgrade it with `runcue migrate`"]
    {
        assert!(line.contains(word), "{word:?} is not in {line:?}");
    }
    assert_eq!(history(&database), before);
    assert_eq!(migrate(&database.url()).await.unwrap(), old);
    assert_eq!(open_url(&url).unwrap().stats(Timestamp::ZERO).await.unwrap().counts.completed, 20);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_daemons_may_open_an_old_schema_at_once_and_one_raises_it() {
    for old in [5, 6, 7] {
        let database = old_queue(old);
        let (turn, versions) = history(&database);
        let open = |url: String| tokio::task::spawn_blocking(move || open_url(&url));
        let all: Vec<_> = (0..8).map(|_| open(database.url())).collect();
        let mut stores = Vec::new();
        for one in all {
            stores.push(one.await.unwrap().unwrap());
        }
        let rest: Vec<String> = (old + 1..=SCHEMA).map(|version| version.to_string()).collect();
        let expected = [versions, rest.join(" ")].join(" ");
        // Raising it is a turn.
        assert_eq!(history(&database), (turn + 1, expected.trim().to_owned()));
        for store in &stores {
            let counts = store.stats(Timestamp::ZERO).await.unwrap().counts;
            assert_eq!((counts.queued, counts.running), (1, 2));
            assert_eq!((counts.completed, counts.quarantined), (20, 1));
        }
        assert_eq!(stores[0].check(Timestamp::ZERO).await.unwrap(), Vec::<String>::new());
    }
}

async fn goes_on(schema: u32) {
    let database = old_queue(schema);
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
