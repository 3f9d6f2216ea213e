//! Ready jobs that were written together: each of them is found like any other, goes on its own, and the row goes with
//! the last.

use runcue_core::why::Reason;
use runcue_core::{GroupName, JobFilter, JobId, JobSpec, StateWord, TaskName};
use runcue_store::{ClaimRequest, ListRequest, Store, SubmitBatch};
use runcue_store_postgres::PostgresStore;

use crate::lease_runs::{NOW, Queue, WORKER, done, ids, open};

fn id(n: u128) -> JobId {
    JobId::from_u128(n)
}

fn job(n: u128) -> JobSpec {
    JobSpec::new(id(n), TaskName::new("t").unwrap())
}

fn queued() -> JobFilter {
    JobFilter { states: [StateWord::Queued].into(), ..JobFilter::default() }
}

/// Jobs of each run that are still in it, with all else in order.
async fn runs(queue: &Queue) -> Vec<u32> {
    assert_eq!(queue.store.check(NOW).await.unwrap(), Vec::<String>::new());
    let sql = "SELECT coalesce(string_agg((cardinality(seqs) - taken)::text, ' ' ORDER BY last), '') FROM runcue.ready_run";
    let answer = queue.database.sql(sql).unwrap();
    answer.split_whitespace().map(|count| count.parse().unwrap()).collect()
}

/// What a list shows page by page, oldest first.
async fn pages(store: &PostgresStore, filter: &JobFilter, limit: usize) -> Vec<JobId> {
    let (mut all, mut before) = (Vec::new(), None);
    loop {
        let request = ListRequest { filter: filter.clone(), before, limit };
        let page = store.list(request).await.unwrap();
        all.extend(page.rows.iter().map(|job| job.id()));
        before = page.next;
        if before.is_none() {
            all.reverse();
            return all;
        }
    }
}

#[tokio::test]
async fn they_are_found_like_any_other() {
    let queue = Queue::with(200).await;
    assert_eq!(runs(&queue).await, [64, 64, 64, 8]);
    // By somebody who has never seen them.
    let other = open(&queue.database);
    let all: Vec<JobId> = (1..=200).map(id).collect();
    for limit in [7, 64, 500] {
        assert_eq!(pages(&other, &queued(), limit).await, all);
    }
    let read = other.get(all.clone()).await.unwrap();
    assert!(read.into_iter().flatten().all(|job| job.life.state.word() == StateWord::Queued));
    let view =
        "SELECT count(*), min(attempt), min(waits_for) FROM runcue.jobs WHERE state = 'queued'";
    assert_eq!(queue.database.sql(view).unwrap().trim(), "200|0|its turn");
    for (n, ahead) in [(2, 1), (64, 63), (65, 64), (150, 149), (200, 199)] {
        let why = other.why(NOW, id(n)).await.unwrap();
        assert!(why.contains(&Reason::Behind { ahead }), "job {n}: {why:?}");
    }
    let mut leases = Vec::new();
    for max in [3, 60, 1, 100, 90] {
        let claimed = other.claim(NOW, ClaimRequest::new(WORKER, max)).await.unwrap();
        leases.extend(claimed.jobs.into_iter().map(|(_, lease)| lease));
        runs(&queue).await;
    }
    assert_eq!(ids(&leases), all);
    assert_eq!(runs(&queue).await, Vec::<u32>::new());
    other.close().await.unwrap();
    queue.end(&leases, done()).await;
    assert_eq!(queue.store.stats(NOW).await.unwrap().counts.completed, 200);
    queue.store.close().await.unwrap();
}

#[tokio::test]
async fn whoever_asks_for_all_there_are_gets_them() {
    let queue = Queue::with(200).await;
    // By somebody who has to ask for them.
    let all = ClaimRequest::new(WORKER, usize::MAX);
    assert_eq!(open(&queue.database).claim(NOW, all).await.unwrap().jobs.len(), 200);
    assert_eq!(runs(&queue).await, Vec::<u32>::new());
}

