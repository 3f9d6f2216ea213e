//! Leases: renewal that user code cannot block, loss, and recovery at start.

use std::sync::Arc;

use runcue_core::{RetryPolicy, StateWord, WorkerId};
use runcue_engine::{Clock, Cue, NewJob, SystemClock, Task, VirtualClock, testing};
use runcue_store::{ClaimRequest, MemoryStore, Store};

use crate::faulty::Faulty;
use crate::support::{Record, endless, millis, secs, slow, until_running, word};

#[tokio::test(start_paused = true)]
async fn leases_are_kept_however_long_a_job_takes() {
    let cue = testing::cue().task(slow("t", secs(3600))).build().await.unwrap();
    cue.start();
    let id = cue.submit(NewJob::of("t")).await.unwrap();
    let job = cue.wait(id).await.unwrap();
    assert_eq!(word(&job), StateWord::Completed);
    assert_eq!((job.life.attempt, job.life.crashes), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_lost_lease_stops_the_work_and_leaves_the_newer_attempt_alone() {
    let record = Record::default();
    let dropped = record.clone();
    struct Dropped(Record<&'static str>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.add("dropped");
        }
    }
    let task = Task::new("t").unwrap().handler(move |_| {
        let dropped = Dropped(dropped.clone());
        async move {
            tokio::time::sleep(secs(3600)).await;
            dropped.0.add("done");
            Ok(())
        }
    });
    let cue = testing::cue().task(task).build().await.unwrap();
    cue.start();
    let id = cue.submit(NewJob::of("t")).await.unwrap();
    until_running(&cue, id).await;
    cue.set_slots(0);
    let (store, now) = (cue.store(), cue.clock().now());
    store.reap(now, vec![cue.worker()]).await.unwrap();
    let other = WorkerId::from_u128(7);
    let claimed = store.claim(now, ClaimRequest::new(other, 1)).await.unwrap();
    assert_eq!(claimed.jobs.len(), 1);
    tokio::time::sleep(secs(1)).await;
    assert_eq!(record.all(), ["dropped"], "within a second");
    let job = cue.get(id).await.unwrap();
    let lease = job.life.state.lease().unwrap();
    assert_eq!((lease.worker, lease.attempt), (other, 2));
    cue.stop().await.unwrap();
    assert!(cue.get(id).await.unwrap().life.state.lease().is_some(), "nothing was reported");
}

#[tokio::test(start_paused = true)]
async fn only_jobs_that_take_a_while_are_looked_at() {
    let store = Faulty::new();
    let cue = Cue::builder_on(store.clone()).clock(VirtualClock::default()).slots(2);
    let cue = cue.task(slow("short", millis(100))).task(slow("long", secs(2)));
    let cue = cue.build().await.unwrap();
    cue.start();
    cue.submit_all((0..40).map(|_| NewJob::of("short")).collect()).await.unwrap();
    tokio::time::sleep(secs(4)).await;
    assert_eq!(cue.stats().await.unwrap().counts.completed, 40);
    assert_eq!(store.calls("get"), 0, "each was over before anybody could have cancelled it");
    cue.submit(NewJob::of("long")).await.unwrap();
    tokio::time::sleep(secs(1)).await;
    assert!(store.calls("get") > 0, "it may have been cancelled between its claim and its start");
    cue.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_poison_job_is_set_aside_after_its_crashes() {
    let task = endless("t").retry(RetryPolicy { max_crashes: 2, ..RetryPolicy::attempts(10) });
    let cue = testing::cue().task(task).build().await.unwrap();
    cue.start();
    let id = cue.submit(NewJob::of("t")).await.unwrap();
    for _ in 0..2 {
        until_running(&cue, id).await;
        // As if the worker had died with it.
        cue.store().reap(cue.clock().now(), vec![cue.worker()]).await.unwrap();
        tokio::time::sleep(secs(1)).await;
    }
    let job = cue.wait(id).await.unwrap();
    assert_eq!(word(&job), StateWord::Quarantined);
    assert_eq!(job.life.crashes, 2);
}

#[test]
fn handlers_that_block_the_runtime_do_not_stop_lease_renewal() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (tell, told) = std::sync::mpsc::channel();
    // The only thread of the runtime is taken for four times the lease.
    let task = Task::new("t").unwrap().handler(move |_| {
        tell.send(()).unwrap();
        async {
            std::thread::sleep(millis(1_600));
            Ok(())
        }
    });
    let builder =
        Cue::builder_on(Arc::clone(&store)).task(task).lease(millis(400)).heartbeat(millis(100));
    let cue = runtime.block_on(builder.build()).unwrap();
    let id = runtime.block_on(async {
        cue.start();
        cue.submit(NewJob::of("t")).await.unwrap()
    });
    told.recv().unwrap();
    let clock = SystemClock::default();
    let other = tokio::runtime::Builder::new_current_thread().build().unwrap();
    for _ in 0..14 {
        std::thread::sleep(millis(100));
        let reaped = other.block_on(store.reap(clock.now(), vec![])).unwrap();
        assert!(reaped.requeued.is_empty(), "the lease lapsed");
    }
    let job = runtime.block_on(cue.wait(id)).unwrap();
    assert_eq!((word(&job), job.life.attempt), (StateWord::Completed, 1));
}

#[tokio::test(start_paused = true)]
async fn a_new_cue_takes_back_what_a_lapsed_lease_left_behind() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let clock = runcue_engine::VirtualClock::default();
    let build = || Cue::builder_on(Arc::clone(&store)).clock(clock).task(slow("t", secs(1)));
    let id = {
        let first = build().build().await.unwrap();
        let id = first.submit(NewJob::of("t")).await.unwrap();
        let request = ClaimRequest::new(WorkerId::from_u128(9), 1);
        first.store().claim(clock.now(), request).await.unwrap();
        id
    };
    tokio::time::sleep(secs(31)).await;
    let second = build().build().await.unwrap();
    assert_eq!(word(&second.get(id).await.unwrap()), StateWord::Queued, "taken back when built");
    second.start();
    assert_eq!(word(&second.wait(id).await.unwrap()), StateWord::Completed);
}
