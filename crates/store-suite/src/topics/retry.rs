//! Retry: backoff, what is worth another attempt, quarantine, and replay by a person.

use runcue_core::{Backoff, ErrorKind, JobSpec, RetryPolicy, StateWord};
use runcue_store::Outcome;

use crate::Maker;
use crate::scene::*;

async fn delays(s: &mut Scene, backoff: Backoff) -> Vec<u64> {
    let retry = RetryPolicy {
        backoff,
        max_attempts: 6,
        max_delay: secs(10),
        base_delay: secs(2),
        ..attempts(6)
    };
    s.submit([JobSpec { retry, ..job(1) }]).await;
    let mut delays = Vec::new();
    for _ in 0..5 {
        let lease = s.take_job(1).await;
        s.fail(&lease).await;
        let failed_at = s.now;
        s.assert_nothing_ready().await;
        while s.store.stats(s.now).await.unwrap().counts.queued == 1
            && s.claimable().await.is_none()
        {
            s.wait(1);
        }
        delays.push(s.now.since(failed_at).as_secs());
    }
    delays
}

impl Scene {
    async fn claimable(&self) -> Option<runcue_core::JobId> {
        let found = self.candidates(1, &[]).await;
        found.jobs.first().map(|candidate| candidate.job.id())
    }
}

/// Fixed, linear and exponential delays, up to the longest.
pub async fn delays_grow_as_the_policy_says(maker: impl Maker) {
    for (backoff, expected) in [
        (Backoff::Fixed, [2, 2, 2, 2, 2]),
        (Backoff::Linear, [2, 4, 6, 8, 10]),
        (Backoff::Exponential, [2, 4, 8, 10, 10]),
    ] {
        let mut s = Scene::new(&maker).await;
        assert_eq!(delays(&mut s, backoff).await, expected, "{backoff:?}");
    }
}

/// With jitter the delay lies between half and all, and is the same everywhere.
pub async fn jitter_spreads_the_delays(maker: impl Maker) {
    let s = Scene::new(&maker).await;
    let retry = RetryPolicy { base_delay: secs(100), ..RetryPolicy::default() };
    s.submit((1..=50).map(|n| JobSpec { retry: retry.clone(), ..job(n) })).await;
    let mut due = Vec::new();
    for lease in s.claim(50).await {
        let runcue_store::Finished::Now { retry_at: Some(at), .. } = s.fail(&lease).await else {
            panic!("no retry")
        };
        due.push(at);
    }
    assert!(due.iter().all(|due| *due >= at(50) && *due <= at(100)));
    due.sort();
    due.dedup();
    assert!(due.len() > 40, "spread over {} instants", due.len());
}

/// Attempts used up: quarantined, with what happened each time.
pub async fn the_last_attempt_quarantines(maker: impl Maker) {
    let mut s = Scene::new(&maker).await;
    s.submit([job(1)]).await;
    for n in 1..=3_u128 {
        s.worker = worker(n);
        let lease = s.take_job(1).await;
        let error = format!("boom {n}");
        let kind = if n == 2 { ErrorKind::Timeout } else { ErrorKind::Transient };
        s.finish(&lease, Outcome::Failed { error, kind, code: None, service: None }).await;
        s.wait(5);
    }
    let life = s.job(1).await.life;
    assert_eq!(life.state.word(), StateWord::Quarantined);
    assert_eq!((life.attempt, life.last_error.as_deref()), (3, Some("boom 3")));
    let history: Vec<_> =
        life.failures.iter().map(|f| (f.reason.as_str(), f.attempt, f.worker_id, f.ts)).collect();
    let expected = [
        ("boom 1", 1, Some(worker(1)), at(0)),
        ("boom 2", 2, Some(worker(2)), at(5)),
        ("boom 3", 3, Some(worker(3)), at(10)),
    ];
    assert_eq!(history, expected);
    s.assert_nothing_ready().await;
}

/// A permanent error is never tried again.
pub async fn a_permanent_error_fails_at_once(maker: impl Maker) {
    let s = Scene::new(&maker).await;
    s.submit([job(1)]).await;
    let lease = s.take_job(1).await;
    assert_eq!(s.finish(&lease, failed(ErrorKind::Permanent)).await, ended(StateWord::Failed));
    s.assert_nothing_ready().await;
}

