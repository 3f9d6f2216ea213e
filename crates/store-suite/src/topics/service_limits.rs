//! Limits that change while running, holds, pauses; and what a second process sees of them.

use std::time::Duration;

use runcue_core::{EventKind, JobSpec, ServiceSpec, StateWord};
use runcue_store::Outcome;

use super::services::assert_within;
use crate::Maker;
use crate::scene::*;

/// Raised limits let more through at once, lowered ones let what runs finish.
pub async fn slots_change_while_running(maker: impl Maker) {
    let s = Scene::new(&maker).await;
    s.services([slots("api", 1)]).await;
    s.submit((1..=6).map(|n| job_using(n, &["api"]))).await;
    let first = s.claim(9).await;
    s.services([slots("api", 3)]).await;
    let more = s.claim(9).await;
    assert_eq!((first.len(), more.len()), (1, 2));
    s.services([slots("api", 2)]).await;
    s.assert_nothing_ready().await;
    s.done(&first[0]).await;
    s.assert_nothing_ready().await;
    s.done(&more[0]).await;
    assert_eq!(s.claim_ids(9).await, [4]);
}

/// A lowered rate counts what was used before.
pub async fn a_lowered_rate_counts_what_was_used_before(maker: impl Maker) {
    let mut s = Scene::new(&maker).await;
    s.services([rated("api", 5, 10)]).await;
    s.submit((1..=9).map(|n| job_using(n, &["api"]))).await;
    assert_eq!(s.claim(4).await.len(), 4);
    s.services([rated("api", 4, 10)]).await;
    s.assert_nothing_ready().await;
    s.wait(10);
    assert_eq!(s.claim(9).await.len(), 4);
}

/// A rate that is introduced counts the starts from before it.
pub async fn a_new_rate_counts_what_was_used_before(maker: impl Maker) {
    let mut s = Scene::new(&maker).await;
    s.services([unlimited("api")]).await;
    s.submit((1..=9).map(|n| job_using(n, &["api"]))).await;
    assert_eq!(s.claim(3).await.len(), 3);
    s.wait(1);
    s.services([rated("api", 3, 10)]).await;
    s.assert_nothing_ready().await;
    s.wait(9);
    assert_eq!(s.claim(9).await.len(), 3);
}

/// Limits per key that are introduced count the jobs that run.
pub async fn new_limits_per_key_count_what_runs(maker: impl Maker) {
    let s = Scene::new(&maker).await;
    s.services([slots("api", 9)]).await;
    s.submit((1..=4).map(|n| JobSpec { key: Some(key("x")), ..job_using(n, &["api"]) })).await;
    let lease = s.take_job(1).await;
    s.services([ServiceSpec { per_key: per_key(Some(1), vec![]), ..slots("api", 9) }]).await;
    s.assert_nothing_ready().await;
    s.done(&lease).await;
    assert_eq!(s.claim_ids(9).await, [2]);
}

/// A paused service lets nothing through; what runs may finish.
pub async fn a_paused_service_lets_nothing_through(maker: impl Maker) {
    let s = Scene::new(&maker).await;
    s.services([unlimited("api")]).await;
    s.submit([job_using(1, &["api"]), job_using(2, &["api"])]).await;
    let lease = s.take_job(1).await;
    s.services([ServiceSpec { paused: true, ..unlimited("api") }]).await;
    s.assert_nothing_ready().await;
    s.done(&lease).await;
    s.services([unlimited("api")]).await;
    s.take_job(2).await;
}

/// A job that no longer fits at all waits alone.
pub async fn a_job_that_can_never_fit_any_more_does_not_keep_the_rest_waiting(maker: impl Maker) {
    let s = Scene::new(&maker).await;
    s.services([rated("api", 5, 10)]).await;
    let of = |n, units, name| JobSpec { group: Some(group(name)), ..job_costing(n, "api", units) };
    s.submit([of(1, 5, "a"), of(2, 1, "b")]).await;
    s.services([rated("api", 3, 10)]).await;
    assert_eq!(s.claim_ids(9).await, [2]);
    s.services([rated("api", 6, 10)]).await;
    assert_eq!(s.claim_ids(9).await, [1]);
}

