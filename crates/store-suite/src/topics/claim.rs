//! claim: a state change under a lease, in the right order, for the worker that fits.

use runcue_core::{Capabilities, ClaimFilter, JobSpec, Requires, StateWord};
use runcue_store::ClaimRequest;

use crate::Maker;
use crate::scene::*;

/// A claimed job is still there, in another state.
pub async fn a_claim_is_a_state_change_and_never_a_removal(maker: impl Maker) {
    let s = Scene::new(&maker).await;
    s.submit([job(1), job(2)]).await;
    let mut request = s.request(1);
    request.start = false;
    let claimed = s.claim_as(request).await;
    let (job, lease) = &claimed[0];
    assert_eq!(job.life.state.word(), StateWord::Leased);
    assert_eq!(job.life.state.lease(), Some(lease));
    assert_eq!((lease.job, lease.attempt, lease.worker), (id(1), 1, worker(1)));
    assert_eq!(lease.until, at(30));
    assert_eq!(s.states(&[1, 2]).await, [StateWord::Leased, StateWord::Queued]);
    let lease = s.take_job(2).await;
    assert_eq!(s.state(2).await, StateWord::Running);
    s.done(&lease).await;
    s.assert_nothing_ready().await;
}

/// Counted once, at the claim, and not again when it begins or fails.
pub async fn an_attempt_is_counted_once_at_the_claim(maker: impl Maker) {
    let mut s = Scene::new(&maker).await;
    s.submit([job(1)]).await;
    let mut request = s.request(1);
    request.start = false;
    let (_, lease) = s.claim_as(request).await.pop().unwrap();
    assert_eq!(s.job(1).await.life.attempt, 1);
    s.extend(&lease, 30).await;
    assert_eq!(s.job(1).await.life.attempt, 1);
    s.fail(&lease).await;
    assert_eq!(s.job(1).await.life.attempt, 1);
    s.wait(1);
    assert_eq!(s.take_job(1).await.attempt, 2);
}

/// Higher priority first, then older first.
pub async fn order_is_priority_then_age(maker: impl Maker) {
    let s = Scene::new(&maker).await;
    let with = |n, priority| JobSpec { priority, ..job(n) };
    s.submit([with(1, 0), with(2, 5), with(3, -5), with(4, 5)]).await;
    s.submit([with(5, 200), with(6, 0)]).await;
    assert_eq!(s.claim_ids(9).await, [5, 2, 4, 1, 6, 3]);
}

/// The order holds far behind the heads of a lane.
pub async fn order_holds_in_a_deep_lane(maker: impl Maker) {
    let s = Scene::new(&maker).await;
    s.submit((1..=600).map(job)).await;
    assert_eq!(s.claim_ids(100).await, (1..=100).collect::<Vec<_>>());
    let late = |n| JobSpec { priority: 1, ..job(n) };
    s.submit((601..=800).map(late)).await;
    s.submit((801..=900).map(job)).await;
    assert_eq!(s.cancel(&[700, 300, 850], false).await, 3);
    let mut expected: Vec<u128> = (601..=800).chain(101..=600).chain(801..=900).collect();
    expected.retain(|n| ![700, 300, 850].contains(n));
    let mut got = Vec::new();
    while got.len() < expected.len() {
        let some = s.claim_ids(37).await;
        assert!(!some.is_empty(), "stopped after {}", got.len());
        got.extend(some);
    }
    assert_eq!(got, expected);
    s.check().await;
}

async fn filtered(s: &Scene, filter: ClaimFilter) -> Vec<u128> {
    s.ids_as(ClaimRequest { filter, ..s.request(9) }).await
}

/// Only what the worker asks for.
pub async fn filters_by_queue_task_project_and_labels(maker: impl Maker) {
    let s = Scene::new(&maker).await;
    s.submit([
        JobSpec { queue: queue("a"), ..job(1) },
        JobSpec { task: task("build"), ..job(2) },
        JobSpec { project: Some("p".to_owned()), ..job(3) },
        JobSpec { labels: words(&["x", "y"]), ..job(4) },
        JobSpec { labels: words(&["x"]), ..job(5) },
    ])
    .await;
    let any = ClaimFilter::default;
    let both = ClaimFilter { labels: words(&["x", "y"]), ..any() };
    assert_eq!(filtered(&s, both).await, [4]);
    assert_eq!(filtered(&s, ClaimFilter { labels: words(&["x"]), ..any() }).await, [5]);
    assert_eq!(filtered(&s, ClaimFilter { project: Some("p".to_owned()), ..any() }).await, [3]);
    let queues = [queue("a"), queue("b")].into();
    assert_eq!(filtered(&s, ClaimFilter { queues, ..any() }).await, [1]);
    let tasks = [task("test")].into();
    assert_eq!(filtered(&s, ClaimFilter { tasks, ..any() }).await, []);
    let tasks = [task("build"), task("test")].into();
    assert_eq!(filtered(&s, ClaimFilter { tasks, ..any() }).await, [2]);
}

