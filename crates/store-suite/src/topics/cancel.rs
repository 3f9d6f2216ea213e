//! cancel: at once where a job waits, by asking where it runs, never where it has ended.

use runcue_core::{ErrorKind, JobFilter, JobSpec, StateWord};
use runcue_store::{Extended, Outcome};

use crate::Maker;
use crate::scene::*;

/// A waiting job is withdrawn at once, whatever it waits for.
pub async fn a_waiting_job_is_cancelled_at_once(maker: impl Maker) {
    let s = Scene::new(&maker).await;
    s.submit([job(1), JobSpec { run_at: Some(at(9)), ..job(2) }, job(3), job_after(4, &[3])]).await;
    assert_eq!(s.cancel(&[1, 2, 4], false).await, 3);
    assert_eq!(s.states(&[1, 2, 4]).await, [StateWord::Cancelled; 3]);
    assert_eq!(s.job(1).await.life.finished_at, Some(s.now));
    assert_eq!(s.drain_one_by_one(9).await, [3]);
    assert_eq!(s.state(4).await, StateWord::Cancelled);
    s.check().await;
}

/// A running job is asked to stop through its next heartbeat.
pub async fn a_running_job_is_asked_to_stop(maker: impl Maker) {
    let s = Scene::new(&maker).await;
    s.submit([job(1)]).await;
    let lease = s.take_job(1).await;
    assert_eq!(s.cancel(&[1], false).await, 1);
    assert_eq!(s.cancel(&[1], false).await, 0, "it was asked already");
    assert_eq!(s.state(1).await, StateWord::Running);
    assert_eq!(s.extend(&lease, 30).await, Extended::Held { until: at(30), cancel: true });
    assert_eq!(s.finish(&lease, Outcome::Stopped).await, ended(StateWord::Cancelled));
}

/// However the attempt ends then, it is not tried again; a success counts.
pub async fn a_job_that_was_asked_to_stop_is_not_tried_again(maker: impl Maker) {
    let mut s = Scene::new(&maker).await;
    s.submit((1..=4).map(job)).await;
    let leases = s.claim(4).await;
    s.cancel(&[1, 2, 3, 4], false).await;
    assert_eq!(s.fail(&leases[0]).await, ended(StateWord::Cancelled));
    assert_eq!(s.finish(&leases[1], Outcome::HandBack).await, ended(StateWord::Cancelled));
    s.done(&leases[2]).await;
    s.wait(31);
    s.reap().await;
    assert_eq!(s.state(4).await, StateWord::Cancelled);
    s.assert_nothing_ready().await;
}

/// A job that has ended is left alone.
pub async fn a_job_that_has_ended_is_left_alone(maker: impl Maker) {
    let s = Scene::new(&maker).await;
    s.submit([job(1), job(2)]).await;
    s.run_job(1).await;
    let lease = s.take_job(2).await;
    s.finish(&lease, failed(ErrorKind::Permanent)).await;
    let events = s.store.last_event().await.unwrap();
    assert_eq!(s.cancel(&[1, 2, 99], true).await, 0);
    assert_eq!(s.states(&[1, 2]).await, [StateWord::Completed, StateWord::Failed]);
    assert_eq!(s.store.last_event().await.unwrap(), events);
}

/// Without cascade the dependents fail and say why.
pub async fn without_cascade_dependents_fail(maker: impl Maker) {
    let s = Scene::new(&maker).await;
    s.submit([job(1), job_after(2, &[1]), job_after(3, &[2])]).await;
    s.cancel(&[1], false).await;
    assert_eq!(s.states(&[1, 2, 3]).await[1..], [StateWord::Failed; 2]);
    assert_eq!(s.job(2).await.life.last_error.as_deref(), Some("prerequisite_cancelled"));
    assert_eq!(s.job(3).await.life.last_error.as_deref(), Some("prerequisite_failed"));
}

/// With cascade they are withdrawn too, all the way.
pub async fn with_cascade_dependents_are_withdrawn(maker: impl Maker) {
    let s = Scene::new(&maker).await;
    s.submit([job(1), job_after(2, &[1]), job_after(3, &[2]), job(4), job_after(5, &[4])]).await;
    s.cancel(&[1], true).await;
    assert_eq!(s.states(&[1, 2, 3]).await, [StateWord::Cancelled; 3]);
    assert_eq!(s.drain_one_by_one(9).await, [4, 5]);
}

/// A running job's dependents go with it.
pub async fn with_cascade_dependents_of_a_running_job_are_withdrawn(maker: impl Maker) {
    let s = Scene::new(&maker).await;
    s.submit([job(1), job_after(2, &[1]), job_after(3, &[2])]).await;
    let lease = s.take_job(1).await;
    s.cancel(&[1], true).await;
    s.finish(&lease, Outcome::Stopped).await;
    assert_eq!(s.states(&[1, 2, 3]).await, [StateWord::Cancelled; 3]);
}

/// By filter, any of its words.
pub async fn by_filter(maker: impl Maker) {
    let s = Scene::new(&maker).await;
    s.submit([
        JobSpec { task: task("build"), ..job(1) },
        JobSpec { project: Some("p".to_owned()), ..job(2) },
        JobSpec { labels: words(&["x", "y"]), ..job(3) },
        JobSpec { queue: queue("q"), ..job(4) },
        job(5),
    ])
    .await;
    let filters = [
        JobFilter { task: Some(task("build")), ..JobFilter::default() },
        JobFilter { project: Some("p".to_owned()), ..JobFilter::default() },
        JobFilter { label: Some("y".to_owned()), ..JobFilter::default() },
        JobFilter { queue: Some(queue("q")), ..JobFilter::default() },
    ];
    for filter in filters {
        assert_eq!(s.store.cancel(s.now, filter, false).await.unwrap(), 1);
    }
    assert_eq!(s.claim_ids(9).await, [5]);
}

/// Everything at once, more than any chunk.
pub async fn five_thousand_at_once(maker: impl Maker) {
    let s = Scene::new(&maker).await;
    s.submit((1..=5_000).map(job)).await;
    assert_eq!(s.store.cancel(s.now, JobFilter::default(), false).await.unwrap(), 5_000);
    assert_eq!(s.store.retry(s.now, JobFilter::default()).await.unwrap(), 5_000);
    assert_eq!(s.claim(5_000).await.len(), 5_000);
    s.check().await;
}

/// A withdrawn job frees the services it used.
pub async fn a_stopped_job_frees_its_services(maker: impl Maker) {
    let s = Scene::new(&maker).await;
    s.services([slots("api", 1)]).await;
    s.submit([job_using(1, &["api"]), job_using(2, &["api"])]).await;
    let lease = s.take_job(1).await;
    s.cancel(&[1], false).await;
    s.finish(&lease, Outcome::Stopped).await;
    s.take_job(2).await;
}
