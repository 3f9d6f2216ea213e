//! Clocks that jump: no limit is exceeded in the order things really happened, and nothing is stuck.

use runcue_core::{JobSpec, ServiceSpec};

use crate::Maker;
use crate::scene::*;

/// Set back a little: what was used still counts.
pub async fn a_small_step_back_gives_no_room(maker: impl Maker) {
    let mut s = Scene::new(&maker).await;
    s.services([rated("api", 2, 10)]).await;
    s.submit((1..=6).map(|n| job_using(n, &["api"]))).await;
    assert_eq!(s.claim(9).await.len(), 2);
    s.set_back(5);
    s.assert_nothing_ready().await;
    s.wait(14);
    s.assert_nothing_ready().await;
    s.wait(1);
    assert_eq!(s.claim(9).await.len(), 2);
}

/// Set back by an hour: blocked for one window at most.
pub async fn a_large_step_back_blocks_for_one_window_at_most(maker: impl Maker) {
    let mut s = Scene::new(&maker).await;
    s.services([rated("api", 1, 10)]).await;
    s.submit((1..=3).map(|n| job_using(n, &["api"]))).await;
    s.run_job(1).await;
    s.set_back(3600);
    s.assert_nothing_ready().await;
    s.wait(10);
    s.take_job(2).await;
}

/// The same for the windows of a key.
pub async fn a_key_is_not_stuck_after_the_clock_was_set_back(maker: impl Maker) {
    let mut s = Scene::new(&maker).await;
    let limits = per_key(None, vec![rate(1, 10)]);
    s.services([ServiceSpec { per_key: limits, ..unlimited("api") }]).await;
    s.submit((1..=3).map(|n| JobSpec { key: Some(key("x")), ..job_using(n, &["api"]) })).await;
    s.run_job(1).await;
    s.assert_nothing_ready().await;
    s.set_back(3600);
    s.assert_nothing_ready().await;
    s.wait(11);
    s.take_job(2).await;
}

/// A hold from a clock that ran ahead does not last for ever.
pub async fn a_hold_is_not_stuck_after_the_clock_was_set_back(maker: impl Maker) {
    let mut s = Scene::new(&maker).await;
    s.services([unlimited("api")]).await;
    s.submit([job_using(1, &["api"])]).await;
    s.wait(365 * 24 * 3600);
    let lease = s.take_job(1).await;
    let outcome = runcue_store::Outcome::RateLimited { retry_after: secs(20), service: None };
    s.finish(&lease, outcome).await;
    s.set_back(365 * 24 * 3600);
    s.assert_nothing_ready().await;
    s.wait(24 * 3600 + 20);
    s.take_job(1).await;
}

/// A jump forward lapses leases and lets everything due come; nothing is handed out twice.
pub async fn a_jump_forward_hands_nothing_out_twice(maker: impl Maker) {
    let mut s = Scene::new(&maker).await;
    s.submit([job(1), JobSpec { run_at: Some(at(100)), ..job(2) }]).await;
    let old = s.take_job(1).await;
    s.wait(1_000_000);
    assert_eq!(s.claim_ids(9).await, [2], "a lapsed lease comes back through the reaper only");
    assert_eq!(s.reap().await.requeued, [id(1)]);
    let new = s.take_job(1).await;
    assert!(new.token > old.token);
    s.set_back(1_000_000);
    assert_eq!(s.reap().await.requeued, []);
    s.done(&new).await;
}

/// Time that stands still stops nothing that needs no time.
pub async fn work_goes_on_while_the_clock_stands_still(maker: impl Maker) {
    let s = Scene::new(&maker).await;
    s.submit((1..=30).map(|n| job_of(n, ["a", "b"][usize::try_from(n).unwrap() % 2]))).await;
    assert_eq!(s.drain_one_by_one(99).await.len(), 30);
}
