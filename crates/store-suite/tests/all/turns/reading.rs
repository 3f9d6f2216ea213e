//! Ready jobs that are read with a commit and taken over later: whatever happens to them, or comes between them, until
//! then is not missed. One caller, who asks for one thing after the other.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use runcue_core::{JobFilter, JobId, JobSpec, Lease, TaskName, Timestamp, WorkerId};
use runcue_store::{ClaimRequest, Finish, Finished, Outcome, Store, SubmitBatch};
use runcue_store_suite::Maker;
use runcue_store_suite::scene::drain;

use super::Servers;

const NOW: Timestamp = Timestamp::from_millis(1_000);
const JOBS: u128 = 2_000;
const MOST: usize = 80;

fn jobs(numbers: impl Iterator<Item = u128>, priority: i32) -> SubmitBatch {
    let job = |n| JobSpec {
        priority,
        ..JobSpec::new(JobId::from_u128(n), TaskName::new("work").unwrap())
    };
    SubmitBatch::of(numbers.map(job).collect())
}

/// A handle on a queue of many jobs that it has not put there.
async fn reader(servers: &Servers) -> (Arc<dyn Store>, Arc<dyn Store>) {
    let first = servers.open().await;
    first.submit(NOW, jobs(0..JOBS, 0)).await.unwrap();
    let store = servers.second_handle(&first).await.unwrap();
    (first, store)
}

fn was_read(servers: &Servers) -> bool {
    servers.latest.lock().unwrap().read.load(Ordering::Relaxed) > 0
}

async fn claim(store: &Arc<dyn Store>) -> Vec<JobId> {
    claim_some(store, MOST).await
}

async fn claim_some(store: &Arc<dyn Store>, most: usize) -> Vec<JobId> {
    let request = ClaimRequest::new(WorkerId::from_u128(1), most);
    store.claim(NOW, request).await.unwrap().jobs.iter().map(|(job, _)| job.id()).collect()
}

#[tokio::test]
async fn jobs_are_handed_out_in_their_order() {
    let servers = Servers::new();
    let (_first, store) = reader(&servers).await;
    let had = drain(store, NOW, 1, MOST).await;
    assert_eq!(had, (0..JOBS).map(JobId::from_u128).collect::<Vec<_>>());
    assert!(was_read(&servers), "nothing was read with a commit");
}

/// At any moment, the last ones too, when what is read reaches the end of the list.
#[tokio::test]
async fn jobs_that_come_meanwhile_are_not_missed() {
    let servers = Servers::new();
    let (_first, store) = reader(&servers).await;
    let (mut had, mut next) = (HashSet::new(), JOBS);
    while (had.len() as u128) < JOBS {
        had.extend(claim(&store).await);
        // Behind all others, and before some.
        store.submit(NOW, jobs(next..next + 1, 0)).await.unwrap();
        if next.is_multiple_of(3) {
            store.submit(NOW, jobs(next + 1..next + 2, -1)).await.unwrap();
        }
        next += if next.is_multiple_of(3) { 2 } else { 1 };
    }
    had.extend(drain(Arc::clone(&store), NOW, 1, MOST).await);
    assert_eq!(had.len() as u128, next);
    assert!(was_read(&servers), "nothing was read with a commit");
}

#[tokio::test]
async fn jobs_that_go_meanwhile_are_not_handed_out() {
    let servers = Servers::new();
    let (_first, store) = reader(&servers).await;
    let (mut had, mut gone): (HashSet<JobId>, HashSet<JobId>) = Default::default();
    while ((had.len() + gone.len()) as u128) < JOBS {
        let ids = claim(&store).await;
        let last = ids.iter().map(|id| id.as_u128()).max().unwrap_or(JOBS);
        had.extend(ids);
        let ahead = (last + 1..JOBS).step_by(97).map(JobId::from_u128);
        let ahead: Vec<JobId> = ahead.filter(|id| !gone.contains(id)).take(3).collect();
        // No ids at all would be all jobs.
        if !ahead.is_empty() {
            let filter = JobFilter::of_ids(ahead.clone());
            assert_eq!(store.cancel(NOW, filter, false).await.unwrap(), ahead.len() as u64);
            gone.extend(ahead);
        }
    }
    assert!(had.is_disjoint(&gone), "a job was handed out that had been cancelled");
    assert_eq!((had.len() + gone.len()) as u128, JOBS);
    assert!(was_read(&servers), "nothing was read with a commit");
}