/// Nor does it hide the jobs behind it from a worker that takes no more than a priority.
pub async fn a_job_that_can_never_fit_hides_nothing_from_a_filtered_claim(maker: impl Maker) {
    let s = Scene::new(&maker).await;
    s.services([rated("api", 5, 10)]).await;
    s.submit([job_costing(1, "api", 5), job_costing(2, "api", 1)]).await;
    s.services([rated("api", 3, 10)]).await;
    let mut request = s.request(9);
    request.filter.max_priority = Some(0);
    assert_eq!(s.ids_as(request).await, [2]);
}

/// However many of them stand at the front of a lane, with or without a highest priority; and when the limit
/// is raised again they run.
pub async fn any_number_of_jobs_that_can_never_fit_hide_nothing(maker: impl Maker) {
    let s = Scene::new(&maker).await;
    s.services([rated("api", 5, 10)]).await;
    s.submit((1..=700).map(|n| job_costing(n, "api", 4 + u64::from(n % 2 == 0)))).await;
    s.submit([job_costing(701, "api", 1), job_costing(702, "api", 1), job_costing(703, "api", 1)])
        .await;
    s.services([rated("api", 3, 10)]).await;
    let mut request = s.request(1);
    request.filter.max_priority = Some(0);
    assert_eq!(s.ids_as(request).await, [701]);
    assert_eq!(s.claim_ids(1).await, [702]);
    s.submit([job_costing(704, "api", 1)]).await;
    assert_eq!(s.claim_ids(9).await, [703]);
    s.services([rated("api", 7, 10)]).await;
    assert_eq!(s.claim_ids(9).await, [1], "what is left is kept for the next");
    s.check().await;
}

/// Retry-After: the service waits for everyone, the attempt is not counted, nothing is lost.
pub async fn retry_after_holds_the_service_and_keeps_the_attempt(maker: impl Maker) {
    let mut s = Scene::new(&maker).await;
    s.services([unlimited("api"), unlimited("db")]).await;
    s.submit([JobSpec { retry: attempts(1), ..job_using(1, &["api"]) }]).await;
    s.submit([job_using(2, &["api"]), job_using(3, &["db"])]).await;
    let lease = s.take_job(1).await;
    let outcome = Outcome::RateLimited { retry_after: secs(20), service: None };
    let answer = s.finish(&lease, outcome).await;
    assert!(
        matches!(answer, runcue_store::Finished::Now { state: StateWord::Queued, .. }),
        "{answer:?}"
    );
    assert_eq!(s.job(1).await.life.attempt, 0);
    assert_eq!(s.service("api").await.held_until, Some(at(20)));
    let claimed = s.store.claim(s.now, s.request(9)).await.unwrap();
    let ids: Vec<_> = claimed.jobs.iter().map(|(job, _)| job.id()).collect();
    assert_eq!((ids, claimed.wake), (vec![id(3)], Some(at(20))));
    s.wait_for(Duration::from_micros(19_999_999));
    s.assert_nothing_ready().await;
    s.wait_for(Duration::from_micros(1));
    assert_eq!(s.claim_ids(9).await, [1, 2]);
    let events = s.store.events(0, 100).await.unwrap();
    assert!(events.iter().any(|event| event.kind == EventKind::ServiceStatus
        && event.service == Some(service("api"))
        && event.retry_at == Some(at(20))));
}

/// Only the service that asked for it waits.
pub async fn retry_after_of_one_service_leaves_the_other_free(maker: impl Maker) {
    let s = Scene::new(&maker).await;
    s.services([unlimited("api"), unlimited("db")]).await;
    s.submit([job_using(1, &["api", "db"]), job_using(2, &["db"])]).await;
    let lease = s.take_job(1).await;
    let service = Some(service("api"));
    s.finish(&lease, Outcome::RateLimited { retry_after: secs(20), service }).await;
    assert_eq!(s.claim_ids(9).await, [2]);
}

