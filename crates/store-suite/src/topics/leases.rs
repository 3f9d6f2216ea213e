//! Leases: heartbeats, lapse, poison, hand-back, timeout.

use std::time::Duration;

use runcue_core::{ErrorKind, JobSpec, RetryPolicy, StateWord};
use runcue_store::{ClaimRequest, Extended, Outcome};

use crate::Maker;
use crate::scene::*;

/// A lapsed lease returns the job; a kept one does not.
pub async fn a_lapsed_lease_returns_the_job(maker: impl Maker) {
    let mut s = Scene::new(&maker).await;
    s.submit([job(1), job(2)]).await;
    let leases = s.claim(2).await;
    s.wait(20);
    assert_eq!(s.extend(&leases[1], 30).await, Extended::Held { until: at(50), cancel: false });
    s.wait_for(Duration::from_micros(9_999_999));
    assert_eq!(s.reap().await.requeued, []);
    s.wait_for(Duration::from_micros(1));
    let reaped = s.reap().await;
    assert_eq!((reaped.requeued, reaped.quarantined), (vec![id(1)], vec![]));
    let life = s.job(1).await.life;
    assert_eq!((life.state.word(), life.attempt, life.crashes), (StateWord::Queued, 1, 1));
    assert_eq!(life.failures[0].kind, ErrorKind::Crash);
    assert_eq!(s.take_job(1).await.attempt, 2);
    s.done(&leases[1]).await;
}

/// The reaper says when to come back.
pub async fn the_reaper_knows_when_the_next_lease_lapses(maker: impl Maker) {
    let mut s = Scene::new(&maker).await;
    s.submit([job(1), job(2)]).await;
    s.claim_as(ClaimRequest { lease: secs(50), ..s.request(1) }).await;
    s.claim_as(ClaimRequest { lease: secs(40), ..s.request(1) }).await;
    assert_eq!(s.reap().await.wake, Some(at(40)));
    s.wait(40);
    assert_eq!(s.reap().await.wake, Some(at(50)));
}

/// A job whose worker is known to be gone comes back at once; others stay.
pub async fn jobs_of_a_worker_that_is_gone_come_back_at_once(maker: impl Maker) {
    let mut s = Scene::new(&maker).await;
    s.submit([job(1), job(2)]).await;
    s.take_job(1).await;
    s.worker = worker(2);
    let kept = s.take_job(2).await;
    let reaped = s.store.reap(s.now, vec![worker(1)]).await.unwrap();
    assert_eq!(reaped.requeued, [id(1)]);
    assert_eq!(s.job(1).await.life.crashes, 1);
    s.done(&kept).await;
}

/// A job that kills worker after worker is set aside, before its attempts are used up.
pub async fn a_poison_job_is_quarantined_by_its_crashes(maker: impl Maker) {
    let mut s = Scene::new(&maker).await;
    let retry = RetryPolicy { max_attempts: 100, max_crashes: 3, ..attempts(100) };
    s.submit([JobSpec { retry, ..job(1) }]).await;
    for n in 1..=3 {
        s.take_job(1).await;
        s.wait(31);
        let reaped = s.reap().await;
        assert_eq!(reaped.quarantined.is_empty(), n < 3, "crash {n}");
    }
    assert_eq!(s.state(1).await, StateWord::Quarantined);
    s.assert_nothing_ready().await;
}

/// A crash uses up an attempt.
pub async fn a_crash_on_the_last_attempt_quarantines(maker: impl Maker) {
    let mut s = Scene::new(&maker).await;
    s.submit([JobSpec { retry: attempts(1), ..job(1) }]).await;
    let mut request = s.request(1);
    request.start = false;
    s.claim_as(request).await;
    s.wait(31);
    assert_eq!(s.reap().await.quarantined, [id(1)]);
}

/// A hand-back uses up no attempt, however often.
pub async fn a_hand_back_does_not_count(maker: impl Maker) {
    let s = Scene::new(&maker).await;
    s.submit([JobSpec { retry: attempts(1), ..job(1) }]).await;
    for _ in 0..5 {
        let lease = s.take_job(1).await;
        assert_eq!(lease.attempt, 1);
        assert_eq!(s.finish(&lease, Outcome::HandBack).await, ended(StateWord::Queued));
        let life = s.job(1).await.life;
        assert_eq!((life.attempt, life.crashes, life.failures.len()), (0, 0, 0));
    }
    s.run_job(1).await;
}

/// The first heartbeat says that the job has begun.
pub async fn the_first_heartbeat_begins_the_job(maker: impl Maker) {
    let mut s = Scene::new(&maker).await;
    s.submit([job(1)]).await;
    let mut request = s.request(1);
    request.start = false;
    let (_, lease) = s.claim_as(request).await.pop().unwrap();
    s.wait(3);
    s.extend(&lease, 30).await;
    let life = s.job(1).await.life;
    assert_eq!((life.state.word(), life.started_at), (StateWord::Running, Some(at(3))));
}

/// A worker that keeps extending a job which does not stop loses it as a timeout.
pub async fn a_lease_cannot_outlive_the_timeout(maker: impl Maker) {
    let mut s = Scene::new(&maker).await;
    let retry = RetryPolicy { max_crashes: 1, ..attempts(2) };
    s.submit([JobSpec { timeout: Some(secs(60)), retry, ..job(1) }]).await;
    let lease = s.take_job(1).await;
    for _ in 0..8 {
        s.wait(10);
        s.extend(&lease, 30).await;
    }
    assert_eq!(s.extend(&lease, 30).await, Extended::Held { until: at(90), cancel: false });
    s.wait(10);
    assert_eq!(s.reap().await.requeued, [id(1)]);
    let life = s.job(1).await.life;
    assert_eq!((life.crashes, life.failures[0].kind), (0, ErrorKind::Timeout));
    assert_eq!(s.extend(&lease, 30).await, Extended::Lost);
}

/// One answer per heartbeat of a batch.
pub async fn heartbeats_are_answered_one_by_one(maker: impl Maker) {
    let s = Scene::new(&maker).await;
    s.submit((1..=3).map(job)).await;
    let leases = s.claim(3).await;
    s.done(&leases[1]).await;
    s.cancel(&[3], false).await;
    let beat = |lease: &runcue_core::Lease| runcue_store::Extend {
        lease: lease.clone(),
        lease_for: secs(60),
        progress: None,
    };
    let answers = s.store.extend(s.now, leases.iter().map(beat).collect()).await.unwrap();
    let held = |cancel| Extended::Held { until: at(60), cancel };
    assert_eq!(answers, [held(false), Extended::Lost, held(true)]);
}

/// Services of a lapsed job are free again.
pub async fn a_lapse_frees_the_services(maker: impl Maker) {
    let mut s = Scene::new(&maker).await;
    s.services([slots("api", 1)]).await;
    s.submit([job_using(1, &["api"]), JobSpec { priority: 1, ..job(2) }]).await;
    s.claim(2).await;
    s.wait(31);
    s.reap().await;
    assert_eq!(s.service("api").await.in_use, 0);
    assert_eq!(s.claim_ids(9).await, [2, 1]);
}
