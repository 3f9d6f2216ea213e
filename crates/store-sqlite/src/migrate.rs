//! The schema and its versions. Each file of `migrations/` brings the schema from one version to the
//! next, under the file's write lock, so that several processes may start at once.

use runcue_store::{Result, StoreError};
use rusqlite::{Connection, TransactionBehavior};

use crate::failure::explain;

const STEPS: &[&str] = &[
    include_str!("../migrations/0001_queue.sql"),
    include_str!("../migrations/0002_group_runs.sql"),
];

/// The newest schema this version knows.
pub const SCHEMA: u32 = STEPS.len() as u32;

/// Marks a file as runcue's: "rcue".
const APPLICATION_ID: i32 = 0x7263_7565;

/// Brings a file to the newest schema, or says why that cannot be.
pub fn migrate(connection: &mut Connection, place: &str) -> Result<()> {
    let fail = |error: rusqlite::Error| explain(place, &error);
    if version(connection).map_err(fail)? == SCHEMA {
        return check_owner(connection, place);
    }
    let transaction =
        connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(fail)?;
    let found = version(&transaction).map_err(fail)?;
    if found > SCHEMA {
        return Err(StoreError::Newer { place: place.to_owned(), found, known: SCHEMA });
    }
    check_owner(&transaction, place)?;
    for step in STEPS.iter().skip(found as usize) {
        transaction.execute_batch(step).map_err(fail)?;
    }
    transaction.pragma_update(None, "user_version", SCHEMA).map_err(fail)?;
    transaction.pragma_update(None, "application_id", APPLICATION_ID).map_err(fail)?;
    transaction.commit().map_err(fail)
}

fn version(connection: &Connection) -> rusqlite::Result<u32> {
    connection.query_row("PRAGMA user_version", [], |row| row.get(0))
}

/// A database of somebody else's is left alone.
fn check_owner(connection: &Connection, place: &str) -> Result<()> {
    let read = || -> rusqlite::Result<(i32, u32)> {
        let owner = connection.query_row("PRAGMA application_id", [], |row| row.get(0))?;
        let tables =
            connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
        Ok((owner, tables))
    };
    let (owner, tables) = read().map_err(|error| explain(place, &error))?;
    if owner == APPLICATION_ID || (owner == 0 && tables == 0) {
        return Ok(());
    }
    let why =
        "it is a SQLite database of another program; name another file with --store".to_owned();
    Err(StoreError::BadAddress { place: place.to_owned(), why })
}