/// A job without services waits itself.
pub async fn retry_after_of_a_job_without_services_delays_the_job(maker: impl Maker) {
    let mut s = Scene::new(&maker).await;
    s.submit([job(1)]).await;
    let lease = s.take_job(1).await;
    let outcome = Outcome::RateLimited { retry_after: secs(20), service: None };
    assert_eq!(s.finish(&lease, outcome).await, retried(at(20)));
    s.wait(19);
    s.assert_nothing_ready().await;
    s.wait(1);
    assert_eq!(s.take_job(1).await.attempt, 1);
}

/// However long the service asks for.
pub async fn a_retry_after_of_more_than_a_day_still_holds_the_service(maker: impl Maker) {
    let mut s = Scene::new(&maker).await;
    s.services([unlimited("api")]).await;
    s.submit([job_using(1, &["api"])]).await;
    let lease = s.take_job(1).await;
    let outcome = Outcome::RateLimited { retry_after: secs(25 * 3600), service: None };
    s.finish(&lease, outcome).await;
    s.assert_nothing_ready().await;
    s.wait(3600);
    s.assert_nothing_ready().await;
}

/// A restart forgets no start.
pub async fn windows_survive_a_restart(maker: impl Maker) {
    let mut s = Scene::new(&maker).await;
    let limits = per_key(None, vec![rate(2, 10)]);
    s.services([ServiceSpec { per_key: limits, ..rated("api", 5, 10) }]).await;
    let of = |n, name| JobSpec { key: Some(key(name)), ..job_using(n, &["api"]) };
    s.submit((1..=20).map(|n| of(n, if n % 2 == 0 { "even" } else { "odd" }))).await;
    let mut starts = Vec::new();
    for n in 0..60 {
        for lease in s.claim(1 + n % 3).await {
            starts.push((s.now, 1));
            s.done(&lease).await;
        }
        s.wait_for(Duration::from_millis(900));
        s = s.reopened(&maker).await;
    }
    assert_eq!(starts.len(), 20);
    assert_within(&starts, 4, secs(10));
}

/// Slots in use are known after a restart.
pub async fn slots_in_use_survive_a_restart(maker: impl Maker) {
    let s = Scene::new(&maker).await;
    s.services([slots("api", 2)]).await;
    s.submit((1..=4).map(|n| job_using(n, &["api"]))).await;
    let leases = s.claim(2).await;
    let s = s.reopened(&maker).await;
    assert_eq!(s.service("api").await.in_use, 2);
    s.assert_nothing_ready().await;
    s.done(&leases[0]).await;
    assert_eq!(s.claim_ids(9).await, [3]);
}

/// A hold survives a restart.
pub async fn a_hold_survives_a_restart(maker: impl Maker) {
    let mut s = Scene::new(&maker).await;
    s.services([unlimited("api")]).await;
    s.submit([job_using(1, &["api"])]).await;
    let lease = s.take_job(1).await;
    s.finish(&lease, Outcome::RateLimited { retry_after: secs(20), service: None }).await;
    s = s.reopened(&maker).await;
    s.wait(19);
    s.assert_nothing_ready().await;
    s.wait(1);
    s.take_job(1).await;
}

/// Two processes on one store share every limit.
pub async fn two_handles_share_all_limits(maker: impl Maker) {
    let mut s = Scene::new(&maker).await;
    s.services([slots("slots", 2), rated("rate", 3, 10)]).await;
    let mut other = s.beside(&maker).await;
    s.submit((1..=10).map(|n| job_using(n, &["slots"]))).await;
    other.submit((11..=30).map(|n| job_using(n, &["rate"]))).await;
    let (mut starts, mut running) = (Vec::new(), Vec::new());
    for n in 0..40 {
        let one = if n % 2 == 0 { &s } else { &other };
        for lease in one.claim(3).await {
            if lease.job.as_u128() > 10 {
                starts.push((one.now, 1));
                other.done(&lease).await;
            } else {
                running.push(lease);
            }
        }
        assert!(running.len() <= 2, "{} jobs at once", running.len());
        if n % 3 == 0 && !running.is_empty() {
            one.done(&running.remove(0)).await;
        }
        s.wait(1);
        other.wait(1);
    }
    assert_within(&starts, 3, secs(10));
    assert!(starts.len() >= 12, "{} starts in four windows", starts.len());
}
