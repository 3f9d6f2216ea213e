//! The schema and its versions. Each file of `migrations/` brings the schema from one version to the next,
//! under an advisory lock, so that several daemons may start at once.

use runcue_store::{Result, StoreError};
use tokio_postgres::Client;
use tokio_postgres::types::Type;

use crate::connection::Options;
use crate::failure::explain;

const STEPS: &[&str] = &[
    include_str!("../migrations/0001_queue.sql"),
    include_str!("../migrations/0002_sessions.sql"),
    include_str!("../migrations/0003_lease_runs.sql"),
    include_str!("../migrations/0004_told.sql"),
    include_str!("../migrations/0005_rows_as_they_come.sql"),
    include_str!("../migrations/0006_ready_runs.sql"),
    include_str!("../migrations/0007_board_in_turns.sql"),
];

/// The newest schema this version knows.
pub const SCHEMA: u32 = STEPS.len() as u32;

/// Makes the schema at an address, or brings it up to date. Answers the version it had before; zero if there
/// was none.
pub async fn migrate(url: &str) -> Result<u32> {
    let options = Options::parse(url)?;
    let (mut client, connection) = options.connect().await?;
    let driven = tokio::spawn(connection);
    let before = bring_up(&options, &mut client).await;
    drop(client);
    let _ = driven.await;
    before
}

/// Makes sure that the schema is there and of the right version; brings it there if that is wanted.
pub(crate) async fn prepare(options: &Options, client: &mut Client) -> Result<()> {
    options.check_version(client).await?;
    let found = version(options, client).await?;
    check_known(options, found)?;
    if found == SCHEMA {
        return Ok(());
    }
    if !options.migrate {
        let why = match found {
            0 => "the schema is not there; make it with `runcue migrate`".to_owned(),
            found => format!(
                "the schema is of version {found}, this runcue needs {SCHEMA}; upgrade it with `runcue migrate`"
            ),
        };
        return Err(StoreError::BadAddress { place: options.place(), why });
    }
    bring_up(options, client).await.map(drop)
}

fn check_known(options: &Options, found: u32) -> Result<()> {
    if found > SCHEMA {
        return Err(StoreError::Newer { place: options.place(), found, known: SCHEMA });
    }
    Ok(())
}

async fn bring_up(options: &Options, client: &mut Client) -> Result<u32> {
    options.check_version(client).await?;
    let fail = |error: tokio_postgres::Error| explain(options, &error);
    let transaction = client.transaction().await.map_err(fail)?;
    let lock = options.sql("SELECT pg_advisory_xact_lock(hashtextextended('migrate runcue.', 0))");
    transaction.query_typed(&lock, &[]).await.map_err(fail)?;
    let found = version(options, transaction.client()).await?;
    check_known(options, found)?;
    if found == 0 {
        let schema = options.quoted_schema();
        // Without this a user who may not create schemas could not use one that was made for them.
        let there = "SELECT 1 FROM pg_namespace WHERE nspname = $1";
        let there =
            transaction.query_typed(there, &[(&options.schema, Type::TEXT)]).await.map_err(fail)?;
        if there.is_empty() {
            transaction.batch_execute(&format!("CREATE SCHEMA {schema}")).await.map_err(fail)?;
        }
        let table = "CREATE TABLE runcue.schema_version (version integer PRIMARY KEY, \
                     at timestamptz NOT NULL DEFAULT now())";
        transaction.batch_execute(&options.sql(table)).await.map_err(fail)?;
    }
    for (n, step) in (1_i32..).zip(STEPS).skip(found as usize) {
        transaction.batch_execute(&options.sql(step)).await.map_err(fail)?;
        let note = options.sql("INSERT INTO runcue.schema_version (version) VALUES ($1)");
        transaction.query_typed(&note, &[(&n, Type::INT4)]).await.map_err(fail)?;
    }
    transaction.commit().await.map_err(fail)?;
    Ok(found)
}

/// The version of the schema; zero if there is none.
async fn version(options: &Options, client: &Client) -> Result<u32> {
    let fail = |error: tokio_postgres::Error| explain(options, &error);
    // Read from the catalogue itself: what a session remembers of names may be from before it waited for the
    // lock.
    let sql = "SELECT 1 FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace \
               WHERE n.nspname = $1 AND c.relname = 'schema_version'";
    let there = client.query_typed(sql, &[(&options.schema, Type::TEXT)]).await.map_err(fail)?;
    if there.is_empty() {
        return Ok(0);
    }
    let sql = options.sql("SELECT coalesce(max(version), 0) FROM runcue.schema_version");
    let rows = client.query_typed(&sql, &[]).await.map_err(fail)?;
    Ok(rows.first().map_or(0, |row| u32::try_from(row.get::<_, i32>(0)).unwrap_or(0)))
}