/// Jobs above the priority are left for others, wherever they stand.
pub async fn filters_by_highest_priority(maker: impl Maker) {
    let s = Scene::new(&maker).await;
    let with = |n, priority| JobSpec { priority, ..job(n) };
    s.submit([with(1, 100), with(2, 50), with(3, 0), with(4, 50), with(5, 200)]).await;
    let filter = ClaimFilter { max_priority: Some(50), ..ClaimFilter::default() };
    assert_eq!(filtered(&s, filter.clone()).await, [2, 4, 3]);
    assert_eq!(filtered(&s, filter).await, []);
    assert_eq!(s.claim_ids(9).await, [5, 1]);
}

/// A job goes to a worker that offers what it requires.
pub async fn requirements_are_matched_with_what_a_worker_offers(maker: impl Maker) {
    let s = Scene::new(&maker).await;
    let needs = |n, cores, ram_gb, tags: &[&str]| JobSpec {
        requires: Requires { cores, ram_gb, tags: words(tags) },
        ..job(n)
    };
    s.submit([
        needs(1, Some(16), None, &[]),
        needs(2, None, Some(64.0), &[]),
        needs(3, Some(2), Some(4.0), &["gpu"]),
        needs(4, Some(2), Some(4.0), &[]),
    ])
    .await;
    let offering = |tags: &[&str]| {
        let offers = Some(Capabilities { cores: 4, ram_gb: 8.0, tags: words(tags) });
        ClaimRequest { offers, ..s.request(9) }
    };
    assert_eq!(s.ids_as(offering(&["linux"])).await, [4]);
    assert_eq!(s.ids_as(offering(&["linux", "gpu"])).await, [3]);
    assert_eq!(s.claim_ids(9).await, [1, 2]);
}

/// By id, in the order asked, as far as they may run.
pub async fn only_takes_just_the_named_jobs_in_that_order(maker: impl Maker) {
    let s = Scene::new(&maker).await;
    s.services([slots("api", 1)]).await;
    s.submit([job(1), job(2), job_after(3, &[1]), job(4)]).await;
    s.submit([job_using(5, &["api"]), job_using(6, &["api"]), job_of(7, "held")]).await;
    s.store.set_group_paused(s.now, group("held"), true).await.unwrap();
    let only = |ids: &[u128], max| ClaimRequest {
        only: Some(ids.iter().copied().map(id).collect()),
        ..s.request(max)
    };
    assert_eq!(s.ids_as(only(&[4, 99, 3, 2], 9)).await, [4, 2]);
    assert_eq!(s.ids_as(only(&[6, 5, 7], 9)).await, [6]);
    assert_eq!(s.ids_as(only(&[], 9)).await, []);
    assert_eq!(s.claim_ids(9).await, [1]);
}

/// No two claims share a token, and later ones are larger.
pub async fn tokens_are_unique_and_grow(maker: impl Maker) {
    let s = Scene::new(&maker).await;
    s.submit((1..=20).map(job)).await;
    let mut tokens = Vec::new();
    for lease in [s.claim(7).await, s.claim(7).await].concat() {
        tokens.push(lease.token);
        s.finish(&lease, runcue_store::Outcome::HandBack).await;
    }
    tokens.extend(s.claim(20).await.iter().map(|lease| lease.token));
    assert!(tokens.windows(2).all(|pair| pair[0] < pair[1]), "{tokens:?}");
}

/// A claim of nothing gives nothing.
pub async fn a_claim_of_none_changes_nothing(maker: impl Maker) {
    let s = Scene::new(&maker).await;
    s.submit([job(1)]).await;
    assert_eq!(s.claim_ids(0).await, []);
    assert_eq!(s.state(1).await, StateWord::Queued);
}
