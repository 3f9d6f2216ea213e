//! candidates: what a scored claim chooses from.

use std::collections::{BTreeSet, HashSet};

use runcue_core::breaker::Breaker;
use runcue_core::{JobSpec, Seq, ServiceSpec, StateWord};
use runcue_store::{Candidates, ClaimRequest};

use crate::Maker;
use crate::scene::*;

fn ids(found: &Candidates) -> BTreeSet<u128> {
    found.jobs.iter().map(|candidate| candidate.job.id().as_u128()).collect()
}

/// Open jobs only, and they stay as they are.
pub async fn they_are_jobs_that_may_run_now(maker: impl Maker) {
    let s = Scene::new(&maker).await;
    s.services([slots("full", 1), slots("free", 2)]).await;
    s.submit([job_using(1, &["full"])]).await;
    s.take_job(1).await;
    s.submit([job_using(2, &["full"]), job_using(3, &["free"]), job(4), job_after(5, &[4])]).await;
    s.submit([job_of(6, "held"), JobSpec { run_at: Some(at(9)), ..job(7) }]).await;
    s.submit([JobSpec { expires_at: Some(s.now), ..job(8) }]).await;
    s.store.set_group_paused(s.now, group("held"), true).await.unwrap();
    assert_eq!(ids(&s.candidates(100, &[]).await), [3, 4].into());
    assert_eq!(s.state(3).await, StateWord::Queued);
}

/// Whoever turns all of a page down gets the next one, to the last job.
pub async fn what_was_turned_down_hides_nothing_behind_it(maker: impl Maker) {
    let s = Scene::new(&maker).await;
    s.submit((1..=501).map(job)).await;
    let (mut down, mut seen): (Vec<Seq>, BTreeSet<u128>) = Default::default();
    loop {
        let page = s.candidates(50, &down).await;
        if page.jobs.is_empty() {
            break;
        }
        let before = seen.len();
        seen.extend(ids(&page));
        assert_eq!(seen.len(), before + page.jobs.len(), "a job came twice");
        down.extend(page.jobs.iter().map(|candidate| candidate.job.seq));
    }
    assert_eq!(seen, (1..=501).collect());
}

/// A deep lane leaves room for the others.
pub async fn every_lane_has_its_share(maker: impl Maker) {
    let s = Scene::new(&maker).await;
    s.submit((1..=400).map(|n| job_of(n, "deep"))).await;
    s.submit((401..=420).map(|n| job_of(n, &format!("g{n}")))).await;
    let found = s.candidates(42, &[]).await;
    let groups: HashSet<_> = found.jobs.iter().map(|c| c.job.spec.group.clone()).collect();
    assert_eq!(groups.len(), 21);
}

/// A score by age finds the oldest job, whatever its priority.
pub async fn an_old_job_is_among_them_however_many_go_before_it(maker: impl Maker) {
    let s = Scene::new(&maker).await;
    s.submit([job(1)]).await;
    s.submit((2..=600).map(|n| JobSpec { priority: 1 + i32::from(n % 2 == 0), ..job(n) })).await;
    let found = ids(&s.candidates(100, &[]).await);
    assert!(found.contains(&1), "{found:?}");
    let filter = runcue_core::ClaimFilter { max_priority: Some(1), ..Default::default() };
    let request = ClaimRequest { filter, ..s.request(100) };
    let low = s.store.candidates(s.now, request, HashSet::new()).await.unwrap();
    assert!(low.jobs.iter().all(|candidate| candidate.job.spec.priority <= 1));
    assert!(ids(&low).contains(&1));
}

/// Where something opens by itself, the answer says when.
pub async fn the_wake_hint_tells_when_there_are_others(maker: impl Maker) {
    let mut s = Scene::new(&maker).await;
    assert_eq!(s.candidates(9, &[]).await.wake, None);
    s.services([
        rated("api", 1, 60),
        ServiceSpec { per_key: per_key(None, vec![rate(1, 40)]), ..unlimited("keyed") },
        rated("costly", 3, 20),
    ])
    .await;
    s.submit([JobSpec { run_at: Some(at(90)), ..job(1) }]).await;
    assert_eq!(s.candidates(9, &[]).await.wake, Some(at(90)));
    s.submit([job_using(2, &["api"]), job_using(3, &["api"])]).await;
    s.take_job(2).await;
    let found = s.candidates(9, &[]).await;
    assert_eq!((ids(&found), found.wake), ([].into(), Some(at(60))));
    let of = |n| JobSpec { key: Some(key("x")), ..job_using(n, &["keyed"]) };
    s.submit([of(4), of(5)]).await;
    s.take_job(4).await;
    let found = s.candidates(9, &[]).await;
    assert_eq!((ids(&found), found.wake), ([].into(), Some(at(40))));
    s.submit([job_costing(6, "costly", 2), job_costing(7, "costly", 2)]).await;
    s.take_job(6).await;
    let found = s.candidates(9, &[]).await;
    assert_eq!((ids(&found), found.wake), ([].into(), Some(at(20))));
    s.wait(20);
    assert_eq!(ids(&s.candidates(9, &[]).await), [7].into());
    s.wait(20);
    assert_eq!(ids(&s.candidates(9, &[]).await), [5, 7].into());
}

/// A breaker whose time is up lets one scored job through, and then no other.
pub async fn a_breaker_that_wants_a_probe_lets_one_through(maker: impl Maker) {
    let mut s = Scene::new(&maker).await;
    let limits = ServiceSpec { circuit_threshold: Some(1), ..unlimited("api") };
    s.services([ServiceSpec { circuit_timeout: secs(30), ..limits }]).await;
    s.submit((1..=3).map(|n| JobSpec { retry: attempts(1), ..job_using(n, &["api"]) })).await;
    let lease = s.take_job(1).await;
    s.fail(&lease).await;
    let found = s.candidates(9, &[]).await;
    assert_eq!((ids(&found), found.wake), ([].into(), Some(at(30))));
    s.wait(30);
    assert_eq!(ids(&s.candidates(9, &[]).await), [2, 3].into());
    let only = ClaimRequest { only: Some(vec![id(3), id(2)]), ..s.request(9) };
    let claimed = s.claim_as(only).await;
    assert_eq!(claimed.len(), 1, "one probe");
    assert_eq!(s.service("api").await.breaker, Breaker::HalfOpen { probe: id(3) });
    assert_eq!(ids(&s.candidates(9, &[]).await), [].into());
    s.done(&claimed[0].1).await;
    assert_eq!(ids(&s.candidates(9, &[]).await), [2].into());
}

/// Jobs that no longer fit at all are no candidates, and what stands behind them is.
pub async fn jobs_that_can_never_fit_are_not_among_them_and_hide_nothing(maker: impl Maker) {
    let s = Scene::new(&maker).await;
    s.services([rated("api", 5, 10)]).await;
    s.submit((1..=300).map(|n| job_costing(n, "api", 5))).await;
    s.submit([job_costing(301, "api", 1)]).await;
    s.services([rated("api", 3, 10)]).await;
    assert_eq!(ids(&s.candidates(10, &[]).await), [301].into());
}
