//! Leases that were written together: each of them is found like any other, leaves on its own, and the row goes with
//! the last.

use std::time::Duration;

use runcue_core::{JobFilter, JobId, JobSpec, Lease, StateWord, TaskName, Timestamp, WorkerId};
use runcue_store::{
    ClaimRequest, Extend, Finish, Finished, ListRequest, Outcome, Store, SubmitBatch, WorkerSpec,
};
use runcue_store_postgres::{Options, PostgresStore};
use runcue_test_servers::Database;

pub(crate) const NOW: Timestamp = Timestamp::from_millis(1_700_000_000_000);
pub(crate) const WORKER: WorkerId = WorkerId::from_u128(1);

/// A queue with so many jobs that wait for their turn.
pub(crate) struct Queue {
    pub database: Database,
    pub store: PostgresStore,
}

impl Queue {
    pub async fn with(jobs: u128) -> Self {
        let database = runcue_test_servers::postgres().unwrap();
        let queue = Self { store: open(&database), database };
        let task = TaskName::new("t").unwrap();
        let job = |n| JobSpec::new(JobId::from_u128(n), task.clone());
        queue.store.submit(NOW, SubmitBatch::of((1..=jobs).map(job).collect())).await.unwrap();
        queue
    }

    pub async fn claim(&self, worker: WorkerId, max: usize) -> Vec<Lease> {
        let claimed = self.store.claim(NOW, ClaimRequest::new(worker, max)).await.unwrap();
        claimed.jobs.into_iter().map(|(_, lease)| lease).collect()
    }

    pub async fn end(&self, leases: &[Lease], outcome: Outcome) -> Vec<Finished> {
        let end = |lease: &Lease| Finish { lease: lease.clone(), outcome: outcome.clone() };
        self.store.finish(NOW, leases.iter().map(end).collect()).await.unwrap()
    }

    /// Jobs of each run that are found nowhere else, in the order of the leases, with all else in order.
    async fn runs(&self) -> Vec<u32> {
        assert_eq!(self.store.check(NOW).await.unwrap(), Vec::<String>::new());
        let sql = "SELECT coalesce(string_agg(remain::text, ' ' ORDER BY token), '') FROM runcue.lease_run";
        let answer = self.database.sql(sql).unwrap();
        answer.split_whitespace().map(|count| count.parse().unwrap()).collect()
    }

    pub async fn listed(&self, state: StateWord) -> Vec<JobId> {
        let filter = JobFilter { states: [state].into(), ..JobFilter::default() };
        let request = ListRequest { filter, before: None, limit: 10_000 };
        self.store.list(request).await.unwrap().rows.iter().rev().map(|job| job.id()).collect()
    }
}

pub(crate) fn open(database: &Database) -> PostgresStore {
    let mut options = Options::parse(&database.url()).unwrap();
    options.callers_clock = true;
    runcue_store_postgres::open(options).unwrap()
}

pub(crate) fn done() -> Outcome {
    Outcome::Done { result: None, result_key: None }
}

pub(crate) fn ids(leases: &[Lease]) -> Vec<JobId> {
    leases.iter().map(|lease| lease.job).collect()
}

#[tokio::test]
async fn they_are_found_like_any_other() {
    let queue = Queue::with(20).await;
    let worker = WorkerSpec {
        id: WORKER,
        name: "w".to_owned(),
        host: "h".to_owned(),
        pid: 1,
        slots: 9,
        offers: Default::default(),
    };
    queue.store.upsert_worker(NOW, worker).await.unwrap();
    let leases = queue.claim(WORKER, 10).await;
    assert_eq!(queue.runs().await, [10]);
    assert_eq!(queue.listed(StateWord::Running).await, ids(&leases));
    assert_eq!(queue.listed(StateWord::Queued).await.len(), 10);
    assert_eq!(queue.store.workers().await.unwrap()[0].held, 10);
    // A daemon that has never seen them reads the same jobs as the one that claimed them.
    let other = open(&queue.database);
    let read = other.get(ids(&leases)).await.unwrap();
    for (job, lease) in read.into_iter().map(Option::unwrap).zip(&leases) {
        assert_eq!(job.life.state.lease(), Some(lease));
        assert_eq!((job.life.attempt, job.life.started_at), (1, Some(NOW)));
    }
    let view = "SELECT count(*), min(attempt), count(leased_by), count(lease_expires_at) FROM runcue.jobs \
                WHERE state = 'running'";
    assert_eq!(queue.database.sql(view).unwrap().trim(), "10|1|10|10");
    // And ends them.
    let ends = leases.iter().map(|lease| Finish { lease: lease.clone(), outcome: done() });
    let ended = other.finish(NOW, ends.collect()).await.unwrap();
    assert!(ended.iter().all(|end| matches!(end, Finished::Now { .. })), "{ended:?}");
    assert_eq!(queue.runs().await, Vec::<u32>::new());
    other.close().await.unwrap();
    queue.store.close().await.unwrap();
}

