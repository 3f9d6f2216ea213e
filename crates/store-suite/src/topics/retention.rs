//! Retention: by age and by count, announced before it deletes, and never a live job.

use runcue_core::{ErrorKind, JobSpec, ServiceSpec, StateWord};
use runcue_store::{Keep, ListRequest, Pruned, Retention};

use crate::Maker;
use crate::scene::*;

const DAY: u64 = 24 * 3600;

fn keep(days: u64, count: u64) -> Keep {
    Keep { age: secs(days * DAY), count }
}

fn by_count(count: u64) -> Retention {
    Retention { completed: keep(7, count), ..Retention::default() }
}

async fn prune(s: &Scene, retention: Retention) -> Pruned {
    let dry = s.store.prune(s.now, retention, true).await.unwrap();
    let total = s.store.stats(s.now).await.unwrap().counts.total();
    let mut real = Pruned::default();
    // A store may delete a large amount in several rounds.
    loop {
        let round = s.store.prune(s.now, retention, false).await.unwrap();
        if round.is_empty() {
            break;
        }
        real.add(&round);
    }
    let jobs = |pruned: &Pruned| pruned.jobs.values().sum::<u64>();
    assert_eq!(jobs(&dry), jobs(&real), "a dry run counts what goes");
    assert_eq!((dry.events, dry.usage), (real.events, real.usage));
    let left = s.store.stats(s.now).await.unwrap().counts.total();
    assert_eq!(left, total - jobs(&real));
    s.check().await;
    real
}

/// Older than the rule for its state.
pub async fn by_age_and_state(maker: impl Maker) {
    let mut s = Scene::new(&maker).await;
    s.submit((1..=4).map(job)).await;
    s.cancel(&[3], false).await;
    s.run_job(1).await;
    let lease = s.take_job(2).await;
    s.finish(&lease, failed(ErrorKind::Permanent)).await;
    s.wait(7 * DAY - 1);
    assert_eq!(prune(&s, Retention::default()).await.jobs.values().sum::<u64>(), 0);
    s.wait(2);
    let pruned = prune(&s, Retention::default()).await;
    assert_eq!(pruned.jobs[&StateWord::Completed], 1);
    assert_eq!(pruned.jobs[&StateWord::Cancelled], 1);
    let found = s.store.get(vec![id(1), id(2), id(3), id(4)]).await.unwrap();
    assert_eq!(found.iter().map(Option::is_some).collect::<Vec<_>>(), [false, true, false, true]);
    s.wait(23 * DAY);
    assert_eq!(prune(&s, Retention::default()).await.jobs[&StateWord::Failed], 1);
    s.take_job(4).await;
}

/// Beyond the count the oldest go.
pub async fn by_count_the_oldest_go(maker: impl Maker) {
    let mut s = Scene::new(&maker).await;
    s.submit((1..=10).map(job)).await;
    for n in 1..=10 {
        s.run_job(n).await;
        s.wait(1);
    }
    assert_eq!(prune(&s, by_count(3)).await.jobs[&StateWord::Completed], 7);
    let found = s.store.get((1..=10).map(id).collect()).await.unwrap();
    let kept: Vec<u128> = found.into_iter().flatten().map(|job| job.id().as_u128()).collect();
    assert_eq!(kept, [8, 9, 10]);
}

/// A dry run of many counts what really goes.
pub async fn a_dry_run_counts_thousands_rightly(maker: impl Maker) {
    let s = Scene::new(&maker).await;
    s.submit((1..=2_500).map(job)).await;
    let ends = s.claim(2_500).await.into_iter();
    let ends = ends.map(|lease| runcue_store::Finish { lease, outcome: done() }).collect();
    s.store.finish(s.now, ends).await.unwrap();
    assert_eq!(prune(&s, by_count(100)).await.jobs[&StateWord::Completed], 2_400);
}

/// Live jobs stay, however old.
pub async fn live_jobs_are_never_pruned(maker: impl Maker) {
    let mut s = Scene::new(&maker).await;
    s.submit([job(1), job(2), job_after(3, &[2])]).await;
    s.take_job(1).await;
    s.wait(1_000 * DAY);
    let strict = keep(0, 0);
    let retention =
        Retention { completed: strict, cancelled: strict, failed: strict, ..Retention::default() };
    assert_eq!(prune(&s, retention).await.jobs.values().sum::<u64>(), 0);
    assert_eq!(s.states(&[1, 2, 3]).await.len(), 3);
}

/// A job whose prerequisite was pruned goes on.
pub async fn dependents_of_pruned_prerequisites_go_on(maker: impl Maker) {
    let mut s = Scene::new(&maker).await;
    s.submit([job(1), job(2), job_after(3, &[1, 2])]).await;
    s.run_job(1).await;
    s.wait(8 * DAY);
    assert_eq!(prune(&s, Retention::default()).await.jobs[&StateWord::Completed], 1);
    assert_eq!(s.drain_one_by_one(9).await, [2, 3]);
    s.check().await;
}

