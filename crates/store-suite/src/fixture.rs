//! What queues of every schema are made of: one history to write, by the last version with a schema, and what must be
//! found in it and can be done with it for ever. The rest of a fixture is the store's own: where its bytes are kept.

use std::time::Duration;

use runcue_core::{
    ErrorKind, GroupName, JobFilter, JobId, JobSpec, Json, Key, QueueName, QueueSpec, Rate,
    RetryPolicy, ServiceName, ServiceSpec, StateWord, TaskName, TaskSpec, Timestamp, Use, WorkerId,
};
use runcue_store::{
    ClaimRequest, Finish, Finished, LogChunk, LogStream, Outcome, Store, SubmitBatch, WorkerSpec,
};

/// The instant at which everything in it happens.
const NOW: Timestamp = Timestamp::from_millis(1_700_000_000_000);
const WORKER: WorkerId = WorkerId::from_u128(1);

fn id(n: u128) -> JobId {
    JobId::from_u128(n)
}

fn job(n: u128) -> JobSpec {
    let retry = RetryPolicy { jitter: false, ..RetryPolicy::attempts(1) };
    JobSpec { retry, ..JobSpec::new(id(n), TaskName::new("t").unwrap()) }
}

fn failed(kind: ErrorKind) -> Outcome {
    Outcome::Failed { error: "boom".to_owned(), kind, code: None, service: None }
}

/// Writes a queue with a job in every state, a service in use, groups, a queue, a task, output and events.
pub async fn write(store: &dyn Store) {
    let api = ServiceName::new("api").unwrap();
    let rates = vec![Rate { limit: 10, window: Duration::from_secs(60) }];
    let service = ServiceSpec { max_concurrent: Some(3), rates, ..ServiceSpec::new(api.clone()) };
    store.upsert_services(NOW, vec![service]).await.unwrap();
    store.upsert_tasks(NOW, vec![TaskSpec::new(TaskName::new("t").unwrap())]).await.unwrap();
    let queue = QueueSpec {
        name: QueueName::new("side").unwrap(),
        max_queued: Some(9),
        on_full: Default::default(),
        paused: false,
    };
    store.upsert_queues(NOW, vec![queue]).await.unwrap();
    let worker = WorkerSpec {
        id: WORKER,
        name: "old".to_owned(),
        host: "elsewhere".to_owned(),
        pid: 1,
        slots: 4,
        offers: Default::default(),
    };
    store.upsert_worker(NOW, worker).await.unwrap();
    let priority = |n: u128| 100 - i32::try_from(n).unwrap();
    let mut jobs: Vec<JobSpec> =
        (1..=6).map(|n| JobSpec { priority: priority(n), ..job(n) }).collect();
    jobs[4].services = vec![Use { service: api.clone(), units: 2 }];
    jobs[0].params = Json::parse(r#"{"width":640}"#).unwrap();
    jobs.extend([
        JobSpec { group: Some(GroupName::new("g").unwrap()), ..job(7) },
        JobSpec { depends_on: vec![id(7)], ..job(8) },
        JobSpec { run_at: Some(NOW.plus(Duration::from_secs(600))), ..job(9) },
        JobSpec {
            key: Some(Key::new("k").unwrap()),
            idempotency_key: Some("once".to_owned()),
            queue: QueueName::new("side").unwrap(),
            services: vec![Use::one(api)],
            ..job(10)
        },
    ]);
    store.submit(NOW, SubmitBatch::of(jobs)).await.unwrap();
    store.set_group_paused(NOW, GroupName::new("g").unwrap(), true).await.unwrap();
    let only = |ids: &[u128], start| ClaimRequest {
        only: Some(ids.iter().copied().map(id).collect()),
        start,
        ..ClaimRequest::new(WORKER, 9)
    };
    let claimed = store.claim(NOW, only(&[1, 2, 3, 5], true)).await.unwrap().jobs;
    store.claim(NOW, only(&[6], false)).await.unwrap();
    let lease = |n: usize| claimed[n].1.clone();
    let chunk = LogChunk {
        n: 0,
        job: id(1),
        attempt: 1,
        token: lease(0).token,
        stream: LogStream::Stdout,
        at: NOW,
        text: "hello\n".to_owned(),
    };
    store.append_logs(NOW, vec![chunk]).await.unwrap();
    let done = Outcome::Done { result: Json::parse("[1,2]").ok(), result_key: None };
    let ends = vec![
        Finish { lease: lease(0), outcome: done },
        Finish { lease: lease(1), outcome: failed(ErrorKind::Permanent) },
        Finish { lease: lease(2), outcome: failed(ErrorKind::Transient) },
    ];
    store.finish(NOW, ends).await.unwrap();
    store.cancel(NOW, JobFilter::of_ids([id(4)]), false).await.unwrap();
    store.close().await.unwrap();
}

/// Finds everything, and works the queue off.
pub async fn read_and_work_off(store: &dyn Store) {
    assert_eq!(store.check(NOW).await.unwrap(), Vec::<String>::new());
    let jobs = store.get((1..=10).map(id).collect()).await.unwrap();
    let jobs: Vec<_> = jobs.into_iter().map(Option::unwrap).collect();
    let states: Vec<StateWord> = jobs.iter().map(|job| job.life.state.word()).collect();
    use StateWord::{Cancelled, Completed, Failed, Leased, Quarantined, Queued, Running};
    let rest = [Queued; 4];
    assert_eq!(states[..6], [Completed, Failed, Quarantined, Cancelled, Running, Leased]);
    assert_eq!(states[6..], rest);
    assert_eq!(jobs[0].life.result.as_ref().unwrap().as_str(), "[1,2]");
    assert_eq!(jobs[0].spec.params.as_str(), r#"{"width":640}"#);
    assert_eq!(store.logs(id(1), 0).await.unwrap()[0].text, "hello\n");
    let events = store.events(0, 1_000).await.unwrap();
    assert_eq!(events.len() as u64, store.last_event().await.unwrap());
    let api = store.services(NOW).await.unwrap().remove(0);
    assert_eq!((api.in_use, api.used[0].1), (1, 2), "the running job's slot and units");
    assert!(store.groups().await.unwrap().iter().any(|group| group.paused));
    assert_eq!(store.queues().await.unwrap().len(), 2);
    assert_eq!(store.tasks().await.unwrap().len(), 1);

    store.set_group_paused(NOW, GroupName::new("g").unwrap(), false).await.unwrap();
    assert_eq!(store.retry(NOW, JobFilter::of_ids([id(2), id(3), id(4)])).await.unwrap(), 3);
    // The worker of the leases is gone; jobs with one attempt are set aside with it.
    let later = NOW.plus(Duration::from_secs(3600));
    let reaped = store.reap(later, vec![WORKER]).await.unwrap();
    assert_eq!(reaped.quarantined.len() + reaped.requeued.len(), 2);
    store.retry(later, JobFilter::of_ids([id(5), id(6)])).await.unwrap();
    loop {
        let claimed =
            store.claim(later, ClaimRequest::new(WorkerId::from_u128(2), 9)).await.unwrap();
        if claimed.jobs.is_empty() {
            break;
        }
        let done = |(_, lease)| Finish {
            lease,
            outcome: Outcome::Done { result: None, result_key: None },
        };
        let ends = claimed.jobs.into_iter().map(done).collect();
        for answer in store.finish(later, ends).await.unwrap() {
            assert_eq!(answer, Finished::Now { state: Completed, retry_at: None });
        }
    }
    assert_eq!(store.stats(later).await.unwrap().counts.completed, 10);
    assert_eq!(store.check(later).await.unwrap(), Vec::<String>::new());
}
