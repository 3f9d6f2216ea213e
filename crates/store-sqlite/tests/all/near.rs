//! Where jobs of many lanes are mixed, those submitted after a job that is taken are read with it. What is known of
//! them then must not outlive what happens to them before they are taken themselves.

use std::collections::BTreeSet;

use runcue_core::{
    GroupName, Job, JobFilter, JobId, JobSpec, Lease, StateWord, TaskName, Timestamp, WorkerId,
};
use runcue_store::{ClaimRequest, Finish, Outcome, Store, SubmitBatch};
use runcue_store_sqlite::{Options, SqliteStore};

const NOW: Timestamp = Timestamp::from_millis(1_700_000_000_000);
const LANES: u128 = 100;

fn job(n: u128) -> JobSpec {
    let mut job = JobSpec::new(JobId::from_u128(n + 1), TaskName::new("t").unwrap());
    job.group = Some(GroupName::new(format!("g{}", n % LANES)).unwrap());
    job
}

async fn claim(store: &SqliteStore, max: usize) -> Vec<(Job, Lease)> {
    store.claim(NOW, ClaimRequest::new(WorkerId::from_u128(1), max)).await.unwrap().jobs
}

async fn finish(store: &SqliteStore, claimed: Vec<(Job, Lease)>) {
    let outcome = Outcome::Done { result: None, result_key: None };
    let end = |(_, lease)| Finish { lease, outcome: outcome.clone() };
    store.finish(NOW, claimed.into_iter().map(end).collect()).await.unwrap();
}

fn number(claimed: &(Job, Lease)) -> u128 {
    claimed.0.id().as_u128() - 1
}

#[tokio::test]
async fn what_happens_to_jobs_that_were_read_beside_others_is_seen_when_they_are_taken() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("queue.db");
    let store = SqliteStore::open(Options::new(&path)).unwrap();
    store.submit(NOW, SubmitBatch::of((0..400).map(job).collect())).await.unwrap();
    // The backlog is worked off from the file, as by a daemon that starts later.
    store.close().await.unwrap();
    let (store, other) = (
        SqliteStore::open(Options::new(&path)).unwrap(),
        SqliteStore::open(Options::new(&path)).unwrap(),
    );
    let first = claim(&store, 10).await;
    assert_eq!(first.iter().map(number).collect::<Vec<_>>(), (0..10).collect::<Vec<_>>());
    // Those from 10 to 63 were read with them. One is withdrawn, one gets a dependent.
    store.cancel(NOW, JobFilter::of_ids([JobId::from_u128(21)]), false).await.unwrap();
    let mut dependent = job(1_000);
    dependent.depends_on = vec![JobId::from_u128(31)];
    store.submit(NOW, SubmitBatch::of(vec![dependent])).await.unwrap();
    let second = claim(&store, 30).await;
    let taken: BTreeSet<u128> = second.iter().map(number).collect();
    assert_eq!(taken, (10..41).filter(|n| *n != 20).collect(), "the one that was cancelled");
    finish(&store, second).await;
    let waits = |found: Vec<Option<Job>>| found[0].as_ref().unwrap().life.state.word();
    let after = store.get(vec![JobId::from_u128(1_001)]).await.unwrap();
    assert_eq!(waits(after), StateWord::Queued);
    // Another process takes some that are known here.
    let theirs: BTreeSet<u128> = claim(&other, 10).await.iter().map(number).collect();
    let ours: BTreeSet<u128> = claim(&store, 500).await.iter().map(number).collect();
    assert!(theirs.is_disjoint(&ours), "{:?}", theirs.intersection(&ours));
    assert!(ours.contains(&1_000), "the dependent of a job that was read ahead");
    assert_eq!(ours.len() + theirs.len() + 30 + 10 + 1, 401);
    assert_eq!(store.check(NOW).await.unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn groups_that_were_submitted_one_after_the_other_get_their_turns_and_their_order() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("queue.db");
    let store = SqliteStore::open(Options::new(&path)).unwrap();
    // Thirty jobs of each group in a row: neighbours are of one lane.
    let in_a_row = |n: u128| {
        let mut job = job(n);
        job.group = Some(GroupName::new(format!("g{}", n / 30)).unwrap());
        job
    };
    store.submit(NOW, SubmitBatch::of((0..3_000).map(in_a_row).collect())).await.unwrap();
    store.close().await.unwrap();
    let store = SqliteStore::open(Options::new(&path)).unwrap();
    for round in 0..30 {
        let claimed = claim(&store, 100).await;
        let taken: BTreeSet<u128> = claimed.iter().map(number).collect();
        let expected = (0..LANES).map(|group| group * 30 + round).collect();
        assert_eq!(taken, expected, "round {round}");
        finish(&store, claimed).await;
    }
    assert!(claim(&store, 1).await.is_empty());
}
