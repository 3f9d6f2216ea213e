//! Delayed jobs: never early, and the caller is told when to come back.

use std::time::Duration;

use runcue_core::{JobSpec, State, Wait};

use crate::Maker;
use crate::scene::*;

/// Never a microsecond early.
pub async fn run_at_is_never_early(maker: impl Maker) {
    let mut s = Scene::new(&maker).await;
    s.submit([
        JobSpec { run_at: Some(at(10)), ..job(1) },
        JobSpec { run_at: Some(at(5)), ..job(2) },
    ])
    .await;
    assert_eq!(s.job(1).await.life.state, State::Queued(Wait::Until(at(10))));
    let claimed = s.store.claim(s.now, s.request(9)).await.unwrap();
    assert!(claimed.jobs.is_empty());
    assert_eq!(claimed.wake, Some(at(5)));
    s.wait(5);
    assert_eq!(s.claim_ids(9).await, [2]);
    s.wait_for(Duration::from_micros(4_999_999));
    s.assert_nothing_ready().await;
    s.wait_for(Duration::from_micros(1));
    assert_eq!(s.claim_ids(9).await, [1]);
}

/// An instant that is past is now.
pub async fn a_run_at_in_the_past_is_now(maker: impl Maker) {
    let mut s = Scene::new(&maker).await;
    s.wait(100);
    s.submit([JobSpec { run_at: Some(at(5)), ..job(1) }]).await;
    s.take_job(1).await;
}

/// A job whose time has come takes its place by age, not by when it became ready.
pub async fn a_job_whose_time_has_come_is_as_old_as_it_is(maker: impl Maker) {
    let mut s = Scene::new(&maker).await;
    s.submit([JobSpec { run_at: Some(at(5)), ..job(1) }, job(2), job(3)]).await;
    s.wait(5);
    assert_eq!(s.claim_ids(9).await, [1, 2, 3]);
}

/// Many due at once are all promoted.
pub async fn thousands_of_due_jobs_come_at_once(maker: impl Maker) {
    let mut s = Scene::new(&maker).await;
    s.submit((1..=3_000).map(|n| JobSpec { run_at: Some(at(5)), ..job(n) })).await;
    assert_eq!(s.store.stats(s.now).await.unwrap().delayed, 3_000);
    s.wait(5);
    assert_eq!(s.claim(3_000).await.len(), 3_000);
    assert_eq!(s.store.stats(s.now).await.unwrap().delayed, 0);
}

/// Before the instant that a claim names, nothing comes by itself; at it, something does.
pub async fn the_wake_hint_is_never_too_late(maker: impl Maker) {
    let mut s = Scene::new(&maker).await;
    s.services([rated("api", 1, 7)]).await;
    s.submit((1..=3).map(|n| job_using(n, &["api"]))).await;
    s.submit([JobSpec { run_at: Some(at(11)), ..job(10) }]).await;
    let mut found = Vec::new();
    while found.len() < 4 {
        let claimed = s.store.claim(s.now, s.request(9)).await.unwrap();
        found.extend(claimed.jobs.iter().map(|(job, _)| (job.id().as_u128(), s.now)));
        if found.len() < 4 {
            let wake = claimed.wake.expect("something comes by itself");
            assert!(wake > s.now, "a hint in the past spins");
            s.now = wake;
        }
    }
    assert_eq!(found, [(1, at(0)), (2, at(7)), (10, at(11)), (3, at(14))]);
}
