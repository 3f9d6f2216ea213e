//! The machine in turns whose commits are carried out by a second thread: the contract again, and turns that are decided
//! while another one is written, is refused, or is not heard of.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use runcue_core::{JobFilter, JobId, JobSpec, TaskName, Timestamp, WorkerId};
use runcue_store::{ClaimRequest, StoreError, SubmitBatch};
use runcue_store_suite::Maker;
use runcue_store_suite::scene::drain;

use super::Servers;

const NOW: Timestamp = Timestamp::from_millis(1_000);

runcue_store_suite::contract_suite!(Servers::new().aside(Duration::ZERO));
runcue_store_suite::durable_suite!(Servers::losing(3).aside(Duration::ZERO));
runcue_store_suite::model_suite!(Servers::losing(9).aside(Duration::ZERO), 16);

fn jobs(numbers: impl Iterator<Item = u128>) -> SubmitBatch {
    let job = |n| JobSpec::new(JobId::from_u128(n), TaskName::new("work").unwrap());
    SubmitBatch::of(numbers.map(job).collect())
}

/// Several callers on each of several handles, so that there is always something to decide while a turn is written, and
/// somebody who comes in between now and then. Every job is handed out once, and its end is counted once.
async fn everything_once(servers: Servers, handles: usize, in_between: u128) -> Servers {
    const JOBS: u128 = 3_600;
    let first = servers.open().await;
    let mut submissions = Vec::new();
    for from in (0..JOBS).step_by(100) {
        let (store, batch) = (Arc::clone(&first), jobs(from..from + 100));
        submissions.push(tokio::spawn(async move { store.submit(NOW, batch).await.unwrap() }));
    }
    for submission in submissions {
        submission.await.unwrap();
    }
    let mut workers = Vec::new();
    for handle in 0..handles {
        let store = servers.second_handle(&first).await.unwrap();
        for n in 0..4 {
            let worker = (handle * 4 + n + 1) as u128;
            workers.push(tokio::spawn(drain(Arc::clone(&store), NOW, worker, 20 + 50 * (n % 2))));
        }
    }
    for n in JOBS..JOBS + in_between {
        // By then the others believe that they are alone.
        tokio::time::sleep(Duration::from_millis(15)).await;
        first.submit(NOW, jobs(n..n + 1)).await.unwrap();
    }
    let mut had: HashMap<JobId, u32> = HashMap::new();
    let mut count = |ids: Vec<JobId>| {
        ids.into_iter().for_each(|id| *had.entry(id).or_default() += 1);
    };
    for worker in workers {
        count(worker.await.unwrap());
    }
    count(drain(Arc::clone(&first), NOW, 99, 50).await);
    assert!(had.values().all(|times| *times == 1), "a job was handed out twice");
    assert_eq!(had.len() as u128, JOBS + in_between);
    let counts = first.stats(NOW).await.unwrap().counts;
    assert_eq!((u128::from(counts.completed), counts.live()), (JOBS + in_between, 0));
    assert_eq!(first.check(NOW).await.unwrap(), Vec::<String>::new());
    servers
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_is_decided_while_another_is_written() {
    let servers = everything_once(Servers::new().aside(Duration::from_millis(2)), 1, 0).await;
    let server = servers.latest.lock().unwrap().clone();
    assert!(server.read.load(Ordering::Relaxed) > 0, "nothing was read beside a commit");
    assert_eq!(server.failed.load(Ordering::Relaxed), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_decided_on_a_turn_that_was_refused_is_decided_again() {
    let servers = Servers { overtake_every: 3, ..Servers::new() };
    let servers = everything_once(servers.aside(Duration::from_millis(3)), 1, 20).await;
    assert!(servers.latest.lock().unwrap().failed.load(Ordering::Relaxed) > 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_decided_on_a_turn_whose_reply_was_lost_holds_if_that_was_written() {
    for handles in [1, 3] {
        let servers = Servers::losing(5).aside(Duration::from_millis(1));
        let servers = everything_once(servers, handles, 10).await;
        assert!(servers.latest.lock().unwrap().failed.load(Ordering::Relaxed) > 0);
    }
}

/// What is read beside a commit knows nothing of jobs that come with it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_comes_with_a_commit_is_found_all_the_same() {
    const JOBS: u128 = 3_000;
    const MORE: u128 = 60;
    let servers = Servers::new().aside(Duration::from_millis(2));
    let first = servers.open().await;
    first.submit(NOW, jobs(0..JOBS)).await.unwrap();
    let store = servers.second_handle(&first).await.unwrap();
    let workers: Vec<_> =
        (1..=3).map(|n| tokio::spawn(drain(Arc::clone(&store), NOW, n, 80))).collect();
    for n in JOBS..JOBS + MORE {
        store.submit(NOW, jobs(n..n + 1)).await.unwrap();
    }
    let mut had = HashSet::new();
    for worker in workers {
        had.extend(worker.await.unwrap());
    }
    had.extend(drain(Arc::clone(&store), NOW, 9, 60).await);
    assert_eq!(had.len() as u128, JOBS + MORE);
}

/// And nothing of those that go with it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_goes_with_a_commit_is_not_handed_out() {
    const JOBS: u128 = 4_000;
    const MOST: usize = 70;
    let servers = Servers::new().aside(Duration::from_millis(2));
    let first = servers.open().await;
    first.submit(NOW, jobs(0..JOBS)).await.unwrap();
    let store = servers.second_handle(&first).await.unwrap();
    let (mut had, mut gone): (HashSet<JobId>, HashSet<JobId>) = Default::default();
    let mut last = 0;
    while last + 700 < JOBS {
        let ahead = (last + 141..last + 700).step_by(17).map(JobId::from_u128);
        let ahead: Vec<JobId> = ahead.filter(|id| !gone.contains(id)).take(3).collect();
        let (claimed, cancelled) = tokio::join!(
            store.claim(NOW, ClaimRequest::new(WorkerId::from_u128(1), MOST)),
            store.cancel(NOW, JobFilter::of_ids(ahead.clone()), false)
        );
        assert_eq!(cancelled.unwrap(), ahead.len() as u64);
        gone.extend(ahead);
        let ids: Vec<JobId> = claimed.unwrap().jobs.iter().map(|(job, _)| job.id()).collect();
        last = ids.iter().map(|id| id.as_u128()).max().unwrap();
        had.extend(ids);
    }
    assert!(had.is_disjoint(&gone), "a job was handed out that had been cancelled");
    assert!(servers.latest.lock().unwrap().read.load(Ordering::Relaxed) > 0);
}

/// Jobs that turn out to be there are left out, and whatever was decided behind them is done all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_submission_of_known_jobs_does_not_spoil_what_was_decided_behind_it() {
    let servers = Servers::new().aside(Duration::from_millis(2));
    let one = servers.open().await;
    one.submit(NOW, jobs(0..10)).await.unwrap();
    let two = servers.second_handle(&one).await.unwrap();
    let again = two.submit(NOW, jobs(5..15));
    let behind = async {
        tokio::time::sleep(Duration::from_millis(1)).await;
        two.submit(NOW, jobs(20..30)).await
    };
    let (again, behind) = tokio::join!(again, behind);
    again.unwrap();
    behind.unwrap();
    assert_eq!(one.stats(NOW).await.unwrap().counts.live(), 25);
}

/// A commit that the server refuses for good is told to whoever it was for, and to nobody else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_that_is_refused_for_good_is_nobody_elses() {
    let servers = Servers { refused_task: Some("large"), ..Servers::new() };
    let servers = servers.aside(Duration::from_millis(20));
    let store = servers.open().await;
    for n in 0..6 {
        store.submit(NOW, jobs(n..n + 1)).await.unwrap();
    }
    let large = JobSpec::new(JobId::from_u128(100), TaskName::new("large").unwrap());
    let refused = store.submit(NOW, SubmitBatch::of(vec![large]));
    let behind = async {
        tokio::time::sleep(Duration::from_millis(5)).await;
        store.submit(NOW, jobs(20..30)).await
    };
    let (refused, behind) = tokio::join!(refused, behind);
    assert!(matches!(refused, Err(StoreError::ReadOnly { .. })), "{refused:?}");
    behind.unwrap();
    assert_eq!(store.stats(NOW).await.unwrap().counts.live(), 16);
}

/// Whoever closes a store waits for what is under way.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_is_closed_has_written_what_it_took_in() {
    let servers = Servers::new().aside(Duration::from_millis(20));
    let one = servers.open().await;
    let submission = tokio::spawn({
        let one = Arc::clone(&one);
        async move { one.submit(NOW, jobs(0..10)).await }
    });
    tokio::time::sleep(Duration::from_millis(10)).await;
    one.close().await.unwrap();
    submission.await.unwrap().unwrap();
    let two = servers.second_handle(&one).await.unwrap();
    assert_eq!(two.stats(NOW).await.unwrap().counts.live(), 10);
}
