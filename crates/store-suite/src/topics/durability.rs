//! What a durable store keeps when it is opened again, and what a second process sees.

use runcue_core::{ErrorKind, JobSpec, OnFull, QueueSpec, StateWord, TaskSpec};
use runcue_store::{Finished, Submitted};

use crate::Maker;
use crate::scene::*;

/// Everything that was acknowledged is there, exactly.
pub async fn everything_acknowledged_is_there_after_a_restart(maker: impl Maker) {
    let mut s = Scene::new(&maker).await;
    s.services([slots("api", 2)]).await;
    s.store.upsert_tasks(s.now, vec![TaskSpec::new(task("work"))]).await.unwrap();
    let spec =
        QueueSpec { name: queue("q"), max_queued: Some(5), on_full: OnFull::Block, paused: true };
    s.store.upsert_queues(s.now, vec![spec]).await.unwrap();
    s.submit((1..=20).map(|n| job_of(n, ["a", "b", "c"][usize::try_from(n).unwrap() % 3]))).await;
    s.submit([job_after(21, &[1, 2]), JobSpec { run_at: Some(at(90)), ..job(22) }]).await;
    s.submit([JobSpec { idempotency_key: Some("k".to_owned()), ..job_using(23, &["api"]) }]).await;
    let leases = s.claim(8).await;
    s.done(&leases[0]).await;
    s.fail(&leases[1]).await;
    s.finish(&leases[2], failed(ErrorKind::Permanent)).await;
    s.cancel(&[20], false).await;
    s.store.set_group_paused(s.now, group("b"), true).await.unwrap();
    let ids: Vec<_> = (1..=23).map(id).collect();
    let before = (
        s.store.get(ids.clone()).await.unwrap(),
        s.store.stats(s.now).await.unwrap(),
        s.store.groups().await.unwrap(),
        s.store.queues().await.unwrap(),
        s.store.services(s.now).await.unwrap(),
        s.store.tasks().await.unwrap(),
        s.store.events(0, 1_000).await.unwrap(),
    );
    s = s.reopened(&maker).await;
    let after = (
        s.store.get(ids).await.unwrap(),
        s.store.stats(s.now).await.unwrap(),
        s.store.groups().await.unwrap(),
        s.store.queues().await.unwrap(),
        s.store.services(s.now).await.unwrap(),
        s.store.tasks().await.unwrap(),
        s.store.events(0, 1_000).await.unwrap(),
    );
    assert_eq!(before, after);
    s.check().await;
}

/// Work goes on where it stopped: leases hold, order holds, numbers go on.
pub async fn work_goes_on_after_a_restart(maker: impl Maker) {
    let mut s = Scene::new(&maker).await;
    s.submit([job_of(1, "a"), job_of(2, "a"), job_of(3, "b"), job_of(4, "b")]).await;
    let held = s.take_job(1).await;
    s = s.reopened(&maker).await;
    let next = s.take_job(3).await;
    assert!(next.token > held.token);
    s.done(&held).await;
    s = s.reopened(&maker).await;
    assert_eq!(s.claim_ids(9).await, [2, 4]);
    let again = s.try_submit(vec![job_of(1, "a")]).await.unwrap();
    assert_eq!(again, [Submitted::Existing(id(1))]);
    s.wait(31);
    s = s.reopened(&maker).await;
    assert_eq!(s.reap().await.requeued.len(), 3);
    let numbers: Vec<u64> =
        s.store.events(0, 1_000).await.unwrap().iter().map(|event| event.seq).collect();
    assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>());
}

/// What one process does another sees, at once and exactly once.
pub async fn two_handles_see_each_other(maker: impl Maker) {
    let s = Scene::new(&maker).await;
    let other = s.beside(&maker).await;
    s.submit((1..=10).map(job)).await;
    let mut all = Vec::new();
    for _ in 0..5 {
        all.extend(s.claim(1).await);
        all.extend(other.claim(1).await);
    }
    let ids: Vec<u128> = all.iter().map(|lease| lease.job.as_u128()).collect();
    assert_eq!(ids, (1..=10).collect::<Vec<_>>());
    s.assert_nothing_ready().await;
    for lease in &all {
        other.done(lease).await;
        assert_eq!(s.finish(lease, done()).await, Finished::Lost);
    }
    assert_eq!(s.store.stats(s.now).await.unwrap().counts.completed, 10);
    assert_eq!(s.store.last_event().await.unwrap(), other.store.last_event().await.unwrap());
    s.check().await;
}

/// Rotation is one for all processes.
pub async fn two_handles_take_turns_as_one(maker: impl Maker) {
    let s = Scene::new(&maker).await;
    let other = s.beside(&maker).await;
    s.submit((1..=5).map(|n| job_of(n, "a"))).await;
    other.submit((11..=15).map(|n| job_of(n, "b"))).await;
    let mut order = Vec::new();
    for n in 0..10 {
        order.extend(if n % 3 == 0 { other.claim_ids(1).await } else { s.claim_ids(1).await });
    }
    assert_eq!(order, [1, 11, 2, 12, 3, 13, 4, 14, 5, 15]);
}

/// A pause, a cancel and a limit reach the other process with its next call.
pub async fn changes_reach_the_other_handle(maker: impl Maker) {
    let s = Scene::new(&maker).await;
    s.services([slots("api", 1)]).await;
    let other = s.beside(&maker).await;
    s.submit([job_of(1, "a"), job_of(2, "a"), job_using(3, &["api"]), job_using(4, &["api"])])
        .await;
    let lease = other.take_job(1).await;
    s.store.set_group_paused(s.now, group("a"), true).await.unwrap();
    assert_eq!(other.claim_ids(9).await, [3]);
    s.services([slots("api", 2)]).await;
    assert_eq!(other.claim_ids(9).await, [4]);
    s.cancel(&[1], false).await;
    let beat = other.extend(&lease, 30).await;
    assert!(matches!(beat, runcue_store::Extended::Held { cancel: true, .. }), "{beat:?}");
    assert_eq!(s.state(2).await, StateWord::Queued);
}

/// Dependents are resolved whoever finishes.
pub async fn a_dependent_is_freed_by_the_other_handle(maker: impl Maker) {
    let s = Scene::new(&maker).await;
    let other = s.beside(&maker).await;
    s.submit([job(1), job_after(2, &[1])]).await;
    let lease = s.take_job(1).await;
    s.assert_nothing_ready().await;
    other.done(&lease).await;
    s.take_job(2).await;
}

/// Many tasks on two handles: each job is handed out once.
pub async fn concurrent_claims_hand_each_job_out_once(maker: impl Maker) {
    let s = Scene::new(&maker).await;
    let other = s.beside(&maker).await;
    s.services([slots("api", 3)]).await;
    s.submit((1..=200).map(|n| if n % 4 == 0 { job_using(n, &["api"]) } else { job(n) })).await;
    let mut hands = Vec::new();
    for n in 0..8_u128 {
        let (store, now) = (if n % 2 == 0 { &s } else { &other }.store.clone(), s.now);
        hands.push(tokio::spawn(async move {
            let mut got = Vec::new();
            loop {
                let request = runcue_store::ClaimRequest::new(worker(10 + n), 3);
                let jobs = store.claim(now, request).await.unwrap().jobs;
                if jobs.is_empty() {
                    return got;
                }
                got.extend(jobs.into_iter().map(|(job, _)| job.id().as_u128()));
            }
        }));
    }
    let mut all = Vec::new();
    for hand in hands {
        all.extend(hand.await.unwrap());
    }
    assert_eq!(all.len(), 150 + 3, "150 that need nothing and 3 slots");
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 153);
}
