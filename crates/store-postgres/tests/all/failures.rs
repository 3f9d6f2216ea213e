//! Each way in which a server can refuse or be away gives one line that names the fix.

use std::time::Duration;

use runcue_core::{JobId, JobSpec, TaskName, Timestamp};
use runcue_store::{Store, StoreError, SubmitBatch};
use runcue_store_postgres::{PostgresStore, SCHEMA, migrate, open_url};
use runcue_test_servers::Postgres;

fn refused(url: &str) -> StoreError {
    let Err(error) = open_url(url) else { panic!("{url} was opened") };
    assert!(!error.to_string().contains('\n'), "{error}");
    error
}

fn one_job(n: u128) -> SubmitBatch {
    SubmitBatch::of(vec![JobSpec::new(JobId::from_u128(n), TaskName::new("work").unwrap())])
}

async fn total(store: &PostgresStore) -> u64 {
    store.stats(Timestamp::ZERO).await.unwrap().counts.total()
}

#[test]
fn a_wrong_password_is_named() {
    let server = Postgres::settings().password("right").start().unwrap();
    assert!(open_url(&server.url()).is_ok());
    for wrong in ["runcue:wrong@", "runcue@"] {
        let error = refused(&server.url().replace("runcue:right@", wrong));
        assert!(matches!(error, StoreError::BadAddress { .. }), "{error:?}");
        assert!(error.to_string().contains("check the user and the password"), "{error}");
        assert!(!error.to_string().contains("wrong"), "{error}");
    }
}

#[test]
fn a_missing_database_is_named() {
    let database = runcue_test_servers::postgres().unwrap();
    let error = refused(&format!("{}_gone", database.url()));
    assert!(matches!(error, StoreError::BadAddress { .. }), "{error:?}");
    assert!(error.to_string().contains("createdb"), "{error}");
}

#[test]
fn missing_rights_are_named() {
    let database = runcue_test_servers::postgres().unwrap();
    let role = format!("poor_{}", database.name());
    database.sql(&format!("CREATE ROLE \"{role}\" LOGIN")).unwrap();
    let url = database.url().replace("runcue@", &format!("{role}@"));
    let error = refused(&url);
    assert!(matches!(error, StoreError::ReadOnly { .. }), "{error:?}");
    assert!(error.to_string().contains("grant the user CREATE"), "{error}");
    // With a schema made by somebody else and no rights on it the same is said.
    drop(open_url(&database.url()).unwrap());
    let error = refused(&url);
    assert!(error.to_string().contains("grant"), "{error}");
    database.sql(&format!("DROP ROLE \"{role}\"")).unwrap();
}

#[test]
fn a_database_that_is_only_read_is_named() {
    let database = runcue_test_servers::postgres().unwrap();
    let name = database.name();
    database
        .sql(&format!("ALTER DATABASE \"{name}\" SET default_transaction_read_only = on"))
        .unwrap();
    let error = refused(&database.url());
    assert!(matches!(error, StoreError::ReadOnly { .. }), "{error:?}");
    assert!(error.to_string().contains("primary"), "{error}");
}

