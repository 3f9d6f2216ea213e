//! What LMDB's errors mean to a caller.

use std::io;

use heed::{Error, MdbError};
use runcue_store::StoreError;

/// Says what an error of the environment at a place, whose map has so many bytes, means.
pub fn explain(place: &str, size: u64, error: &Error) -> StoreError {
    let at = place.to_owned();
    match error {
        Error::Mdb(MdbError::MapFull) => StoreError::Unavailable(format!(
            "{place} is full: it may have {} and needs more; open it with a larger size, such as \
             lmdb:{place}?size={}; nothing acknowledged is lost",
            mebibytes(size),
            mebibytes(size.saturating_mul(2)),
        )),
        Error::Mdb(MdbError::ReadersFull) => {
            StoreError::Unavailable(format!("{place} is read by too many at once"))
        }
        Error::Mdb(MdbError::Invalid) => {
            let why = "its data.mdb is not of LMDB; name another directory with --store, or move this one away";
            StoreError::Corrupt { place: at, why: why.to_owned() }
        }
        Error::Mdb(
            MdbError::Corrupted
            | MdbError::PageNotFound
            | MdbError::Panic
            | MdbError::VersionMismatch
            | MdbError::Problem,
        )
        | Error::Decoding(_) => {
            let why = format!("{error}; stop all workers and restore a backup");
            StoreError::Corrupt { place: at, why }
        }
        Error::Io(io) => of_io(at, io),
        Error::Mdb(MdbError::Other(code)) => of_io(at, &io::Error::from_raw_os_error(*code)),
        other => StoreError::Unavailable(format!("{place}: {other}")),
    }
}

fn of_io(place: String, error: &io::Error) -> StoreError {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => StoreError::DiskFull { place },
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            let why = "it or its files are read-only; check the permissions".to_owned();
            StoreError::ReadOnly { place, why }
        }
        _ => StoreError::Unavailable(format!("{place}: {error}")),
    }
}

/// A stored value that does not read back.
pub fn unreadable(what: &str, why: impl std::fmt::Display) -> Error {
    Error::Decoding(format!("{what}: {why}").into())
}

fn mebibytes(size: u64) -> String {
    format!("{}MiB", size.div_ceil(1 << 20))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(error: Error) -> StoreError {
        explain("queue", 64 << 20, &error)
    }

    /// The superuser may write everywhere and disks are not full on demand, so the codes are made here.
    #[test]
    fn each_failure_is_named_with_the_fix() {
        let full = told(Error::Mdb(MdbError::MapFull)).to_string();
        assert!(full.contains("64MiB") && full.contains("lmdb:queue?size=128MiB"), "{full}");
        let disk = told(Error::Io(io::Error::from_raw_os_error(28)));
        assert!(matches!(disk, StoreError::DiskFull { .. }), "{disk:?}");
        for code in [13, 30] {
            let error = told(Error::Mdb(MdbError::Other(code)));
            assert!(matches!(error, StoreError::ReadOnly { .. }), "{error:?}");
            assert!(error.to_string().contains("check the permissions"), "{error}");
        }
        let bad = told(unreadable("spec", "no JSON"));
        assert!(matches!(bad, StoreError::Corrupt { .. }), "{bad:?}");
    }
}
