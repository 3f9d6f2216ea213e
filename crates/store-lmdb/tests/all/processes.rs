//! Several processes on a directory that is not there yet, all at once.

use std::collections::HashSet;
use std::io::{Read, stdin};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use runcue_core::JobId;
use runcue_store::{Store, SubmitBatch};
use runcue_store_lmdb::{LmdbStore, Options};
use runcue_store_suite::scene::{BEGINNING, drain, id, job};

/// Set where the test runs as one of the processes: where the directory is, and its number.
const PLACE: &str = "RUNCUE_TEST_PLACE";
const NUMBER: &str = "RUNCUE_TEST_NUMBER";
const PROCESSES: u128 = 8;
const JOBS: u128 = 5;

fn told(place: &Path, n: u128) -> PathBuf {
    place.with_extension(format!("{n}"))
}

/// One of the processes: as soon as the others are there it opens, submits, works, and writes down what it had.
async fn come_up(place: &Path, n: u128) {
    stdin().read_to_end(&mut Vec::new()).unwrap();
    let store = Arc::new(LmdbStore::open(&Options::new(place)).unwrap());
    let jobs = (0..JOBS).map(|k| job(100 * n + k)).collect();
    store.submit(BEGINNING, SubmitBatch::of(jobs)).await.unwrap();
    let had = drain(store.clone(), BEGINNING, n, 2).await;
    let lines: Vec<String> = had.iter().map(|id| format!("{}\n", id.as_u128())).collect();
    std::fs::write(told(place, n), lines.concat()).unwrap();
}

fn start(name: &str, place: &Path, n: u128) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &format!("processes::{name}")])
        .env(PLACE, place)
        .env(NUMBER, n.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

#[tokio::test]
async fn many_processes_open_a_directory_that_is_not_there_at_once() {
    if let Some(place) = std::env::var_os(PLACE) {
        let n = std::env::var(NUMBER).unwrap().parse().unwrap();
        return come_up(Path::new(&place), n).await;
    }
    let name = "many_processes_open_a_directory_that_is_not_there_at_once";
    for _ in 0..3 {
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path().join("queue");
        let mut children: Vec<Child> = (1..=PROCESSES).map(|n| start(name, &place, n)).collect();
        // They wait for the end of their input.
        children.iter_mut().for_each(|child| drop(child.stdin.take()));
        for child in children {
            let ended = child.wait_with_output().unwrap();
            assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stdout));
        }
        let had: Vec<JobId> = (1..=PROCESSES)
            .map(|n| std::fs::read_to_string(told(&place, n)).unwrap())
            .flat_map(|text| text.lines().map(|line| id(line.parse().unwrap())).collect::<Vec<_>>())
            .collect();
        let all: HashSet<JobId> = had.iter().copied().collect();
        let submitted = (1..=PROCESSES).flat_map(|n| (0..JOBS).map(move |k| id(100 * n + k)));
        assert_eq!(had.len(), all.len(), "a job ran twice");
        assert_eq!(all, submitted.collect());
        let store = LmdbStore::open(&Options::new(&place)).unwrap();
        assert_eq!(
            u128::from(store.stats(BEGINNING).await.unwrap().counts.completed),
            PROCESSES * JOBS
        );
        assert_eq!(store.check(BEGINNING).await.unwrap(), Vec::<String>::new());
        let left = std::fs::read_dir(&place).unwrap().map(|entry| entry.unwrap().file_name());
        let mut left: Vec<_> = left.collect();
        left.sort();
        assert_eq!(left, ["data.mdb", "lock.mdb"]);
    }
}
