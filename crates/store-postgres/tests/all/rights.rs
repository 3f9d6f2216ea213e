//! Rights and passwords that are taken away while a daemon runs: it says so, and goes on when they are given back.

use std::time::{Duration, Instant};

use runcue_core::Timestamp;
use runcue_store::{Result, Store, StoreError, SubmitBatch, Submitted};
use runcue_store_postgres::{PostgresStore, open_url};
use runcue_store_suite::scene::job;
use runcue_test_servers::Postgres;

/// What has not come by then does not come.
const BOUND: Duration = Duration::from_secs(30);

async fn submit(store: &PostgresStore, n: u128) -> Result<Vec<Submitted>> {
    store.submit(Timestamp::ZERO, SubmitBatch::of(vec![job(n)])).await
}

/// Asks until it is refused for good, and until the store says why in the same words.
async fn refused(store: &PostgresStore, n: u128, words: &[&str]) -> StoreError {
    let error = submit(store, n).await.unwrap_err();
    let why = store.trouble().unwrap();
    for line in [&error.to_string(), &why] {
        assert_eq!(line.lines().count(), 1, "{line}");
        for word in words {
            assert!(line.contains(word), "{word:?} is not in {line:?}");
        }
    }
    error
}

/// Asks until it works, as a daemon does.
async fn works_again(store: &PostgresStore, n: u128) {
    let begun = Instant::now();
    while submit(store, n).await.is_err() {
        assert!(begun.elapsed() < BOUND, "it does not work again: {:?}", store.trouble());
    }
    assert_eq!(store.trouble(), None);
    assert!(store.get(vec![job(n).id]).await.unwrap()[0].is_some());
    assert_eq!(store.check(Timestamp::ZERO).await.unwrap(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_password_that_is_changed_while_a_daemon_runs_is_named_until_it_is_right_again() {
    let server = Postgres::settings().password("right").start().unwrap();
    let (owner, connection) =
        tokio_postgres::connect(&server.url(), tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    let store = open_url(&server.url()).unwrap();
    submit(&store, 1).await.unwrap();
    store.get(vec![job(1).id]).await.unwrap();
    let end = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'runcue'";
    owner.batch_execute("ALTER ROLE runcue PASSWORD 'another'").await.unwrap();
    // Whoever is connected does not notice.
    submit(&store, 2).await.unwrap();
    owner.batch_execute(end).await.unwrap();
    for n in 3..=5 {
        let words =
            ["password authentication failed", "check the user and the password in the address"];
        let error = refused(&store, n, &words).await;
        assert!(matches!(error, StoreError::BadAddress { .. }), "{error:?}");
        let asked = store.get(vec![job(1).id]).await.unwrap_err();
        assert!(asked.to_string().contains("check the user and the password"), "{asked}");
    }
    owner.batch_execute("ALTER ROLE runcue PASSWORD 'right'").await.unwrap();
    works_again(&store, 6).await;
    let all = owner.query_one("SELECT count(*) FROM runcue.job", &[]).await.unwrap();
    assert_eq!(all.get::<_, i64>(0), 3, "what was refused is not there");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_right_that_is_revoked_while_a_daemon_runs_is_named_until_it_is_granted_again() {
    let database = runcue_test_servers::postgres().unwrap();
    drop(open_url(&database.url()).unwrap());
    let guest = format!("guest_{}", database.name());
    let make = format!(
        "CREATE ROLE \"{guest}\" LOGIN; GRANT USAGE ON SCHEMA runcue TO \"{guest}\"; \
         GRANT ALL ON ALL TABLES IN SCHEMA runcue TO \"{guest}\"; \
         GRANT ALL ON ALL SEQUENCES IN SCHEMA runcue TO \"{guest}\""
    );
    database.sql(&make).unwrap();
    let url = database.url().replace("runcue@", &format!("{guest}@"));
    let store = open_url(&url).unwrap();
    submit(&store, 1).await.unwrap();
    let rights = [
        ("USAGE ON SCHEMA runcue", "permission denied for schema runcue"),
        ("INSERT ON runcue.job", "permission denied for table job"),
        ("SELECT ON runcue.turn", "permission denied for table turn"),
    ];
    for (n, (right, denied)) in (1..).map(|n| 100 * n).zip(rights) {
        database.sql(&format!("REVOKE {right} FROM \"{guest}\"")).unwrap();
        for n in n..n + 3 {
            let words =
                [denied, "grant the user CREATE on the database", "all rights on what is in it"];
            let error = refused(&store, n, &words).await;
            assert!(matches!(error, StoreError::ReadOnly { .. }), "{error:?}");
        }
        database.sql(&format!("GRANT {right} TO \"{guest}\"")).unwrap();
        works_again(&store, n + 50).await;
    }
    let all = store.stats(Timestamp::ZERO).await.unwrap().counts.total();
    assert_eq!(all, 4, "what was refused is not there");
    store.close().await.unwrap();
    drop(store);
    database.sql(&format!("DROP OWNED BY \"{guest}\"; DROP ROLE \"{guest}\"")).unwrap();
}
