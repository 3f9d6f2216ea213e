//! Events: numbered without gaps, resumable, and the right story for every life.

use runcue_core::{ErrorKind, EventKind, JobSpec, StateWord};
use runcue_store::Outcome;

use crate::Maker;
use crate::scene::*;

/// One after the other, from one.
pub async fn numbers_have_no_gaps(maker: impl Maker) {
    let mut s = Scene::new(&maker).await;
    s.services([slots("api", 3)]).await;
    s.submit((1..=20).map(|n| job_using(n, &["api"]))).await;
    let _ = s.try_submit(vec![job(30), job_after(31, &[99])]).await;
    for _ in 0..10 {
        for lease in s.claim(3).await {
            let outcome = if s.now > at(4) { done() } else { failed(ErrorKind::Transient) };
            s.finish(&lease, outcome).await;
        }
        s.wait(1);
    }
    let events = s.store.events(0, 10_000).await.unwrap();
    let numbers: Vec<u64> = events.iter().map(|event| event.seq).collect();
    assert_eq!(numbers, (1..=s.store.last_event().await.unwrap()).collect::<Vec<_>>());
    assert!(numbers.len() > 40);
}

/// A reader that comes back page by page misses nothing and sees nothing twice.
pub async fn a_reader_resumes_where_it_stopped(maker: impl Maker) {
    let s = Scene::new(&maker).await;
    s.submit((1..=50).map(job)).await;
    s.drain_one_by_one(50).await;
    let all = s.store.events(0, 10_000).await.unwrap();
    let mut pages = Vec::new();
    loop {
        let after = pages.last().map_or(0, |event: &runcue_core::Event| event.seq);
        let page = s.store.events(after, 7).await.unwrap();
        assert!(page.len() <= 7);
        if page.is_empty() {
            break;
        }
        pages.extend(page);
    }
    assert_eq!(pages, all);
    assert_eq!(s.store.events(all.len() as u64 + 5, 7).await.unwrap(), []);
}

/// A life with everything in it.
pub async fn a_life_is_told_in_order(maker: impl Maker) {
    use EventKind::*;
    let mut s = Scene::new(&maker).await;
    s.submit([job(1)]).await;
    let lease = s.take_job(1).await;
    s.finish(&lease, Outcome::HandBack).await;
    let mut request = s.request(1);
    request.start = false;
    let (_, lease) = s.claim_as(request).await.pop().unwrap();
    assert_eq!(s.story(1).await, [Queued, Started, Retrying, Leased]);
    s.extend(&lease, 30).await;
    s.fail(&lease).await;
    s.wait(1);
    s.take_job(1).await;
    s.wait(31);
    s.reap().await;
    let lease = s.take_job(1).await;
    s.fail(&lease).await;
    assert_eq!(s.state(1).await, StateWord::Quarantined);
    s.retry(&[1]).await;
    s.run_job(1).await;
    let story = s.story(1).await;
    let expected = [
        Queued, Started, Retrying, Leased, Started, Retrying, Started, Retrying, Started, Failed,
        Queued, Started, Completed,
    ];
    assert_eq!(story, expected);
}

/// What an event says: attempt, worker, error, state, when the next attempt is due.
pub async fn an_event_says_what_happened(maker: impl Maker) {
    let mut s = Scene::new(&maker).await;
    s.submit([JobSpec { retry: attempts(2), group: Some(group("g")), ..job(1) }]).await;
    for _ in 0..2 {
        let lease = s.take_job(1).await;
        s.wait(2);
        s.fail(&lease).await;
        s.wait(2);
    }
    let events = s.store.events(0, 100).await.unwrap();
    let of = |kind| events.iter().find(move |event| event.kind == kind).unwrap();
    let retrying = of(EventKind::Retrying);
    assert_eq!((retrying.attempt, retrying.worker), (Some(1), Some(worker(1))));
    assert_eq!((retrying.error.as_deref(), retrying.retry_at), (Some("boom"), Some(at(3))));
    let failed = of(EventKind::Failed);
    assert_eq!((failed.attempt, failed.state), (Some(2), Some(StateWord::Quarantined)));
    assert_eq!((failed.group.clone(), failed.task.clone()), (Some(group("g")), Some(task("work"))));
    assert_eq!((failed.at, failed.took), (at(6), Some(2_000_000)));
}

/// A refused submission tells nothing.
pub async fn what_did_not_happen_is_not_told(maker: impl Maker) {
    let s = Scene::new(&maker).await;
    s.submit([job(1)]).await;
    let before = s.store.last_event().await.unwrap();
    let _ = s.try_submit(vec![job(2), job_after(3, &[99])]).await;
    s.cancel(&[99], true).await;
    s.retry(&[1]).await;
    s.reap().await;
    assert_eq!(s.store.last_event().await.unwrap(), before);
    let _ = s.take_job(1).await;
    assert_eq!(s.store.last_event().await.unwrap(), before + 1);
}
