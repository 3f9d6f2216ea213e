//! A disk that is really full: a small file system of its own, on which the test runs itself once more. It is mounted
//! where only that run sees it, which needs no superuser where the machine lets everybody have name spaces.

use std::fs::{self, OpenOptions};
use std::io::{Write, stderr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use runcue_core::{JobId, JobSpec, Json};
use runcue_store::{ClaimRequest, Finish, Store, StoreError, SubmitBatch};
use runcue_store_lmdb::{LmdbStore, Options};
use runcue_store_suite::scene::{BEGINNING, done, drain, id, job, worker};

/// Where the small disk is, for the test that runs on it.
const PLACE: &str = "RUNCUE_TEST_DISK";
const MOUNT: &str = r#"mount -t tmpfs -o size=3m none "$0" && exec "$@""#;

/// Runs a test of this file with a small disk. Answers where that is, in that run.
fn small_disk(name: &str) -> Option<PathBuf> {
    if let Some(place) = std::env::var_os(PLACE) {
        return Some(place.into());
    }
    let directory = tempfile::tempdir().unwrap();
    let mounted = |words: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(["-r", "-m", "sh", "-c", MOUNT]).arg(directory.path()).args(words);
        command.env(PLACE, directory.path()).output().unwrap()
    };
    if !mounted(&["true"]).status.success() {
        let _ = writeln!(stderr(), "nobody may mount anything here; this test has shown nothing");
        return None;
    }
    let own = std::env::current_exe().unwrap();
    let own = own.to_str().unwrap();
    let ended = mounted(&[own, "--exact", &format!("disk::{name}"), "--nocapture"]);
    let (told, ran) =
        (String::from_utf8_lossy(&ended.stderr), String::from_utf8_lossy(&ended.stdout));
    assert!(ended.status.success(), "{}: {ran}{told}", ended.status);
    assert!(ran.contains("1 passed"), "{ran}");
    None
}

fn fill(disk: &Path) -> PathBuf {
    let path = disk.join("fill");
    let mut file = OpenOptions::new().create_new(true).append(true).open(&path).unwrap();
    for size in [65_536, 4096, 1] {
        while file.write_all(&vec![1; size]).is_ok() {}
    }
    path
}

fn large(n: u128) -> JobSpec {
    let padding = Json::from_value(&"x".repeat(30_000)).unwrap();
    JobSpec { params: padding, ..job(n) }
}

fn is_told(error: &StoreError, directory: &Path) {
    assert!(matches!(error, StoreError::DiskFull { .. }), "{error:?}");
    let line = error.to_string();
    assert_eq!(line.lines().count(), 1, "{line}");
    for word in
        [directory.to_str().unwrap(), "is full", "free some space", "nothing acknowledged is lost"]
    {
        assert!(line.contains(word), "{word:?} is not in {line:?}");
    }
}

/// Fills the disk with jobs until no more are taken in, then with something else until nothing is left at all. What was
/// acknowledged is there at every moment, and the same handle goes on when there is space.
#[tokio::test]
async fn a_full_disk_is_named_and_the_same_handle_goes_on_when_there_is_space() {
    let name = "a_full_disk_is_named_and_the_same_handle_goes_on_when_there_is_space";
    let Some(disk) = small_disk(name) else { return };
    for durability in ["normal", "full"] {
        let directory = disk.join(durability);
        let url = format!("lmdb:{}?durability={durability}", directory.display());
        let store = Arc::new(LmdbStore::open_url(&url).unwrap());
        let mut acknowledged = Vec::new();
        let mut submit = async |n: u128, spec: JobSpec| {
            let submitted = store.submit(BEGINNING, SubmitBatch::of(vec![spec])).await;
            submitted.map(|_| acknowledged.push(id(n)))
        };
        for n in 1..=20 {
            submit(n, large(n)).await.unwrap();
        }
        let filled = fill(&disk);
        let mut refused = 0;
        for n in 100..200 {
            match submit(n, large(n)).await {
                Ok(()) => {}
                Err(error) => {
                    is_told(&error, &directory);
                    refused += 1;
                }
            }
        }
        assert!(refused > 50, "{refused}");
        // Small changes may still find room in what is there; what is acknowledged counts.
        let mut ended = Vec::new();
        for _ in 0..10 {
            let claimed = store.claim(BEGINNING, ClaimRequest::new(worker(1), 1)).await;
            let Ok(mut claimed) = claimed.inspect_err(|error| is_told(error, &directory)) else {
                break;
            };
            let (job, lease) = claimed.jobs.pop().unwrap();
            let end = vec![Finish { lease, outcome: done() }];
            match store.finish(BEGINNING, end).await {
                Ok(_) => ended.push(job.id()),
                Err(error) => is_told(&error, &directory),
            }
        }
        let there = |ids: Vec<JobId>| async { store.get(ids).await.unwrap() };
        assert!(there(acknowledged.clone()).await.iter().all(Option::is_some));
        assert_eq!(store.check(BEGINNING).await.unwrap(), Vec::<String>::new());
        // Nobody can begin a queue here either.
        let other = disk.join("another");
        is_told(&LmdbStore::open(&Options::new(&other)).unwrap_err(), &other);

        fs::remove_file(filled).unwrap();
        drop(LmdbStore::open(&Options::new(&other)).unwrap());
        fs::remove_dir_all(&other).unwrap();
        store.submit(BEGINNING, SubmitBatch::of(vec![large(300)])).await.unwrap();
        drain(store.clone(), BEGINNING, 2, 10).await;
        let jobs = there(acknowledged).await;
        let done =
            |job: &Option<runcue_core::Job>| job.as_ref().unwrap().life.state.word().is_final();
        let left = jobs.iter().filter(|job| !done(job)).count();
        assert!(left <= 1, "{left} are still held by whoever could not end them");
        assert_eq!(store.check(BEGINNING).await.unwrap(), Vec::<String>::new());
        let counts = store.stats(BEGINNING).await.unwrap().counts;
        drop(store);
        let again = LmdbStore::open_url(&url).unwrap();
        assert_eq!(again.stats(BEGINNING).await.unwrap().counts, counts);
        assert_eq!(again.check(BEGINNING).await.unwrap(), Vec::<String>::new());
        drop(again);
        fs::remove_dir_all(&directory).unwrap();
    }
}
