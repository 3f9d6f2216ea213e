//! The circuit breaker of a service.

use runcue_core::breaker::Breaker;
use runcue_core::{ErrorKind, EventKind, JobSpec, ServiceSpec};
use runcue_store::Outcome;

use crate::Maker;
use crate::scene::*;

fn fragile(name: &str) -> ServiceSpec {
    ServiceSpec { circuit_threshold: Some(3), circuit_timeout: secs(30), ..unlimited(name) }
}

fn hopeful(n: u128) -> JobSpec {
    JobSpec { retry: attempts(50), ..job_using(n, &["api"]) }
}

/// Three failures in a row open it.
async fn open(s: &Scene) {
    s.services([fragile("api")]).await;
    s.submit((1..=3).map(|n| JobSpec { retry: attempts(1), ..hopeful(n) })).await;
    for lease in s.claim(3).await {
        s.fail(&lease).await;
    }
    assert_eq!(s.service("api").await.breaker, Breaker::Open { until: at(30) });
}

/// Failures in a row open it; a success in between starts the count again.
pub async fn consecutive_failures_open_it(maker: impl Maker) {
    let s = Scene::new(&maker).await;
    s.services([fragile("api")]).await;
    s.submit((1..=9).map(hopeful)).await;
    let leases = s.claim(7).await;
    for (n, lease) in leases.iter().enumerate().take(6) {
        let outcome = if n == 2 { done() } else { failed(ErrorKind::Transient) };
        s.finish(lease, outcome).await;
        let opened = matches!(s.service("api").await.breaker, Breaker::Open { .. });
        assert_eq!(opened, n == 5, "after attempt {n}");
    }
    s.assert_nothing_ready().await;
    let events = s.store.events(0, 1_000).await.unwrap();
    let told = events
        .iter()
        .filter(|event| event.kind == EventKind::ServiceStatus && event.retry_at == Some(at(30)));
    assert_eq!(told.count(), 1);
}

/// Errors that are the job's own fault, hand-backs and crashes say nothing about the service.
pub async fn what_says_nothing_of_the_service_does_not_open_it(maker: impl Maker) {
    let mut s = Scene::new(&maker).await;
    s.services([fragile("api")]).await;
    s.submit((1..=12).map(|n| JobSpec { retry: attempts(1), ..hopeful(n) })).await;
    for lease in s.claim(4).await {
        s.finish(&lease, failed(ErrorKind::Permanent)).await;
    }
    for lease in s.claim(4).await {
        s.finish(&lease, Outcome::HandBack).await;
    }
    s.claim(4).await;
    s.wait(31);
    assert_eq!(s.reap().await.quarantined.len(), 4);
    assert_eq!(s.service("api").await.breaker, Breaker::Closed { failures: 0 });
}

/// When its time is up one job goes, the best that waits, whatever its group.
pub async fn the_best_waiting_job_is_the_probe(maker: impl Maker) {
    let mut s = Scene::new(&maker).await;
    open(&s).await;
    s.submit([JobSpec { group: Some(group("a")), ..hopeful(4) }]).await;
    s.submit([JobSpec { group: Some(group("b")), priority: 5, ..hopeful(5) }]).await;
    s.submit([JobSpec { group: Some(group("paused")), priority: 9, ..hopeful(6) }]).await;
    s.store.set_group_paused(s.now, group("paused"), true).await.unwrap();
    s.wait(29);
    let claimed = s.store.claim(s.now, s.request(9)).await.unwrap();
    assert!(claimed.jobs.is_empty());
    assert_eq!(claimed.wake, Some(at(30)));
    s.wait(1);
    assert_eq!(s.claim_ids(9).await, [5]);
    assert_eq!(s.service("api").await.breaker, Breaker::HalfOpen { probe: id(5) });
    s.assert_nothing_ready().await;
}