/// retry_on names the kinds and codes that are worth another attempt.
pub async fn retry_on_says_what_is_tried_again(maker: impl Maker) {
    let s = Scene::new(&maker).await;
    let retry = RetryPolicy { retry_on: vec!["timeout".into(), "exit 75".into()], ..attempts(3) };
    s.submit((1..=3).map(|n| JobSpec { retry: retry.clone(), ..job(n) })).await;
    let leases = s.claim(3).await;
    let coded = |code: &str| Outcome::Failed {
        error: "boom".to_owned(),
        kind: ErrorKind::Transient,
        code: Some(code.to_owned()),
        service: None,
    };
    assert_eq!(s.finish(&leases[0], failed(ErrorKind::Timeout)).await, retried(at(1)));
    assert_eq!(s.finish(&leases[1], coded("exit 75")).await, retried(at(1)));
    assert_eq!(s.finish(&leases[2], coded("exit 1")).await, ended(StateWord::Failed));
}

/// A person sends it round again: a fresh round of attempts, counted on.
pub async fn replay_keeps_counting_attempts(maker: impl Maker) {
    let mut s = Scene::new(&maker).await;
    s.submit([JobSpec { retry: attempts(2), ..job(1) }]).await;
    for round in 0..2_u32 {
        for n in 1..=2 {
            let lease = s.take_job(1).await;
            assert_eq!(lease.attempt, round * 2 + n);
            s.fail(&lease).await;
            s.wait(5);
        }
        assert_eq!(s.state(1).await, StateWord::Quarantined);
        assert_eq!(s.retry(&[1]).await, 1);
        let life = s.job(1).await.life;
        assert_eq!((life.state.word(), life.finished_at), (StateWord::Queued, None));
        assert_eq!(life.failures.len() as u32, (round + 1) * 2);
    }
    s.run_job(1).await;
}

/// Failed, cancelled and quarantined jobs can be replayed; others are left alone.
pub async fn only_jobs_that_ended_badly_are_replayed(maker: impl Maker) {
    let s = Scene::new(&maker).await;
    s.submit((1..=4).map(job)).await;
    let leases = s.claim(3).await;
    s.done(&leases[0]).await;
    s.finish(&leases[1], failed(ErrorKind::Permanent)).await;
    s.cancel(&[4], false).await;
    assert_eq!(s.retry(&[1, 2, 3, 4]).await, 2);
    let expected = [StateWord::Completed, StateWord::Queued, StateWord::Running, StateWord::Queued];
    assert_eq!(s.states(&[1, 2, 3, 4]).await, expected);
    s.done(&leases[2]).await;
    assert_eq!(s.claim_ids(9).await, [2, 4]);
    s.check().await;
}

/// Dependents that failed only because of it come along, and theirs.
pub async fn replay_revives_the_dependents_that_failed_with_it(maker: impl Maker) {
    let s = Scene::new(&maker).await;
    s.submit([job(1), job_after(2, &[1]), job_after(3, &[2]), job(4), job_after(5, &[1, 4])]).await;
    let leases = s.claim(2).await;
    s.finish(&leases[0], failed(ErrorKind::Permanent)).await;
    assert_eq!(s.states(&[2, 3, 5]).await, [StateWord::Failed; 3]);
    assert_eq!(s.retry(&[1]).await, 4);
    assert_eq!(s.states(&[1, 2, 3, 5]).await, [StateWord::Queued; 4]);
    s.done(&leases[1]).await;
    assert_eq!(s.drain_one_by_one(9).await, [1, 2, 3, 5]);
    s.check().await;
}

/// A dependent of two failed jobs waits until both are replayed.
pub async fn a_dependent_of_two_failures_fails_until_both_are_replayed(maker: impl Maker) {
    let s = Scene::new(&maker).await;
    s.submit([job(1), job(2), job_after(3, &[1, 2])]).await;
    for lease in s.claim(2).await {
        s.finish(&lease, failed(ErrorKind::Permanent)).await;
    }
    s.retry(&[1]).await;
    assert_eq!(s.state(3).await, StateWord::Failed, "job 2 is still failed");
    s.retry(&[2]).await;
    assert_eq!(s.state(3).await, StateWord::Queued);
    assert_eq!(s.drain_one_by_one(9).await, [1, 2, 3]);
}
