//! What SQLite's errors mean to a caller.

use std::io;
use std::path::Path;

use runcue_store::StoreError;
use rusqlite::ErrorCode;
use rustix::fs::{Access, StatVfsMountFlags};

/// With less than this there is no room for a page and its frame in the log, in bytes.
const HARDLY_ANY: u64 = 64 * 1024;

/// Says what an error of the database at a place means.
pub fn explain(place: &str, error: &rusqlite::Error) -> StoreError {
    let place = place.to_owned();
    let why = error.to_string();
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => StoreError::DiskFull { place },
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => {
            let why = "it or its directory is read-only; check the permissions".to_owned();
            refused_by_disk(&place).unwrap_or(StoreError::ReadOnly { place, why })
        }
        // SQLite has these two words for much that is the disk's doing.
        Some(ErrorCode::CannotOpen | ErrorCode::SystemIoFailure)
            if let Some(refused) = refused_by_disk(&place) =>
        {
            refused
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

/// What an error of the operating system means, met while making something beside the database.
pub fn explain_io(place: &str, what: &str, error: &io::Error) -> StoreError {
    let place = place.to_owned();
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => StoreError::DiskFull { place },
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            StoreError::ReadOnly { place, why: format!("{what} cannot be made: {error}") }
        }
        _ => StoreError::BadAddress { place, why: format!("{what} cannot be made: {error}") },
    }
}

/// The directory of a file.
fn directory(path: &Path) -> &Path {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    parent.unwrap_or(Path::new("."))
}

/// What is free on the disk that holds a file, in bytes.
pub fn free_space(path: &Path) -> Option<u64> {
    let disk = rustix::fs::statvfs(directory(path)).ok()?;
    Some(disk.f_bavail.saturating_mul(disk.f_frsize))
}

/// Whether the disk that holds a place has no space left or may not be written.
fn refused_by_disk(place: &str) -> Option<StoreError> {
    let path = Path::new(place);
    let directory = directory(path);
    let disk = rustix::fs::statvfs(directory).ok()?;
    let place = place.to_owned();
    if disk.f_flag.contains(StatVfsMountFlags::RDONLY) {
        let why = "its file system is mounted read-only; mount it for writing".to_owned();
        return Some(StoreError::ReadOnly { place, why });
    }
    let closed = rustix::fs::access(directory, Access::WRITE_OK | Access::EXEC_OK).is_err()
        || path.exists() && rustix::fs::access(path, Access::READ_OK | Access::WRITE_OK).is_err();
    if closed {
        let why = "it or its directory is read-only; check the permissions".to_owned();
        return Some(StoreError::ReadOnly { place, why });
    }
    let no_space = free_space(path)? < HARDLY_ANY;
    let no_inodes = disk.f_files > 0 && disk.f_favail == 0;
    (no_space || no_inodes).then_some(StoreError::DiskFull { place })
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
