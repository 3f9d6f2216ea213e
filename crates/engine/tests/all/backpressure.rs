//! A full queue: its three rules as a submitter meets them, and who is told when it is nearly full.

use runcue_core::{OnFull, StateWord};
use runcue_engine::{Error, NewJob, testing};
use runcue_store::StoreError;

use crate::support::{quick, secs, word};

#[tokio::test(start_paused = true)]
async fn a_full_queue_refuses() {
    let cue = testing::cue().task(quick("t")).max_queued(2, OnFull::Reject).build().await.unwrap();
    cue.submit_all(vec![NewJob::of("t"), NewJob::of("t")]).await.unwrap();
    let refused = cue.submit(NewJob::of("t")).await.unwrap_err();
    assert!(matches!(refused, Error::Store(StoreError::Full { queued: 2, max: 2, .. })));
    assert_eq!(cue.stats().await.unwrap().counts.queued, 2);
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_drops_its_oldest() {
    let cue =
        testing::cue().task(quick("t")).max_queued(2, OnFull::DropOldest).build().await.unwrap();
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(cue.submit(NewJob::of("t")).await.unwrap());
    }
    assert_eq!(word(&cue.get(ids[0]).await.unwrap()), StateWord::Cancelled);
    assert_eq!(cue.stats().await.unwrap().counts.queued, 2);
}

#[tokio::test(start_paused = true)]
async fn a_submitter_waits_for_room() {
    let cue = testing::cue().task(quick("t")).max_queued(2, OnFull::Block).build().await.unwrap();
    cue.submit_all(vec![NewJob::of("t"), NewJob::of("t")]).await.unwrap();
    let waiting = tokio::spawn({
        let cue = cue.clone();
        async move { cue.submit(NewJob::of("t")).await }
    });
    tokio::time::sleep(secs(5)).await;
    assert!(!waiting.is_finished());
    cue.start();
    let id = waiting.await.unwrap().unwrap();
    assert_eq!(word(&cue.wait(id).await.unwrap()), StateWord::Completed);
}

#[tokio::test(start_paused = true)]
async fn a_submitter_waits_no_longer_than_it_wants() {
    let cue = testing::cue().task(quick("t")).max_queued(1, OnFull::Block).build().await.unwrap();
    cue.submit(NewJob::of("t")).await.unwrap();
    let start = cue.clock().now();
    let late = cue.submit_within(vec![NewJob::of("t")], secs(3)).await.unwrap_err();
    assert!(matches!(late, Error::NoRoom(_)));
    assert_eq!(cue.clock().now().since(start), secs(3));
    let never = cue.submit_all(vec![NewJob::of("t"), NewJob::of("t")]).await.unwrap_err();
    assert!(matches!(never, Error::Store(StoreError::Full { .. })), "more than the whole queue");
}

#[tokio::test(start_paused = true)]
async fn the_application_is_told_before_a_queue_is_full() {
    let (tell, told) = std::sync::mpsc::channel();
    let tell = std::sync::Mutex::new(tell);
    let cue = testing::cue()
        .task(quick("t"))
        .max_queued(10, OnFull::Reject)
        .on_backpressure(move |info| tell.lock().unwrap().send(info.clone()).unwrap())
        .build()
        .await
        .unwrap();
    cue.submit_all((0..7).map(|_| NewJob::of("t")).collect()).await.unwrap();
    assert_eq!(cue.metrics().backpressure(), 0);
    for _ in 0..2 {
        tokio::time::sleep(secs(1)).await;
        cue.submit(NewJob::of("t")).await.unwrap();
    }
    let info = tokio::task::spawn_blocking(move || told.recv().unwrap()).await.unwrap();
    assert_eq!((info.queued, info.max), (8, 10));
    assert_eq!(cue.metrics().backpressure(), 1, "once, until it is no longer nearly full");
    let mut events = cue.events_after(0);
    loop {
        if events.next().await.unwrap().kind == runcue_core::EventKind::Backpressure {
            break;
        }
    }
}