/// A good probe closes it.
pub async fn a_good_probe_closes_it(maker: impl Maker) {
    let mut s = Scene::new(&maker).await;
    open(&s).await;
    s.submit([hopeful(4), hopeful(5), hopeful(6)]).await;
    s.wait(30);
    let lease = s.take_job(4).await;
    s.assert_nothing_ready().await;
    s.done(&lease).await;
    assert_eq!(s.claim_ids(9).await, [5, 6]);
}

/// A bad probe opens it for another round.
pub async fn a_bad_probe_opens_it_again(maker: impl Maker) {
    let mut s = Scene::new(&maker).await;
    open(&s).await;
    s.submit([hopeful(4), hopeful(5)]).await;
    s.wait(30);
    let lease = s.take_job(4).await;
    s.fail(&lease).await;
    s.wait(29);
    s.assert_nothing_ready().await;
    s.wait(1);
    assert_eq!(s.claim_ids(9).await.len(), 1);
}

/// A probe that says nothing makes way for the next at once.
pub async fn a_probe_without_a_verdict_makes_way(maker: impl Maker) {
    let mut s = Scene::new(&maker).await;
    open(&s).await;
    s.submit([hopeful(4), hopeful(5)]).await;
    s.wait(30);
    let lease = s.take_job(4).await;
    s.finish(&lease, failed(ErrorKind::Permanent)).await;
    s.take_job(5).await;
    s.wait(31);
    assert_eq!(s.reap().await.requeued, [id(5)]);
    assert_eq!(s.take_job(5).await.attempt, 2);
}

/// A probe that is withdrawn before it says anything makes way too.
pub async fn a_stopped_probe_makes_way(maker: impl Maker) {
    let mut s = Scene::new(&maker).await;
    open(&s).await;
    s.submit([hopeful(4), hopeful(5)]).await;
    s.wait(30);
    let lease = s.take_job(4).await;
    s.cancel(&[4], false).await;
    s.finish(&lease, Outcome::Stopped).await;
    s.take_job(5).await;
}

/// Only the service at fault is blamed.
pub async fn a_failure_may_blame_one_service(maker: impl Maker) {
    let s = Scene::new(&maker).await;
    s.services([fragile("api"), fragile("db")]).await;
    s.submit((1..=3).map(|n| JobSpec { retry: attempts(9), ..job_using(n, &["api", "db"]) })).await;
    for lease in s.claim(3).await {
        let (error, kind) = ("db is down".to_owned(), ErrorKind::Transient);
        let outcome = Outcome::Failed { error, kind, code: None, service: Some(service("db")) };
        s.finish(&lease, outcome).await;
    }
    assert_eq!(s.service("api").await.breaker, Breaker::Closed { failures: 0 });
    assert!(matches!(s.service("db").await.breaker, Breaker::Open { .. }));
}

/// Its state survives a restart: closed with failures, open, and half open.
pub async fn it_survives_a_restart(maker: impl Maker) {
    let mut s = Scene::new(&maker).await;
    s.services([fragile("api")]).await;
    s.submit((1..=3).map(|n| JobSpec { retry: attempts(1), ..hopeful(n) })).await;
    let leases = s.claim(3).await;
    s.fail(&leases[0]).await;
    s.fail(&leases[1]).await;
    s = s.reopened(&maker).await;
    assert_eq!(s.service("api").await.breaker, Breaker::Closed { failures: 2 });
    s.fail(&leases[2]).await;
    s = s.reopened(&maker).await;
    assert_eq!(s.service("api").await.breaker, Breaker::Open { until: at(30) });
    s.submit([hopeful(4), hopeful(5)]).await;
    s.wait(30);
    let lease = s.take_job(4).await;
    s = s.reopened(&maker).await;
    assert_eq!(s.service("api").await.breaker, Breaker::HalfOpen { probe: id(4) });
    s.assert_nothing_ready().await;
    s.done(&lease).await;
    s.take_job(5).await;
}