/// Another daemon takes jobs, or cancels some that were read and not yet taken over.
#[tokio::test]
async fn jobs_that_others_change_meanwhile_are_known_to_be_changed() {
    for servers in [Servers::new(), Servers::new().telling()] {
        let (first, store) = reader(&servers).await;
        let (mut had, mut gone): (HashSet<JobId>, HashSet<JobId>) = Default::default();
        let (mut round, mut last) = (0, 0);
        while ((had.len() + gone.len()) as u128) < JOBS {
            // Alone for some time, so that it reads ahead, and then not. So few are told of, where anything is.
            round += 1;
            let ids = match round % 6 {
                5 => claim_some(&first, 12).await,
                _ => claim(&store).await,
            };
            for id in &ids {
                assert!(had.insert(*id), "{id} was handed out twice");
                last = last.max(id.as_u128());
            }
            let ahead: Vec<JobId> = (last + 1..JOBS).step_by(60).map(JobId::from_u128).collect();
            if round % 3 == 1 && !ahead.is_empty() {
                let filter = JobFilter::of_ids(ahead.iter().copied().take(9).collect::<Vec<_>>());
                first.cancel(NOW, filter, false).await.unwrap();
                gone.extend(ahead.into_iter().take(9));
            }
        }
        assert!(had.is_disjoint(&gone), "a job was handed out that had been cancelled");
        assert_eq!((had.len() + gone.len()) as u128, JOBS);
        assert!(was_read(&servers), "nothing was read with a commit");
    }
}

/// Two daemons that end many jobs and claim as many at the same time, each after the other had its turn: ends do not wait for
/// what the claims have to read, and what they give back meanwhile is not missed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_ends_and_claims_at_once_are_all_carried_out() {
    let servers = Servers::new();
    let (first, second) = reader(&servers).await;
    let mut daemons = [(first, Vec::new()), (second, Vec::new())];
    let (mut had, mut ended): (HashSet<JobId>, HashSet<JobId>) = Default::default();
    for round in 0_usize.. {
        let (store, held) = &mut daemons[round % 2];
        let end = |(n, lease): (usize, Lease)| {
            // At first some are given back, and stand before all others again.
            let back = round < 12 && n.is_multiple_of(7);
            let done = Outcome::Done { result: None, result_key: None };
            Finish { lease, outcome: if back { Outcome::HandBack } else { done } }
        };
        let ends: Vec<Finish> = std::mem::take(held).into_iter().enumerate().map(end).collect();
        let mut back = HashSet::new();
        for Finish { lease, outcome } in &ends {
            match outcome {
                Outcome::HandBack => assert!(had.remove(&lease.job) && back.insert(lease.job)),
                _ => assert!(ended.insert(lease.job)),
            }
        }
        let claims = store.claim(NOW, ClaimRequest::new(WorkerId::from_u128(1), 300));
        let (finished, claimed) = tokio::join!(store.finish(NOW, ends), claims);
        let finished = finished.unwrap();
        assert!(finished.iter().all(|end| matches!(end, Finished::Now { .. })), "{finished:?}");
        for (job, lease) in claimed.unwrap().jobs {
            assert!(had.insert(job.id()), "{} was handed out twice", job.id());
            back.remove(&job.id());
            held.push(lease);
        }
        assert!(
            back.is_empty(),
            "round {round}: jobs that stand before others were passed over: {back:?}"
        );
        if ended.len() as u128 == JOBS {
            break;
        }
        assert!(round < 100, "only {} of {JOBS} jobs have ended", ended.len());
    }
    let counts = daemons[0].0.stats(NOW).await.unwrap().counts;
    assert_eq!((u128::from(counts.completed), counts.live()), (JOBS, 0));
    let put_off = servers.latest.lock().unwrap().put_off.load(Ordering::Relaxed);
    assert!(put_off > 0, "nothing was read after a turn had begun");
}
