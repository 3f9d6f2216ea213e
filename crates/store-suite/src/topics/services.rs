//! Services: slots, exact windows, costs and keys, all taken together with the lease.

use std::time::Duration;

use runcue_core::{JobSpec, ServiceSpec, Timestamp, Use};
use runcue_store::ClaimRequest;

use crate::Maker;
use crate::scene::*;

/// Claims greedily at every step of a history and notes when each job started.
async fn starts_over(s: &mut Scene, steps: u64, step: Duration) -> Vec<Timestamp> {
    let mut starts = Vec::new();
    for _ in 0..steps {
        let leases = s.claim(100).await;
        starts.extend(leases.iter().map(|_| s.now));
        for lease in &leases {
            s.done(lease).await;
        }
        s.wait_for(step);
    }
    starts
}

/// No window of that length, wherever it begins, holds more than the limit.
pub fn assert_within(starts: &[(Timestamp, u64)], limit: u64, window: Duration) {
    for (begin, _) in starts {
        let inside = starts.iter().filter(|(at, _)| at >= begin && *at < begin.plus(window));
        let used: u64 = inside.map(|(_, units)| units).sum();
        assert!(
            used <= limit,
            "{used} units in the window that begins at {begin}, {limit} allowed"
        );
    }
}

/// As many at once as there are slots.
pub async fn slots_are_never_exceeded_and_come_back(maker: impl Maker) {
    let s = Scene::new(&maker).await;
    s.services([slots("api", 2)]).await;
    s.submit((1..=4).map(|n| job_using(n, &["api"]))).await;
    let leases = s.claim(9).await;
    assert_eq!(leases.len(), 2);
    assert_eq!(s.service("api").await.in_use, 2);
    s.assert_nothing_ready().await;
    s.done(&leases[0]).await;
    assert_eq!(s.claim_ids(9).await, [3]);
    s.fail(&leases[1]).await;
    assert_eq!(s.claim_ids(9).await, [4]);
    assert_eq!(s.service("api").await.in_use, 2);
}

/// Two rates at once, checked by brute force over the recorded starts.
pub async fn every_window_of_every_rate_holds(maker: impl Maker) {
    let mut s = Scene::new(&maker).await;
    let rates = vec![rate(3, 2), rate(7, 10)];
    s.services([ServiceSpec { rates, ..unlimited("api") }]).await;
    s.submit((1..=60).map(|n| job_using(n, &["api"]))).await;
    let starts = starts_over(&mut s, 300, Duration::from_millis(370)).await;
    assert_eq!(starts.len(), 60);
    let starts: Vec<_> = starts.into_iter().map(|at| (at, 1)).collect();
    assert_within(&starts, 3, secs(2));
    assert_within(&starts, 7, secs(10));
}

/// A start at t no longer counts at t + window, and not a microsecond earlier.
pub async fn a_window_ends_exactly(maker: impl Maker) {
    let mut s = Scene::new(&maker).await;
    s.services([rated("api", 1, 10)]).await;
    s.submit([job_using(1, &["api"]), job_using(2, &["api"])]).await;
    s.run_job(1).await;
    s.wait_for(Duration::from_micros(9_999_999));
    let claimed = s.store.claim(s.now, s.request(1)).await.unwrap();
    assert!(claimed.jobs.is_empty());
    assert_eq!(claimed.wake, Some(at(10)), "the caller is told when to come back");
    s.wait_for(Duration::from_micros(1));
    s.take_job(2).await;
}

/// A job that starts later than it is claimed is counted when it starts.
pub async fn a_start_within_a_span_is_counted_at_its_end(maker: impl Maker) {
    let mut s = Scene::new(&maker).await;
    s.services([rated("api", 1, 10)]).await;
    s.submit([job_using(1, &["api"]), job_using(2, &["api"]), job(3)]).await;
    let request = ClaimRequest { start_within: secs(2), ..s.request(1) };
    let (_, lease) = s.claim_as(request.clone()).await.pop().unwrap();
    assert_eq!((lease.job, lease.start_by), (id(1), Some(at(2))));
    let (_, lease) = s.claim_as(request).await.pop().unwrap();
    assert_eq!((lease.job, lease.start_by), (id(3), None), "it uses no rated service");
    s.wait(11);
    s.assert_nothing_ready().await;
    s.wait(1);
    s.take_job(2).await;
}

/// Costs count in units.
pub async fn costs_are_counted_in_units(maker: impl Maker) {
    let mut s = Scene::new(&maker).await;
    s.services([rated("tokens", 10, 60)]).await;
    s.submit([
        job_costing(1, "tokens", 6),
        job_costing(2, "tokens", 4),
        job_costing(3, "tokens", 1),
    ])
    .await;
    assert_eq!(s.claim_ids(9).await, [1, 2]);
    assert_eq!(s.service("tokens").await.used, [(rate(10, 60), 10)]);
    s.wait(60);
    assert_eq!(s.claim_ids(9).await, [3]);
}

/// A job that needs more than is left is not overtaken by cheaper ones for ever.
pub async fn a_costly_job_is_not_starved_by_cheap_ones(maker: impl Maker) {
    let mut s = Scene::new(&maker).await;
    s.services([rated("tokens", 10, 10)]).await;
    s.submit([job_costing(1, "tokens", 1)]).await;
    s.run_job(1).await;
    s.wait(1);
    s.submit([JobSpec { group: Some(group("big")), ..job_costing(2, "tokens", 10) }]).await;
    let cheap = |n| JobSpec { group: Some(group("small")), ..job_costing(n, "tokens", 1) };
    s.submit((3..=200).map(cheap)).await;
    for _ in 0..12 {
        if s.claim_ids(3).await.contains(&2) {
            return;
        }
        s.wait(1);
    }
    panic!("the costly job did not start within one window");
}

