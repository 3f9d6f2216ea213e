//! Groups: pause, resume, counts, cancel, retry.

use runcue_core::{ErrorKind, EventKind, JobFilter, StateWord};

use crate::Maker;
use crate::scene::*;

/// A paused group is not handed out; what runs may finish.
pub async fn a_paused_group_waits_and_its_running_jobs_finish(maker: impl Maker) {
    let s = Scene::new(&maker).await;
    s.submit([job_of(1, "a"), job_of(2, "a"), job_of(3, "b")]).await;
    let lease = s.take_job(1).await;
    assert!(s.store.set_group_paused(s.now, group("a"), true).await.unwrap());
    assert!(!s.store.set_group_paused(s.now, group("a"), true).await.unwrap());
    assert_eq!(s.claim_ids(9).await, [3]);
    s.done(&lease).await;
    s.assert_nothing_ready().await;
    assert!(s.store.set_group_paused(s.now, group("a"), false).await.unwrap());
    assert_eq!(s.claim_ids(9).await, [2]);
    let events = s.store.events(0, 100).await.unwrap();
    let told = events.iter().filter(|event| event.kind == EventKind::GroupStatus).count();
    assert_eq!(told, 2);
}

/// A group may be paused before its first job.
pub async fn a_group_may_be_paused_before_its_first_job(maker: impl Maker) {
    let s = Scene::new(&maker).await;
    assert!(s.store.set_group_paused(s.now, group("a"), true).await.unwrap());
    s.submit([job_of(1, "a")]).await;
    s.assert_nothing_ready().await;
    let infos = s.store.groups().await.unwrap();
    assert!(infos.iter().any(|info| info.name == Some(group("a")) && info.paused));
}

/// The counts of a group are those of its jobs.
pub async fn counts_of_a_group_follow_its_jobs(maker: impl Maker) {
    let s = Scene::new(&maker).await;
    s.submit((1..=6).map(|n| job_of(n, "a"))).await;
    s.submit([job(7)]).await;
    let leases = s.claim(7).await;
    s.done(&leases[0]).await;
    let one = leases.iter().find(|lease| lease.job == id(2)).unwrap();
    s.finish(one, failed(ErrorKind::Permanent)).await;
    s.cancel(&[6], false).await;
    let infos = s.store.groups().await.unwrap();
    let counts = infos.iter().find(|info| info.name == Some(group("a"))).unwrap().counts;
    assert_eq!((counts.running, counts.completed, counts.failed, counts.total()), (4, 1, 1, 6));
    s.check().await;
}

/// cancel-group: the queued jobs of the group, and no others.
pub async fn cancelling_a_group_withdraws_its_queued_jobs(maker: impl Maker) {
    let s = Scene::new(&maker).await;
    s.submit([job_of(1, "a"), job_of(2, "a"), job_of(3, "a"), job_of(4, "b")]).await;
    let lease = s.take_job(1).await;
    let filter = JobFilter::of_group(group("a")).in_states([StateWord::Queued]);
    assert_eq!(s.store.cancel(s.now, filter, false).await.unwrap(), 2);
    assert_eq!(s.states(&[2, 3, 4]).await[..2], [StateWord::Cancelled; 2]);
    assert!(!s.job(1).await.life.cancel_requested);
    s.done(&lease).await;
    assert_eq!(s.claim_ids(9).await, [4]);
}

/// retry-failed: the failed jobs of the group, and no others.
pub async fn retrying_a_group_sends_its_failed_jobs_round(maker: impl Maker) {
    let s = Scene::new(&maker).await;
    s.submit([job_of(1, "a"), job_of(2, "a"), job_of(3, "b")]).await;
    for lease in s.claim(3).await {
        let outcome = if lease.job == id(2) { done() } else { failed(ErrorKind::Permanent) };
        s.finish(&lease, outcome).await;
    }
    let bad = [StateWord::Failed, StateWord::Quarantined];
    let filter = JobFilter::of_group(group("a")).in_states(bad);
    assert_eq!(s.store.retry(s.now, filter).await.unwrap(), 1);
    assert_eq!(s.claim_ids(9).await, [1]);
    assert_eq!(s.state(3).await, StateWord::Failed);
}