#[tokio::test]
async fn each_leaves_on_its_own_and_the_row_goes_with_the_last() {
    let queue = Queue::with(30).await;
    let first = queue.claim(WORKER, 10).await;
    let second = queue.claim(WORKER, 10).await;
    assert_eq!(queue.runs().await, [10, 10]);
    // Out of both, from the middle.
    queue.end(&[first[4].clone(), second[0].clone(), second[9].clone()], done()).await;
    assert_eq!(queue.runs().await, [9, 8]);
    // A heartbeat gives a row of its own; what happens to that one does not count again.
    let lease = first[0].clone();
    for seconds in [120, 180] {
        let lease_for = Duration::from_secs(seconds);
        let longer = Extend { lease: lease.clone(), lease_for, progress: None };
        queue.store.extend(NOW, vec![longer]).await.unwrap();
        assert_eq!(queue.runs().await, [8, 8]);
    }
    queue.end(&first[..1], done()).await;
    assert_eq!(queue.runs().await, [8, 8]);
    // Given back, it waits again, and the next claim has it anew while the old run is still there.
    queue.end(&first[1..4], Outcome::HandBack).await;
    assert_eq!(queue.runs().await, [5, 8]);
    assert_eq!(queue.listed(StateWord::Queued).await.len(), 13);
    let third = queue.claim(WorkerId::from_u128(2), 13).await;
    assert!(ids(&third).starts_with(&ids(&first[1..4])));
    queue.runs().await;
    let other = open(&queue.database);
    let read = other.get(ids(&third)).await.unwrap();
    for (job, lease) in read.into_iter().map(Option::unwrap).zip(&third) {
        assert_eq!(job.life.state.lease(), Some(lease), "the latest one counts");
    }
    other.close().await.unwrap();
    // The former holder has no say any more.
    let late = queue.end(&first[1..4], done()).await;
    assert!(late.iter().all(|end| matches!(end, Finished::Lost)), "{late:?}");
    queue.end(&third, done()).await;
    assert_eq!(queue.runs().await, [5, 8]);
    queue.end(&first[5..], done()).await;
    assert_eq!(queue.runs().await, [8]);
    queue.end(&second[1..9], done()).await;
    assert_eq!(queue.runs().await, Vec::<u32>::new());
    assert_eq!(queue.store.stats(NOW).await.unwrap().counts.completed, 30);
    queue.store.close().await.unwrap();
}

#[tokio::test]
async fn they_lapse_and_are_reaped_with_their_worker() {
    let queue = Queue::with(20).await;
    let first = queue.claim(WORKER, 10).await;
    queue.claim(WorkerId::from_u128(2), 10).await;
    let reaped = queue.store.reap(NOW, vec![WORKER]).await.unwrap();
    assert_eq!(reaped.requeued.len(), 10);
    assert_eq!(queue.runs().await, [10]);
    // The other's time is over, as somebody sees who has never seen them.
    let other = open(&queue.database);
    let later = first[0].until.plus(Duration::from_secs(1));
    let reaped = other.reap(later, vec![]).await.unwrap();
    assert_eq!(reaped.requeued.len(), 10);
    assert_eq!(queue.runs().await, Vec::<u32>::new());
    other.close().await.unwrap();
    queue.store.close().await.unwrap();
}

#[tokio::test]
async fn many_are_several_rows() {
    let queue = Queue::with(2503).await;
    let leases = queue.claim(WORKER, 2503).await;
    assert_eq!(queue.runs().await, [1000, 1000, 503]);
    // From the end of one to the beginning of the next.
    queue.end(&leases[990..2010], done()).await;
    assert_eq!(queue.runs().await, [990, 493]);
    queue.end(&leases[..990], done()).await;
    queue.end(&leases[2010..], done()).await;
    assert_eq!(queue.runs().await, Vec::<u32>::new());
    assert_eq!(queue.store.stats(NOW).await.unwrap().counts.completed, 2503);
    queue.store.close().await.unwrap();
}

#[tokio::test]
async fn a_run_that_counts_wrongly_is_found() {
    let queue = Queue::with(10).await;
    queue.claim(WORKER, 10).await;
    queue.database.sql("UPDATE runcue.lease_run SET remain = 9").unwrap();
    let findings = queue.store.check(NOW).await.unwrap();
    assert_eq!(findings, ["1 runs of leases that count wrongly"]);
    queue.store.close().await.unwrap();
}
