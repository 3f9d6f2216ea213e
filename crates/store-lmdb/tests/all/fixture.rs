//! Directories of earlier versions are opened for ever. `tests/fixtures/format-N.mdb` is the `data.mdb` that the last
//! version with that format wrote, from [`fixture::write`]. To write the one of the present format anew:
//!
//! ```text
//! RUNCUE_FIXTURE=$PWD/crates/store-lmdb/tests/fixtures/format-1.mdb cargo nextest run -p runcue-store-lmdb fixture
//! ```

use std::path::{Path, PathBuf};

use runcue_store_lmdb::{FORMAT, LmdbStore, Options};
use runcue_store_suite::fixture;

fn open(path: &Path) -> LmdbStore {
    LmdbStore::open(&Options::new(path)).unwrap()
}

/// Works a copy off.
async fn read_and_work_off(original: &Path) {
    let directory = tempfile::tempdir().unwrap();
    std::fs::copy(original, directory.path().join("data.mdb")).unwrap();
    fixture::read_and_work_off(&open(directory.path())).await;
}

#[tokio::test]
async fn this_version_writes_a_directory_that_it_can_read_and_work_off() {
    let directory = tempfile::tempdir().unwrap();
    fixture::write(&open(directory.path())).await;
    let written = directory.path().join("data.mdb");
    read_and_work_off(&written).await;
    if let Some(kept) = std::env::var_os("RUNCUE_FIXTURE") {
        std::fs::copy(&written, kept).unwrap();
    }
}

#[tokio::test]
async fn directories_of_every_format_so_far_open_and_are_worked_off() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    for format in 1..=FORMAT {
        let path: PathBuf = fixtures.join(format!("format-{format}.mdb"));
        assert!(path.exists(), "{} is missing; see the head of this file", path.display());
        read_and_work_off(&path).await;
    }
}