#[tokio::test]
async fn schemas_are_made_on_demand_and_newer_ones_left_alone() {
    let database = runcue_test_servers::postgres().unwrap();
    let error = refused(&format!("{}?migrate=off", database.url()));
    assert!(error.to_string().contains("runcue migrate"), "{error}");
    assert_eq!(migrate(&database.url()).await.unwrap(), 0);
    assert_eq!(migrate(&database.url()).await.unwrap(), SCHEMA);
    assert!(open_url(&format!("{}?migrate=off", database.url())).is_ok());
    database.sql("INSERT INTO runcue.schema_version VALUES (99)").unwrap();
    let error = refused(&database.url());
    assert!(matches!(error, StoreError::Newer { found: 99, .. }), "{error:?}");
    assert!(error.to_string().contains("upgrade runcue"), "{error}");
    let error = migrate(&database.url()).await.unwrap_err();
    assert!(matches!(error, StoreError::Newer { found: 99, .. }), "{error:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_daemons_may_open_an_empty_database_at_once() {
    let database = runcue_test_servers::postgres().unwrap();
    let open = |url: String| tokio::task::spawn_blocking(move || open_url(&url).map(drop));
    let all: Vec<_> = (0..8).map(|_| open(database.url())).collect();
    for one in all {
        one.await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn a_reached_connection_limit_is_named() {
    let server = Postgres::settings().set("max_connections", "5").start().unwrap();
    let mut others = Vec::new();
    let told = loop {
        match tokio_postgres::connect(&server.url(), tokio_postgres::NoTls).await {
            Ok((client, connection)) => {
                tokio::spawn(connection);
                others.push(client);
            }
            Err(error) => break error,
        }
        assert!(others.len() < 10, "there is no limit");
    };
    assert!(told.as_db_error().is_some());
    let error = refused(&server.url());
    assert!(matches!(error, StoreError::Unavailable(_)), "{error:?}");
    assert!(error.to_string().contains("raise max_connections"), "{error}");
}

#[test]
fn a_server_without_tls_is_named_if_tls_is_asked_for() {
    let database = runcue_test_servers::postgres().unwrap();
    for mode in ["require", "verify-full"] {
        let error = refused(&format!("{}?sslmode={mode}", database.url()));
        assert!(matches!(error, StoreError::BadAddress { .. }), "{error:?}");
        assert!(error.to_string().contains("sslmode"), "{error}");
    }
    let error = refused(&format!("{}?sslmode=verify-full&sslrootcert=/nowhere", database.url()));
    assert!(error.to_string().contains("sslrootcert=/nowhere"), "{error}");
}

#[test]
fn a_server_that_is_away_is_named() {
    let mut server = Postgres::settings().start().unwrap();
    server.stop();
    let error = refused(&server.url());
    assert!(matches!(error, StoreError::Unavailable(_)), "{error:?}");
    assert!(error.to_string().contains("check that it runs"), "{error}");
}

/// The server reports what it reports when its disk is full; nothing of the call is kept, and when there is
/// space again work goes on.
#[tokio::test]
async fn a_full_disk_refuses_the_call_and_loses_nothing() {
    let database = runcue_test_servers::postgres().unwrap();
    let store = open_url(&database.url()).unwrap();
    store.submit(Timestamp::ZERO, one_job(1)).await.unwrap();
    let full = "CREATE FUNCTION disk_full() RETURNS trigger LANGUAGE plpgsql AS \
                $$ BEGIN RAISE EXCEPTION 'could not extend file' USING ERRCODE = '53100'; END $$; \
                CREATE TRIGGER disk_full BEFORE INSERT ON runcue.live EXECUTE FUNCTION disk_full()";
    database.sql(full).unwrap();
    let error = store.submit(Timestamp::ZERO, one_job(2)).await.unwrap_err();
    assert!(matches!(error, StoreError::DiskFull { .. }), "{error:?}");
    assert_eq!(total(&store).await, 1);
    database.sql("DROP TRIGGER disk_full ON runcue.live").unwrap();
    store.submit(Timestamp::ZERO, one_job(2)).await.unwrap();
    assert_eq!(total(&store).await, 2);
}

#[tokio::test]
async fn a_daemon_whose_server_goes_away_says_so_and_goes_on_when_it_is_back() {
    let mut server = Postgres::settings().start().unwrap();
    let store = open_url(&format!("{}?patience=1", server.url())).unwrap();
    store.submit(Timestamp::ZERO, one_job(1)).await.unwrap();
    assert_eq!(store.trouble(), None);
    server.stop();
    let error = store.submit(Timestamp::ZERO, one_job(2)).await.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable(_)), "{error:?}");
    assert!(store.trouble().unwrap().contains("check that it runs"), "{:?}", store.trouble());
    server.restart().unwrap();
    let begun = std::time::Instant::now();
    while store.submit(Timestamp::ZERO, one_job(2)).await.is_err() {
        assert!(begun.elapsed() < Duration::from_secs(30), "it does not come back");
    }
    assert_eq!(store.trouble(), None);
    assert_eq!(total(&store).await, 2);
}
