//! What SQLite's errors mean to a caller.

use runcue_store::StoreError;
use rusqlite::ErrorCode;

/// Says what an error of the database at a place means.
pub fn explain(place: &str, error: &rusqlite::Error) -> StoreError {
    let place = place.to_owned();
    let why = error.to_string();
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => StoreError::DiskFull { place },
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => {
            let why = "it or its directory is read-only; check the permissions".to_owned();
            StoreError::ReadOnly { place, why }
        }
        Some(ErrorCode::CannotOpen) => {
            let why = format!(
                "it cannot be opened ({why}); check that its directory exists and may be written"
            );
            StoreError::BadAddress { place, why }
        }
        Some(ErrorCode::NotADatabase) => {
            let why = "it is not a SQLite database; name another file with --store, or move this one away".to_owned();
            StoreError::Corrupt { place, why }
        }
        Some(ErrorCode::DatabaseCorrupt) => {
            let why = format!(
                "{why}; stop all workers and restore a backup, or recover it with `sqlite3 FILE .recover`"
            );
            StoreError::Corrupt { place, why }
        }
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            StoreError::Unavailable(format!("{place} is held by another process for too long"))
        }
        _ => StoreError::Unavailable(format!("{place}: {why}")),
    }
}

/// A stored value that does not read back.
pub fn unreadable(what: &str, why: impl std::fmt::Display) -> rusqlite::Error {
    let why = format!("{what}: {why}");
    rusqlite::Error::FromSqlConversionFailure(0, rusqlite::types::Type::Text, why.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// File permissions do not hold for everyone (not for the superuser); this switch of SQLite's does.
    #[test]
    fn a_database_that_may_not_be_written_is_named_with_the_fix() {
        let connection = rusqlite::Connection::open_in_memory().unwrap();
        connection.execute_batch("CREATE TABLE t (x); PRAGMA query_only = 1").unwrap();
        let refused = connection.execute("INSERT INTO t VALUES (1)", []).unwrap_err();
        let error = explain("queue.db", &refused);
        assert!(matches!(error, StoreError::ReadOnly { .. }), "{error:?}");
        assert!(error.to_string().contains("queue.db"));
        assert!(error.to_string().contains("check the permissions"));
    }
}
