//! Waiting, inline running, draining, and the same on SQLite.

use std::sync::Arc;

use runcue_core::StateWord;
use runcue_engine::{Cue, Error, Failure, NewJob, SeededIds, Task, VirtualClock, testing};
use runcue_store::{Store, StoreError};
use runcue_store_sqlite::{Options, SqliteStore};

use crate::support::{quick, rated, retry, secs, slow, word};

#[tokio::test(start_paused = true)]
async fn many_can_wait_at_once() {
    let cue = testing::cue().task(slow("t", secs(1))).slots(50).build().await.unwrap();
    let ids = cue.submit_all((0..200).map(|_| NewJob::of("t")).collect()).await.unwrap();
    let waiting: Vec<_> = ids
        .into_iter()
        .map(|id| {
            let cue = cue.clone();
            tokio::spawn(async move { cue.wait(id).await })
        })
        .collect();
    cue.start();
    for waiter in waiting {
        assert_eq!(word(&waiter.await.unwrap().unwrap()), StateWord::Completed);
    }
}

#[tokio::test(start_paused = true)]
async fn an_unknown_job_is_not_waited_for() {
    let cue = testing::cue().task(quick("t")).build().await.unwrap();
    let missing = cue.wait(cue.new_id()).await.unwrap_err();
    assert!(matches!(missing, Error::Store(StoreError::NotFound(_))));
}

#[tokio::test(start_paused = true)]
async fn draining_goes_on_through_retries_delays_and_windows() {
    let flaky = Task::new("t").unwrap().service("api").unwrap().retry(retry(3));
    let flaky = flaky.handler(|work| async move {
        if work.attempt() < 3 { Err(Failure::transient("no")) } else { Ok(()) }
    });
    let cue = testing::cue().service(rated("api", 1, secs(600))).task(flaky).build().await.unwrap();
    let ids =
        cue.submit_all(vec![NewJob::of("t"), NewJob::of("t").delay(secs(86_400))]).await.unwrap();
    cue.drain().await.unwrap();
    for id in ids {
        assert_eq!(word(&cue.get(id).await.unwrap()), StateWord::Completed);
    }
}

#[tokio::test(start_paused = true)]
async fn a_cue_runs_only_the_tasks_it_has() {
    let cue = testing::cue().task(quick("mine")).build().await.unwrap();
    cue.start();
    let other = cue.submit(NewJob::of("theirs")).await.unwrap();
    let mine = cue.submit(NewJob::of("mine")).await.unwrap();
    assert_eq!(word(&cue.wait(mine).await.unwrap()), StateWord::Completed);
    cue.drain().await.unwrap();
    assert_eq!(word(&cue.get(other).await.unwrap()), StateWord::Queued);
    // And those that it gets later, without waiting for the next poll.
    let before = cue.clock().now();
    cue.define_tasks(vec![quick("theirs")]).await.unwrap();
    assert_eq!(word(&cue.wait(other).await.unwrap()), StateWord::Completed);
    assert!(cue.clock().now().since(before) < secs(1));
}

#[tokio::test(start_paused = true)]
async fn jobs_get_the_defaults_of_their_task_also_from_another_cue() {
    let store: Arc<dyn Store> = Arc::new(runcue_store::MemoryStore::new());
    let worker = Cue::builder_on(Arc::clone(&store))
        .service(rated("api", 1, secs(60)))
        .task(
            Task::new("t")
                .unwrap()
                .service("api")
                .unwrap()
                .timeout(secs(9))
                .retry(retry(7))
                .handler(|_| async { Ok(()) }),
        )
        .build();
    let submitter = Cue::builder_on(Arc::clone(&store)).build().await.unwrap();
    let _worker = worker.await.unwrap();
    let id = submitter.submit(NewJob::of("t")).await.unwrap();
    let spec = submitter.get(id).await.unwrap().spec;
    assert_eq!((spec.timeout, spec.retry.max_attempts), (Some(secs(9)), 7));
    assert_eq!(spec.services[0].service.as_str(), "api");
}

#[tokio::test(start_paused = true)]
async fn settings_that_make_no_sense_are_refused_with_the_reason() {
    let late = testing::cue().task(quick("t")).heartbeat(secs(20)).build().await;
    assert!(late.err().unwrap().to_string().contains("too seldom"));
    let bare = testing::cue().task(Task::new("t").unwrap()).build().await;
    assert!(matches!(bare.err().unwrap(), Error::NoHandler { .. }));
    let twice = testing::cue().task(quick("t")).task(quick("t")).build().await;
    assert!(matches!(twice.err().unwrap(), Error::TwiceDefined { .. }));
}

fn on_sqlite(path: &std::path::Path) -> Arc<dyn Store> {
    Arc::new(SqliteStore::open(Options::new(path)).unwrap())
}

#[tokio::test(start_paused = true)]
async fn virtual_time_holds_on_sqlite_too() {
    let directory = tempfile::tempdir().unwrap();
    let store = on_sqlite(&directory.path().join("queue.db"));
    let flaky = Task::new("t").unwrap().retry(retry(3)).timeout(secs(3600));
    let flaky = flaky.handler(|work| async move {
        tokio::time::sleep(secs(600)).await;
        if work.attempt() < 3 { Err(Failure::transient("no")) } else { Ok(work.attempt()) }
    });
    let clock = VirtualClock::default();
    let cue = Cue::builder_on(store)
        .clock(clock)
        .ids(SeededIds::new(1))
        .task(flaky)
        .build()
        .await
        .unwrap();
    cue.start();
    let start = cue.clock().now();
    let id = cue.submit(NewJob::of("t")).await.unwrap();
    assert_eq!(cue.result::<u32>(id).await.unwrap(), 3);
    let took = cue.clock().now().since(start);
    assert!(took >= secs(1803) && took < secs(1806), "{took:?}");
    cue.close().await.unwrap();
}

#[tokio::test]
async fn a_queue_on_sqlite_goes_on_where_it_stopped() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("queue.db");
    let first = Cue::builder_on(on_sqlite(&path)).build().await.unwrap();
    let ids = first.submit_all((0..100).map(|_| NewJob::of("t")).collect()).await.unwrap();
    first.close().await.unwrap();
    drop(first);
    let second = Cue::builder_on(on_sqlite(&path)).task(quick("t")).build().await.unwrap();
    second.start();
    for job in second.wait_all(ids).await.unwrap() {
        assert_eq!(word(&job), StateWord::Completed);
    }
    second.close().await.unwrap();
}
