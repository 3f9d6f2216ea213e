//! Stopping: running work is waited for, the rest is handed back, nothing is lost.

use std::sync::Arc;

use runcue_core::StateWord;
use runcue_engine::{Cue, NewJob, SystemClock, Task, testing};
use runcue_store::{MemoryStore, Store};

use crate::support::{endless, millis, quick, secs, slow, until_running, word};

#[tokio::test(start_paused = true)]
async fn a_stop_waits_for_running_jobs_and_takes_no_more() {
    let cue = testing::cue().task(slow("t", secs(10))).slots(1).build().await.unwrap();
    cue.start();
    let running = cue.submit(NewJob::of("t")).await.unwrap();
    let queued = cue.submit(NewJob::of("t")).await.unwrap();
    until_running(&cue, running).await;
    cue.stop().await.unwrap();
    assert_eq!(word(&cue.get(running).await.unwrap()), StateWord::Completed);
    assert_eq!(word(&cue.get(queued).await.unwrap()), StateWord::Queued);
    assert!(cue.store().workers().await.unwrap().is_empty(), "the worker said goodbye");
}

#[tokio::test(start_paused = true)]
async fn what_does_not_end_in_time_is_handed_back_unused() {
    let cue = testing::cue().task(endless("t")).stop_grace(secs(30)).build().await.unwrap();
    cue.start();
    let id = cue.submit(NewJob::of("t")).await.unwrap();
    until_running(&cue, id).await;
    let start = cue.clock().now();
    cue.stop().await.unwrap();
    let took = cue.clock().now().since(start);
    assert!(took >= secs(30) && took < secs(33), "{took:?}");
    let job = cue.get(id).await.unwrap();
    assert_eq!(word(&job), StateWord::Queued);
    assert_eq!((job.life.attempt, job.life.crashes), (0, 0), "no attempt was used up");
}

#[tokio::test]
async fn a_handler_that_blocks_its_thread_does_not_hold_up_a_stop() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let (release, blocked) = std::sync::mpsc::channel::<()>();
    let blocked = Arc::new(std::sync::Mutex::new(blocked));
    let task = Task::new("t").unwrap().handler(move |_| {
        let blocked = Arc::clone(&blocked);
        async move {
            // A thread that cannot be stopped, as a call into foreign code is.
            let stuck = move || blocked.lock().unwrap().recv().is_err();
            Ok(tokio::task::spawn_blocking(stuck).await?)
        }
    });
    let cue = Cue::builder_on(Arc::clone(&store))
        .clock(SystemClock::default())
        .task(task)
        .stop_grace(millis(50))
        .build()
        .await
        .unwrap();
    cue.start();
    let id = cue.submit(NewJob::of("t")).await.unwrap();
    until_running(&cue, id).await;
    let start = std::time::Instant::now();
    cue.stop().await.unwrap();
    assert!(start.elapsed() < secs(5));
    assert_eq!(word(&cue.get(id).await.unwrap()), StateWord::Queued);
    drop(release);
}

#[tokio::test(start_paused = true)]
async fn a_stopped_cue_can_be_asked_but_not_waited_on() {
    let cue = testing::cue().task(quick("t")).build().await.unwrap();
    let id = cue.submit(NewJob::of("t")).await.unwrap();
    cue.run_inline().await.unwrap();
    let left = cue.submit(NewJob::of("t")).await.unwrap();
    cue.stop().await.unwrap();
    cue.stop().await.unwrap();
    assert_eq!(word(&cue.wait(id).await.unwrap()), StateWord::Completed);
    assert!(cue.wait(left).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn dropping_the_last_handle_ends_the_background_work() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let cue = Cue::builder_on(Arc::clone(&store))
        .clock(runcue_engine::VirtualClock::default())
        .task(quick("t"))
        .build()
        .await
        .unwrap();
    cue.start();
    let id = cue.submit(NewJob::of("t")).await.unwrap();
    cue.wait(id).await.unwrap();
    drop(cue);
    tokio::time::sleep(secs(60)).await;
    assert_eq!(Arc::strong_count(&store), 1, "nobody else holds the store");
}
