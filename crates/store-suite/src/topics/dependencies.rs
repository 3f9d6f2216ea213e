//! Dependencies: fan-in, fan-out, failures that spread, deadlines for waiting.

use runcue_core::{ErrorKind, EventKind, JobSpec, State, StateWord, Wait};
use runcue_store::Finish;

use crate::Maker;
use crate::scene::*;

/// A fan-in fires once, when the last prerequisite completes, in the same step.
pub async fn a_fan_in_fires_when_the_last_is_done(maker: impl Maker) {
    let s = Scene::new(&maker).await;
    s.submit((1..=50).map(job).chain([job_after(99, &(1..=50).collect::<Vec<_>>())])).await;
    let leases = s.claim(50).await;
    for (n, lease) in leases.iter().enumerate() {
        let left = u32::try_from(50 - n).unwrap();
        assert_eq!(s.job(99).await.life.state, State::Queued(Wait::Prerequisites(left)));
        s.done(lease).await;
    }
    assert_eq!(s.job(99).await.life.state, State::Queued(Wait::Turn));
    s.run_job(99).await;
}

/// All prerequisites in one finish.
pub async fn a_fan_in_fires_when_all_finish_together(maker: impl Maker) {
    let s = Scene::new(&maker).await;
    s.submit((1..=50).map(job).chain([job_after(99, &(1..=50).collect::<Vec<_>>())])).await;
    let ends = s.claim(50).await.into_iter().map(|lease| Finish { lease, outcome: done() });
    s.store.finish(s.now, ends.collect()).await.unwrap();
    s.run_job(99).await;
}

/// One job frees many.
pub async fn a_fan_out_frees_all(maker: impl Maker) {
    let s = Scene::new(&maker).await;
    s.submit([job(1)].into_iter().chain((2..=100).map(|n| job_after(n, &[1])))).await;
    s.run_job(1).await;
    assert_eq!(s.claim_ids(200).await, (2..=100).collect::<Vec<_>>());
}

/// A diamond runs in order, its end once.
pub async fn a_diamond_runs_in_order(maker: impl Maker) {
    let s = Scene::new(&maker).await;
    s.submit([job(1), job_after(2, &[1]), job_after(3, &[1]), job_after(4, &[2, 3])]).await;
    assert_eq!(s.drain_one_by_one(9).await, [1, 2, 3, 4]);
    assert_eq!(s.store.relatives(id(4)).await.unwrap(), (vec![id(2), id(3)], vec![]));
    assert_eq!(s.store.relatives(id(1)).await.unwrap(), (vec![], vec![id(2), id(3)]));
}

/// A failure fails everything behind it, at once.
pub async fn a_failed_prerequisite_fails_its_dependents_at_once(maker: impl Maker) {
    let s = Scene::new(&maker).await;
    s.submit([job(1), job(9), job_after(2, &[1, 9]), job_after(3, &[2]), job_after(4, &[9])]).await;
    let leases = s.claim(2).await;
    s.finish(&leases[0], failed(ErrorKind::Permanent)).await;
    assert_eq!(
        s.states(&[2, 3, 4]).await,
        [StateWord::Failed, StateWord::Failed, StateWord::Queued]
    );
    for n in [2, 3] {
        let life = s.job(n).await.life;
        assert_eq!(life.last_error.as_deref(), Some("prerequisite_failed"));
        assert_eq!(s.story(n).await, [EventKind::Queued, EventKind::Failed]);
    }
    s.done(&leases[1]).await;
    assert_eq!(s.claim_ids(9).await, [4]);
    s.check().await;
}

/// A quarantined prerequisite counts as failed.
pub async fn a_quarantined_prerequisite_fails_its_dependents(maker: impl Maker) {
    let mut s = Scene::new(&maker).await;
    s.submit([JobSpec { retry: attempts(1), ..job(1) }, job_after(2, &[1])]).await;
    s.take_job(1).await;
    s.wait(31);
    s.reap().await;
    assert_eq!(s.states(&[1, 2]).await, [StateWord::Quarantined, StateWord::Failed]);
}