/// The same when its group is served with other work meanwhile.
pub async fn a_costly_job_is_not_starved_when_its_group_has_other_work(maker: impl Maker) {
    let mut s = Scene::new(&maker).await;
    s.services([rated("tokens", 10, 10)]).await;
    s.submit([JobSpec { priority: 1, group: Some(group("big")), ..job_costing(1, "tokens", 10) }])
        .await;
    s.submit((1_000..2_000).map(|n| job_of(n, "big"))).await;
    let cheap = |n| JobSpec { group: Some(group("small")), ..job_costing(n, "tokens", 1) };
    s.submit([job_costing(2, "tokens", 1)]).await;
    let only = Some(vec![id(2)]);
    assert_eq!(s.ids_as(ClaimRequest { only, ..s.request(1) }).await, [2]);
    s.submit((3..=500).map(cheap)).await;
    for _ in 0..60 {
        for _ in 0..4 {
            if s.claim_ids(1).await.contains(&1) {
                return;
            }
        }
        s.wait(1);
    }
    panic!("the costly job did not start within six windows");
}

/// All or none: a job that lacks one service takes nothing of the other.
pub async fn services_are_taken_all_or_none(maker: impl Maker) {
    let s = Scene::new(&maker).await;
    s.services([slots("a", 1), slots("b", 1)]).await;
    s.submit([job_using(1, &["b"]), job_using(2, &["a", "b"]), job_using(3, &["a"])]).await;
    assert_eq!(s.claim_ids(9).await, [1, 3]);
    let in_use = [s.service("a").await.in_use, s.service("b").await.in_use];
    assert_eq!(in_use, [1, 1]);
}

/// A full service keeps nobody else waiting.
pub async fn a_full_service_does_not_hold_others_up(maker: impl Maker) {
    let s = Scene::new(&maker).await;
    s.services([slots("api", 0), unlimited("free")]).await;
    s.submit((1..=300).map(|n| JobSpec { priority: 9, ..job_using(n, &["api"]) })).await;
    s.submit([job_using(1_000, &["free"]), job(1_001)]).await;
    assert_eq!(s.claim_ids(9).await, [1_000, 1_001]);
}

/// Each key has slots of its own.
pub async fn each_key_has_its_own_slots(maker: impl Maker) {
    let s = Scene::new(&maker).await;
    s.services([ServiceSpec { per_key: per_key(Some(1), vec![]), ..slots("api", 3) }]).await;
    let of = |n, name| JobSpec { key: Some(key(name)), ..job_using(n, &["api"]) };
    s.submit([of(1, "x"), of(2, "x"), of(3, "y"), of(4, "y"), of(5, "z"), of(6, "w")]).await;
    let leases = s.claim(9).await;
    let ids: Vec<u128> = leases.iter().map(|lease| lease.job.as_u128()).collect();
    assert_eq!(ids, [1, 3, 5]);
    s.done(&leases[1]).await;
    assert_eq!(s.claim_ids(9).await, [4]);
    s.done(&leases[0]).await;
    assert_eq!(s.claim_ids(9).await, [2]);
}

/// Each key has rates of its own, besides those of all.
pub async fn each_key_has_its_own_rates(maker: impl Maker) {
    let mut s = Scene::new(&maker).await;
    let limits = per_key(None, vec![rate(2, 10)]);
    s.services([ServiceSpec { per_key: limits, ..rated("api", 5, 10) }]).await;
    let of = |n, name| JobSpec { key: Some(key(name)), ..job_using(n, &["api"]) };
    s.submit((1..=10).map(|n| of(n, "x"))).await;
    s.submit((11..=20).map(|n| of(n, "y"))).await;
    s.submit((21..=30).map(|n| job_using(n, &["api"]))).await;
    assert_eq!(s.claim_ids(30).await, [1, 2, 11, 12, 21]);
    s.wait(10);
    assert_eq!(s.claim_ids(30).await, [3, 4, 13, 14, 22]);
}

/// A cheaper job behind a withdrawn costly one is seen.
pub async fn a_key_is_looked_at_again_when_its_next_job_changes(maker: impl Maker) {
    let s = Scene::new(&maker).await;
    let limits = per_key(None, vec![rate(4, 10)]);
    s.services([ServiceSpec { per_key: limits, ..unlimited("api") }]).await;
    let of = |n, units| JobSpec { key: Some(key("x")), ..job_costing(n, "api", units) };
    s.submit([of(1, 2), of(2, 3), of(3, 1)]).await;
    assert_eq!(s.claim_ids(9).await, [1]);
    s.cancel(&[2], false).await;
    assert_eq!(s.claim_ids(9).await, [3]);
}

/// The same service named twice is used once, with the units added.
pub async fn a_service_named_twice_is_used_once(maker: impl Maker) {
    let s = Scene::new(&maker).await;
    s.services([ServiceSpec { rates: vec![rate(5, 10)], ..slots("api", 2) }]).await;
    let twice = |units| vec![Use { service: service("api"), units }, Use::one(service("api"))];
    let answers = s.try_submit(vec![JobSpec { services: twice(2), ..job(1) }]).await.unwrap();
    assert_eq!(answers.len(), 1);
    s.take_job(1).await;
    let info = s.service("api").await;
    assert_eq!((info.in_use, info.used), (1, vec![(rate(5, 10), 3)]));
}
