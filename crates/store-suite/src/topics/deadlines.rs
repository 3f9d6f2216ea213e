//! expires_at: a job that is not started in time is withdrawn.

use runcue_core::{JobSpec, StateWord};
use runcue_store::Outcome;

use crate::Maker;
use crate::scene::*;

/// Not started in time: cancelled, and it says why.
pub async fn a_job_that_is_not_started_in_time_is_cancelled(maker: impl Maker) {
    let mut s = Scene::new(&maker).await;
    s.submit([JobSpec { expires_at: Some(at(10)), ..job(1) }, job_after(2, &[1])]).await;
    s.wait(9);
    assert_eq!(s.reap().await.overdue, []);
    assert_eq!(s.reap().await.wake, Some(at(10)));
    s.wait(1);
    assert_eq!(s.reap().await.overdue, [id(1)]);
    let life = s.job(1).await.life;
    assert_eq!(life.state.word(), StateWord::Cancelled);
    assert!(life.last_error.unwrap().contains("expired"));
    assert_eq!(s.state(2).await, StateWord::Failed);
    s.assert_nothing_ready().await;
}

/// Whatever it waited for.
pub async fn a_delayed_or_blocked_job_expires_too(maker: impl Maker) {
    let mut s = Scene::new(&maker).await;
    s.submit([job(1), JobSpec { expires_at: Some(at(10)), ..job_after(2, &[1]) }]).await;
    s.submit([JobSpec { expires_at: Some(at(10)), run_at: Some(at(50)), ..job(3) }]).await;
    s.wait(10);
    let mut overdue = s.reap().await.overdue;
    overdue.sort();
    assert_eq!(overdue, [id(2), id(3)]);
}

/// Once started it may run and be tried again.
pub async fn a_started_job_does_not_expire(maker: impl Maker) {
    let mut s = Scene::new(&maker).await;
    s.submit([JobSpec { expires_at: Some(at(10)), ..job(1) }]).await;
    let lease = s.take_job(1).await;
    s.wait(15);
    assert_eq!(s.reap().await.overdue, []);
    s.fail(&lease).await;
    s.wait(15);
    assert_eq!(s.reap().await.overdue, []);
    s.run_job(1).await;
}

/// A job that was handed back was not started.
pub async fn a_job_that_was_handed_back_expires(maker: impl Maker) {
    let mut s = Scene::new(&maker).await;
    s.submit([JobSpec { expires_at: Some(at(10)), ..job(1) }]).await;
    let lease = s.take_job(1).await;
    s.finish(&lease, Outcome::HandBack).await;
    s.wait(10);
    assert_eq!(s.reap().await.overdue, [id(1)]);
}

/// An overdue job is not handed out, even if nobody reaped it yet.
pub async fn an_overdue_job_is_not_handed_out(maker: impl Maker) {
    let mut s = Scene::new(&maker).await;
    s.submit([JobSpec { expires_at: Some(at(10)), ..job(1) }, job(2)]).await;
    s.wait(11);
    assert_eq!(s.claim_ids(9).await, [2]);
}