/// Prerequisites that ended before the submission.
pub async fn finished_prerequisites_are_not_waited_for(maker: impl Maker) {
    let s = Scene::new(&maker).await;
    s.submit([job(1), job(2), job(3)]).await;
    s.run_job(1).await;
    let lease = s.take_job(2).await;
    s.finish(&lease, failed(ErrorKind::Permanent)).await;
    s.cancel(&[3], false).await;
    s.submit([
        job_after(11, &[1]),
        job_after(12, &[2, 1]),
        job_after(13, &[3]),
        job_after(14, &[13]),
    ])
    .await;
    assert_eq!(s.states(&[11, 12, 13, 14]).await[0], StateWord::Queued);
    assert_eq!(s.states(&[12, 13, 14]).await, [StateWord::Failed; 3]);
    let error = |job: runcue_core::Job| job.life.last_error.unwrap();
    assert_eq!(error(s.job(12).await), "prerequisite_failed");
    assert_eq!(error(s.job(13).await), "prerequisite_cancelled");
    assert_eq!(s.claim_ids(9).await, [11]);
    s.check().await;
}

/// Waiting for too long fails, and what waits behind with it.
pub async fn dependency_timeout_fails_a_job_that_waits_too_long(maker: impl Maker) {
    let mut s = Scene::new(&maker).await;
    let patient = JobSpec { dependency_timeout: Some(secs(20)), ..job_after(2, &[1]) };
    s.submit([job(1), patient, job_after(3, &[2]), job_after(4, &[1])]).await;
    s.wait(19);
    assert_eq!(s.reap().await.overdue, []);
    s.wait(1);
    assert_eq!(s.reap().await.overdue, [id(2)]);
    assert_eq!(s.job(2).await.life.last_error.as_deref(), Some("dependency_timeout"));
    assert_eq!(
        s.states(&[2, 3, 4]).await,
        [StateWord::Failed, StateWord::Failed, StateWord::Queued]
    );
}

/// Once the prerequisites are done the timeout is over.
pub async fn dependency_timeout_ends_with_the_prerequisites(maker: impl Maker) {
    let mut s = Scene::new(&maker).await;
    s.submit([job(1), JobSpec { dependency_timeout: Some(secs(20)), ..job_after(2, &[1]) }]).await;
    s.run_job(1).await;
    s.wait(100);
    assert_eq!(s.reap().await.overdue, []);
    s.take_job(2).await;
}

/// run_at holds after the prerequisites too.
pub async fn run_at_holds_after_the_prerequisites(maker: impl Maker) {
    let mut s = Scene::new(&maker).await;
    s.submit([job(1), JobSpec { run_at: Some(at(60)), ..job_after(2, &[1]) }]).await;
    s.run_job(1).await;
    s.assert_nothing_ready().await;
    assert_eq!(s.job(2).await.life.state, State::Queued(Wait::Until(at(60))));
    s.wait(60);
    s.take_job(2).await;
}

/// A prerequisite named twice is waited for once.
pub async fn a_prerequisite_named_twice_counts_once(maker: impl Maker) {
    let s = Scene::new(&maker).await;
    s.submit([job(1)]).await;
    let answers = s.try_submit(vec![job_after(2, &[1, 1])]).await.unwrap();
    assert_eq!(answers.len(), 1);
    s.run_job(1).await;
    s.run_job(2).await;
}

/// A long chain fails in one step.
pub async fn a_chain_of_two_thousand_fails_in_one_step(maker: impl Maker) {
    let s = Scene::new(&maker).await;
    s.submit([job(1)].into_iter().chain((2..=2_000).map(|n| job_after(n, &[n - 1])))).await;
    let lease = s.take_job(1).await;
    s.finish(&lease, failed(ErrorKind::Permanent)).await;
    assert_eq!(s.store.stats(s.now).await.unwrap().counts.failed, 2_000);
    assert_eq!(s.retry(&[1]).await, 2_000);
    assert_eq!(s.store.stats(s.now).await.unwrap().blocked, 1_999);
}
