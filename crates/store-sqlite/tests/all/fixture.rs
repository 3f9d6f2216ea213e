//! Databases of earlier versions are opened for ever. `tests/fixtures/schema-N.db` was written by the last
//! version with that schema, from [`fixture::write`]. To write the one of the present schema anew:
//!
//! ```text
//! RUNCUE_FIXTURE=$PWD/crates/store-sqlite/tests/fixtures/schema-1.db cargo nextest run -p runcue-store-sqlite fixture
//! ```

use std::path::{Path, PathBuf};

use runcue_store_sqlite::{Options, SCHEMA, SqliteStore};
use runcue_store_suite::fixture;

fn open(path: &Path) -> SqliteStore {
    SqliteStore::open(Options::new(path)).unwrap()
}

/// Works a copy off.
async fn read_and_work_off(original: &Path) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("queue.db");
    std::fs::copy(original, &path).unwrap();
    fixture::read_and_work_off(&open(&path)).await;
}

#[tokio::test]
async fn this_version_writes_a_database_that_it_can_read_and_work_off() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("queue.db");
    fixture::write(&open(&path)).await;
    read_and_work_off(&path).await;
    if let Some(kept) = std::env::var_os("RUNCUE_FIXTURE") {
        std::fs::copy(&path, kept).unwrap();
    }
}

#[tokio::test]
async fn databases_of_every_schema_so_far_open_and_are_worked_off() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    for schema in 1..=SCHEMA {
        let path: PathBuf = fixtures.join(format!("schema-{schema}.db"));
        assert!(path.exists(), "{} is missing; see the head of this file", path.display());
        read_and_work_off(&path).await;
    }
}