/// A replayed job whose prerequisite was pruned does not wait for it.
pub async fn a_replayed_job_does_not_wait_for_what_was_pruned(maker: impl Maker) {
    let mut s = Scene::new(&maker).await;
    s.submit([job(1), job_after(2, &[1])]).await;
    s.run_job(1).await;
    let lease = s.take_job(2).await;
    s.finish(&lease, failed(ErrorKind::Permanent)).await;
    s.wait(8 * DAY);
    prune(&s, Retention::default()).await;
    assert_eq!(s.retry(&[2]).await, 1);
    s.run_job(2).await;
}

/// Old events go, and numbers are not used again.
pub async fn old_events_go_and_numbers_go_on(maker: impl Maker) {
    let mut s = Scene::new(&maker).await;
    s.submit((1..=5).map(job)).await;
    s.wait(8 * DAY);
    s.submit([job(6)]).await;
    assert_eq!(prune(&s, Retention::default()).await.events, 5);
    let events = s.store.events(0, 100).await.unwrap();
    assert_eq!(events.iter().map(|event| event.seq).collect::<Vec<_>>(), [6]);
    s.submit([job(7)]).await;
    assert_eq!(s.store.last_event().await.unwrap(), 7);
}

/// The log of use is never cut shorter than a window needs.
pub async fn use_is_kept_as_long_as_a_window_needs(maker: impl Maker) {
    let mut s = Scene::new(&maker).await;
    s.services([rated("api", 1, 3 * DAY)]).await;
    s.submit([job_using(1, &["api"]), job_using(2, &["api"])]).await;
    s.run_job(1).await;
    s.wait(2 * DAY);
    prune(&s, Retention::default()).await;
    s.assert_nothing_ready().await;
    s.wait(DAY);
    s.take_job(2).await;
}

fn nothing_finished() -> Retention {
    let strict = keep(0, 0);
    Retention { completed: strict, cancelled: strict, failed: strict, ..Retention::default() }
}

/// Every constraint on its own can come back after its last job was pruned, in the right order and with its
/// limits; groups without jobs are gone, but for paused ones.
pub async fn constraints_whose_jobs_were_pruned_come_back(maker: impl Maker) {
    let mut s = Scene::new(&maker).await;
    let limits = per_key(Some(1), vec![]);
    s.services([ServiceSpec { per_key: limits, ..unlimited("api") }]).await;
    let of = |n: u128, name: &str| JobSpec {
        key: Some(key(name)),
        group: Some(group(&format!("g{name}"))),
        ..job_using(n, &["api"])
    };
    s.submit((1..=50).map(|n| of(n, &n.to_string()))).await;
    s.store.set_group_paused(s.now, group("g50"), true).await.unwrap();
    assert_eq!(s.drain_one_by_one(100).await.len(), 49);
    s.cancel(&[50], false).await;
    s.submit([of(51, "51"), of(52, "52")]).await;
    let held = s.take_job(51).await;
    s.wait(1);
    assert_eq!(prune(&s, nothing_finished()).await.jobs.values().sum::<u64>(), 50);
    let groups: Vec<_> = s.store.groups().await.unwrap().into_iter().map(|g| g.name).collect();
    assert_eq!(groups, [Some(group("g50")), Some(group("g51")), Some(group("g52"))]);
    s.submit([of(101, "51"), of(102, "52"), of(103, "1"), of(104, "2"), of(150, "50")]).await;
    s.submit([of(113, "1")]).await;
    assert_eq!(s.claim_ids(9).await, [52, 103, 104], "one of each key, and none of a paused group");
    s.done(&held).await;
    assert_eq!(s.claim_ids(9).await, [101]);
    s.check().await;
}

/// A process that still knows what another has pruned notices: its jobs go where they belong.
pub async fn the_other_handle_notices_what_was_pruned(maker: impl Maker) {
    let mut s = Scene::new(&maker).await;
    let mut other = s.beside(&maker).await;
    for round in 0..4_u128 {
        let of = |n: u128, name: &str| job_of(round * 100 + n, name);
        other.submit([of(1, "a"), of(2, "b"), of(3, "b")]).await;
        assert_eq!(s.drain_one_by_one(9).await.len(), 3);
        s.wait(1);
        other.now = s.now;
        let (here, there) = if round % 2 == 0 { (&s, &other) } else { (&other, &s) };
        assert_eq!(prune(here, nothing_finished()).await.jobs.values().sum::<u64>(), 3);
        // New lanes first, so that a number that came free would be given to another lane.
        here.submit([of(4, "c"), of(5, "d")]).await;
        there.submit([of(6, "b"), of(7, "a")]).await;
        let listed = here.store.list(ListRequest { limit: 9, ..Default::default() }).await.unwrap();
        let groups: Vec<_> = listed.rows.iter().map(|job| job.spec.group.clone()).collect();
        assert_eq!(groups, ["a", "b", "d", "c"].map(|name| Some(group(name))));
        there.check().await;
        assert_eq!(there.store.groups().await.unwrap(), here.store.groups().await.unwrap());
        assert_eq!(there.drain_one_by_one(9).await, [4, 5, 6, 7].map(|n| round * 100 + n));
        assert_eq!(prune(there, nothing_finished()).await.jobs.values().sum::<u64>(), 4);
        here.check().await;
    }
}