#[tokio::test]
async fn each_goes_on_its_own() {
    let queue = Queue::with(200).await;
    let other = open(&queue.database);
    let mut gone = ids(&queue.claim(WORKER, 10).await);
    assert_eq!(runs(&queue).await, [54, 64, 64, 8]);
    // From the middle of one, and the last of another, by somebody else.
    let only = ClaimRequest { only: Some(vec![id(40), id(128)]), ..ClaimRequest::new(WORKER, 2) };
    gone.extend(other.claim(NOW, only).await.unwrap().jobs.iter().map(|(job, _)| job.id()));
    assert_eq!(runs(&queue).await, [53, 63, 64, 8]);
    // Withdrawn from both ends and the middle, over several runs.
    let withdrawn: Vec<JobId> = [11, 70, 71, 129, 192, 200].map(id).into();
    let filter = JobFilter { ids: withdrawn.iter().copied().collect(), ..queued() };
    assert_eq!(queue.store.cancel(NOW, filter, false).await.unwrap(), 6);
    assert_eq!(runs(&queue).await, [52, 61, 62, 7]);
    gone.extend(withdrawn);
    // One that others wait for has a row of its own from then on, and keeps its place.
    let behind = JobSpec { depends_on: vec![id(100)], ..job(201) };
    other.submit(NOW, SubmitBatch::of(vec![behind])).await.unwrap();
    assert_eq!(runs(&queue).await, [52, 60, 62, 7]);
    let left: Vec<JobId> = (1..=200).map(id).filter(|id| !gone.contains(id)).collect();
    let third = open(&queue.database);
    let claimed = third.claim(NOW, ClaimRequest::new(WORKER, 500)).await.unwrap();
    assert_eq!(claimed.jobs.iter().map(|(job, _)| job.id()).collect::<Vec<_>>(), left);
    assert_eq!(runs(&queue).await, Vec::<u32>::new());
    for store in [other, third, queue.store] {
        store.close().await.unwrap();
    }
}

#[tokio::test]
async fn jobs_of_several_lanes_are_listed_and_withdrawn_in_their_order() {
    let queue = Queue::with(0).await;
    // Every third is of another group, and in each of them some are more urgent than others.
    let group = |n: u128| GroupName::new(["a", "b", "c"][usize::try_from(n % 3).unwrap()]).unwrap();
    for from in [0, 300, 600] {
        let one = |n| JobSpec {
            group: Some(group(n)),
            priority: if n % 5 == 0 { 9 } else { 0 },
            ..job(n)
        };
        let batch = SubmitBatch::of((from + 1..=from + 300).map(one).collect());
        queue.store.submit(NOW, batch).await.unwrap();
    }
    let other = open(&queue.database);
    assert_eq!(runs(&queue).await.iter().sum::<u32>(), 720, "of the urgent ones there are too few");
    let all: Vec<JobId> = (1..=900).map(id).collect();
    let of_b: Vec<JobId> = (1..=900).filter(|n| n % 3 == 1).map(id).collect();
    let b = JobFilter { group: Some(group(1)), ..queued() };
    for limit in [1, 40, 1000] {
        assert_eq!(pages(&other, &queued(), limit).await, all);
        assert_eq!(pages(&other, &b, limit).await, of_b);
    }
    assert_eq!(other.cancel(NOW, b.clone(), false).await.unwrap(), 300);
    assert!(pages(&other, &b, 40).await.is_empty());
    assert_eq!(pages(&other, &queued(), 40).await.len(), 600);
    assert_eq!(runs(&queue).await.iter().sum::<u32>(), 480, "{:?}", runs(&queue).await);
    other.close().await.unwrap();
    queue.store.close().await.unwrap();
}

#[tokio::test]
async fn few_have_rows_of_their_own() {
    let queue = Queue::with(31).await;
    assert_eq!(runs(&queue).await, Vec::<u32>::new());
    assert_eq!(queue.claim(WORKER, 40).await.len(), 31);
    queue.store.close().await.unwrap();
}

#[tokio::test]
async fn a_run_that_says_what_is_not_so_is_found() {
    let queue = Queue::with(100).await;
    let wrong = "1 runs of ready jobs that say wrongly where they are";
    queue.database.sql("UPDATE runcue.ready_run SET rank = 7 WHERE last = 64").unwrap();
    assert_eq!(queue.store.check(NOW).await.unwrap(), [wrong]);
    queue.database.sql("UPDATE runcue.ready_run SET rank = 0, taken = 64 WHERE last = 64").unwrap();
    let findings = queue.store.check(NOW).await.unwrap();
    assert!(findings.contains(&"64 jobs without a state".to_owned()), "{findings:?}");
    assert!(findings.contains(&wrong.to_owned()), "{findings:?}");
    queue.database.sql("UPDATE runcue.ready_run SET taken = 0 WHERE last = 64").unwrap();
    assert!(queue.store.check(NOW).await.unwrap().is_empty());
    queue.claim(WORKER, 10).await;
    queue.database.sql("UPDATE runcue.ready_run SET taken = 0 WHERE last = 64").unwrap();
    let findings = queue.store.check(NOW).await.unwrap();
    assert!(findings.contains(&"10 jobs with two states".to_owned()), "{findings:?}");
    queue.store.close().await.unwrap();
}
