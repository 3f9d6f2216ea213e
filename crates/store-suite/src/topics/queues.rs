//! Queues: caps, what happens when full, pauses, and the warning before.

use runcue_core::{EventKind, JobSpec, OnFull, QueueSpec, StateWord};
use runcue_store::{StoreError, Submitted};

use crate::Maker;
use crate::scene::*;

async fn capped(s: &Scene, max: u64, on_full: OnFull) {
    let spec = QueueSpec { name: queue("q"), max_queued: Some(max), on_full, paused: false };
    s.store.upsert_queues(s.now, vec![spec]).await.unwrap();
}

fn queued(n: u128) -> JobSpec {
    JobSpec { queue: queue("q"), ..job(n) }
}

/// A full queue refuses, whole batches, with its depth.
pub async fn a_full_queue_refuses(maker: impl Maker) {
    let s = Scene::new(&maker).await;
    capped(&s, 3, OnFull::Reject).await;
    s.submit([queued(1), queued(2)]).await;
    let error = s.try_submit(vec![queued(3), queued(4), job(5)]).await.unwrap_err();
    assert!(matches!(error, StoreError::Full { queued: 2, max: 3, block: false, .. }), "{error}");
    assert!(error.is_transient());
    assert_eq!(s.store.get(vec![id(3), id(5)]).await.unwrap(), [None, None]);
    s.submit([queued(3), job(5)]).await;
    let lease = s.take().await;
    s.submit([queued(6)]).await;
    s.done(&lease).await;
    assert!(s.try_submit(vec![queued(7)]).await.is_err(), "running jobs do not wait");
}

/// Jobs that are there already need no room.
pub async fn a_repeated_submission_needs_no_room(maker: impl Maker) {
    let s = Scene::new(&maker).await;
    capped(&s, 2, OnFull::Reject).await;
    s.submit([queued(1), queued(2)]).await;
    let again = s.try_submit(vec![queued(1), queued(2)]).await.unwrap();
    assert_eq!(again, [Submitted::Existing(id(1)), Submitted::Existing(id(2))]);
}

/// The rule block is told apart, so that the submitter waits.
pub async fn a_blocking_queue_says_so(maker: impl Maker) {
    let s = Scene::new(&maker).await;
    capped(&s, 1, OnFull::Block).await;
    s.submit([queued(1)]).await;
    let error = s.try_submit(vec![queued(2)]).await.unwrap_err();
    assert!(matches!(error, StoreError::Full { block: true, .. }), "{error}");
}

/// The oldest make room, running ones stay.
pub async fn the_oldest_are_dropped(maker: impl Maker) {
    let s = Scene::new(&maker).await;
    capped(&s, 3, OnFull::DropOldest).await;
    s.submit([queued(1)]).await;
    s.take_job(1).await;
    s.submit([JobSpec { priority: 9, ..queued(2) }, queued(3), queued(4)]).await;
    s.submit([queued(5), queued(6)]).await;
    assert_eq!(s.states(&[2, 3]).await, [StateWord::Cancelled; 2]);
    assert_eq!(s.state(1).await, StateWord::Running);
    assert_eq!(s.claim_ids(9).await, [4, 5, 6]);
    s.check().await;
}

/// The cap can be changed and lifted.
pub async fn a_cap_can_be_changed(maker: impl Maker) {
    let s = Scene::new(&maker).await;
    capped(&s, 1, OnFull::Reject).await;
    s.submit([queued(1)]).await;
    capped(&s, 2, OnFull::Reject).await;
    s.submit([queued(2)]).await;
    let spec = QueueSpec { name: queue("q"), ..QueueSpec::default() };
    s.store.upsert_queues(s.now, vec![spec]).await.unwrap();
    s.submit((3..=50).map(queued)).await;
}

/// A paused queue hands nothing out and still takes jobs.
pub async fn a_paused_queue_hands_nothing_out(maker: impl Maker) {
    let s = Scene::new(&maker).await;
    s.submit([queued(1), job(2)]).await;
    let lease = s.take_job(1).await;
    let paused = |paused| vec![QueueSpec { name: queue("q"), paused, ..QueueSpec::default() }];
    s.store.upsert_queues(s.now, paused(true)).await.unwrap();
    s.submit([queued(3)]).await;
    assert_eq!(s.claim_ids(9).await, [2]);
    s.done(&lease).await;
    s.store.upsert_queues(s.now, paused(false)).await.unwrap();
    assert_eq!(s.claim_ids(9).await, [3]);
}

/// One warning when a queue gets nearly full, and another only after it was not.
pub async fn a_nearly_full_queue_is_told_about_once(maker: impl Maker) {
    let s = Scene::new(&maker).await;
    capped(&s, 10, OnFull::Reject).await;
    let warnings = async || {
        let events = s.store.events(0, 1_000).await.unwrap();
        let told = |e: &&runcue_core::Event| {
            e.kind == EventKind::Backpressure && e.queue == Some(queue("q"))
        };
        events.iter().filter(told).count()
    };
    s.submit((1..=5).map(queued)).await;
    assert_eq!(warnings().await, 0);
    s.submit((6..=9).map(queued)).await;
    assert_eq!(warnings().await, 1);
    s.submit([queued(10)]).await;
    assert_eq!(warnings().await, 1);
    s.claim(6).await;
    s.submit((11..=15).map(queued)).await;
    assert_eq!(warnings().await, 2);
}

/// Every queue that was used or defined is listed with its depth.
pub async fn queues_are_listed_with_their_depth(maker: impl Maker) {
    let s = Scene::new(&maker).await;
    capped(&s, 10, OnFull::Block).await;
    s.submit([queued(1), queued(2), job(3)]).await;
    s.take_job(1).await;
    let infos = s.store.queues().await.unwrap();
    let q = infos.iter().find(|info| info.name == queue("q")).unwrap();
    assert_eq!((q.queued, q.max_queued, q.on_full), (1, Some(10), OnFull::Block));
    assert_eq!(infos.iter().find(|info| info.name == queue("default")).unwrap().queued, 1);
}
