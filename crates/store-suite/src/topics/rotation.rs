//! Fair rotation over groups: the least recently served first.

use runcue_core::JobSpec;

use crate::Maker;
use crate::scene::*;

/// RunForge's documented order for two groups: prefer the other group, oldest among candidates.
pub async fn two_groups_alternate_as_documented(maker: impl Maker) {
    let s = Scene::new(&maker).await;
    s.submit([job_of(1, "a"), job_of(2, "a"), job_of(3, "a"), job_of(4, "b"), job_of(5, "b")])
        .await;
    assert_eq!(s.drain_one_by_one(9).await, [1, 4, 2, 5, 3]);
}

/// The same order in one claim as one by one.
pub async fn one_large_claim_takes_turns_as_many_small_ones(maker: impl Maker) {
    let s = Scene::new(&maker).await;
    let jobs: Vec<JobSpec> =
        (0..30).map(|n| job_of(n + 1, ["a", "b", "c"][usize::try_from(n).unwrap() / 10])).collect();
    s.submit(jobs.clone()).await;
    let together = s.claim_ids(30).await;
    let s = Scene::new(&maker).await;
    s.submit(jobs).await;
    assert_eq!(s.drain_one_by_one(30).await, together);
}

/// With three groups the newest is not left until the others are nearly empty.
pub async fn three_groups_take_turns(maker: impl Maker) {
    let s = Scene::new(&maker).await;
    for (n, name) in ["a", "b", "c"].into_iter().enumerate() {
        let first = 100 * (n as u128 + 1);
        s.submit((first..first + 50).map(|n| job_of(n, name))).await;
    }
    let order = s.drain_one_by_one(150).await;
    assert_eq!(order[..6], [100, 200, 300, 101, 201, 301]);
    for (n, id) in order.iter().enumerate() {
        assert_eq!(*id, 100 * (n as u128 % 3 + 1) + n as u128 / 3);
    }
}

/// A floods, B sends one: B is next.
pub async fn a_flood_does_not_delay_another_group(maker: impl Maker) {
    let s = Scene::new(&maker).await;
    s.submit((1..=1_000).map(|n| job_of(n, "flood"))).await;
    s.claim(10).await;
    s.submit([job_of(2_000, "single")]).await;
    assert_eq!(s.claim_ids(2).await, [2_000, 11]);
}

/// New groups keep arriving, each with one job: the old one still gets its turns.
pub async fn a_stream_of_new_groups_does_not_starve_an_old_one(maker: impl Maker) {
    let s = Scene::new(&maker).await;
    s.submit((1..=10).map(|n| job_of(n, "old"))).await;
    let mut served = 0;
    for n in 0..40_u128 {
        s.submit([
            job_of(100 + 2 * n, &format!("new{n}a")),
            job_of(101 + 2 * n, &format!("new{n}b")),
        ])
        .await;
        let lease = s.take().await;
        served += u32::from(lease.job.as_u128() <= 10);
        s.done(&lease).await;
    }
    assert!(served >= 3, "the old group was served {served} times of 40");
}

/// A group that comes back after having been empty does not claim its missed turns.
pub async fn a_group_that_was_away_has_no_turns_saved_up(maker: impl Maker) {
    let s = Scene::new(&maker).await;
    s.submit([job_of(1, "away")]).await;
    s.run_job(1).await;
    s.submit((10..60).map(|n| job_of(n, "busy"))).await;
    assert_eq!(s.claim(20).await.len(), 20);
    s.submit((100..110).map(|n| job_of(n, "away"))).await;
    assert_eq!(s.claim_ids(4).await, [100, 30, 101, 31]);
}

/// Jobs without a group are one bucket among the groups.
pub async fn ungrouped_jobs_are_one_bucket(maker: impl Maker) {
    let s = Scene::new(&maker).await;
    s.submit([job(1), job(2), job(3), job_of(4, "a"), job_of(5, "b")]).await;
    assert_eq!(s.drain_one_by_one(9).await, [1, 4, 5, 2, 3]);
}

/// Priority counts inside a group, not between groups.
pub async fn priority_does_not_reach_across_groups(maker: impl Maker) {
    let s = Scene::new(&maker).await;
    let high = |n, name| JobSpec { priority: 100, ..job_of(n, name) };
    s.submit([job_of(1, "a"), high(2, "b"), high(3, "b"), high(4, "a")]).await;
    assert_eq!(s.drain_one_by_one(9).await, [2, 4, 3, 1]);
}

/// The group served last is recorded.
pub async fn the_group_served_last_is_recorded(maker: impl Maker) {
    let s = Scene::new(&maker).await;
    let last = async || s.store.stats(s.now).await.unwrap().last_served_group;
    assert_eq!(last().await, None);
    s.submit([job_of(1, "a"), job_of(2, "b"), job(3)]).await;
    s.take_job(1).await;
    assert_eq!(last().await, Some(group("a")));
    s.take_job(2).await;
    assert_eq!(last().await, Some(group("b")));
    s.take_job(3).await;
    assert_eq!(last().await, None);
}

/// A group whose jobs cannot run does not hold the others up, nor lose its turn.
pub async fn a_group_without_room_keeps_its_place(maker: impl Maker) {
    let s = Scene::new(&maker).await;
    s.services([slots("api", 1)]).await;
    let api = |n, name| JobSpec { group: Some(group(name)), ..job_using(n, &["api"]) };
    s.submit([api(1, "a"), api(2, "a"), job_of(3, "b"), job_of(4, "b"), job_of(5, "b")]).await;
    let lease = s.take_job(1).await;
    s.take_job(3).await;
    s.take_job(4).await;
    s.done(&lease).await;
    s.take_job(2).await;
    s.take_job(5).await;
}
