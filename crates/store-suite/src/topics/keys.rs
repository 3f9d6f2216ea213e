//! Idempotency keys: a live or completed job answers for its key; after a failure it depends.

use runcue_core::submission::AfterFailure;
use runcue_core::{ErrorKind, JobSpec, StateWord};
use runcue_store::{StoreError, SubmitBatch, Submitted};

use crate::Maker;
use crate::scene::*;

fn keyed(n: u128, key: &str) -> JobSpec {
    JobSpec { idempotency_key: Some(key.to_owned()), ..job(n) }
}

async fn again(s: &Scene, n: u128, after_failure: AfterFailure) -> runcue_store::Result<Submitted> {
    let batch = SubmitBatch { jobs: vec![keyed(n, "k")], after_failure };
    s.store.submit(s.now, batch).await.map(|answers| answers[0])
}

/// A waiting, leased, running or completed job is returned instead of a second one.
pub async fn a_live_or_completed_job_answers_for_its_key(maker: impl Maker) {
    let mut s = Scene::new(&maker).await;
    s.submit([JobSpec { run_at: Some(at(5)), ..keyed(1, "k") }]).await;
    let existing = Submitted::Existing(id(1));
    assert_eq!(again(&s, 2, AfterFailure::Resubmit).await.unwrap(), existing);
    s.wait(5);
    assert_eq!(again(&s, 2, AfterFailure::Reject).await.unwrap(), existing);
    let mut request = s.request(1);
    request.start = false;
    let (_, lease) = s.claim_as(request).await.pop().unwrap();
    assert_eq!(again(&s, 2, AfterFailure::Resubmit).await.unwrap(), existing);
    s.extend(&lease, 30).await;
    assert_eq!(again(&s, 2, AfterFailure::Resubmit).await.unwrap(), existing);
    s.done(&lease).await;
    assert_eq!(again(&s, 2, AfterFailure::Resubmit).await.unwrap(), existing);
    assert_eq!(s.store.get(vec![id(2)]).await.unwrap(), [None]);
}

async fn end_badly(s: &Scene, how: StateWord) {
    match how {
        StateWord::Failed => {
            let lease = s.take().await;
            s.finish(&lease, failed(ErrorKind::Permanent)).await;
        }
        StateWord::Cancelled => assert_eq!(s.cancel(&[1], false).await, 1),
        _ => {
            let lease = s.take().await;
            s.fail(&lease).await;
        }
    }
    assert_eq!(s.state(1).await, how);
}

const BAD_ENDS: [StateWord; 3] = [StateWord::Failed, StateWord::Cancelled, StateWord::Quarantined];

/// With resubmit the second job takes the key over, and then answers for it.
pub async fn after_a_failure_a_second_job_takes_the_key_over(maker: impl Maker) {
    for how in BAD_ENDS {
        let s = Scene::new(&maker).await;
        s.submit([JobSpec { retry: attempts(1), ..keyed(1, "k") }]).await;
        end_badly(&s, how).await;
        assert_eq!(again(&s, 2, AfterFailure::Resubmit).await.unwrap(), Submitted::New(id(2)));
        assert_eq!(again(&s, 3, AfterFailure::Resubmit).await.unwrap(), Submitted::Existing(id(2)));
        assert_eq!(s.state(1).await, how);
        s.check().await;
    }
}

/// The first batch is sent again after that: it gets its own job, not its successor.
pub async fn a_job_sent_again_answers_for_itself_even_after_a_takeover(maker: impl Maker) {
    let s = Scene::new(&maker).await;
    s.submit([keyed(1, "k")]).await;
    end_badly(&s, StateWord::Cancelled).await;
    s.submit([keyed(2, "k")]).await;
    assert_eq!(again(&s, 1, AfterFailure::Resubmit).await.unwrap(), Submitted::Existing(id(1)));
}

/// With reject the second job is refused, with the job to retry.
pub async fn after_a_failure_a_second_job_can_be_refused(maker: impl Maker) {
    for how in BAD_ENDS {
        let s = Scene::new(&maker).await;
        s.submit([JobSpec { retry: attempts(1), ..keyed(1, "k") }]).await;
        end_badly(&s, how).await;
        let error = again(&s, 2, AfterFailure::Reject).await.unwrap_err();
        assert!(matches!(error, StoreError::KeyTaken { index: 0, existing } if existing == id(1)));
        assert_eq!(again(&s, 1, AfterFailure::Reject).await.unwrap(), Submitted::Existing(id(1)));
        assert_eq!(s.store.get(vec![id(2)]).await.unwrap(), [None]);
    }
}

/// The key of a retried job answers again.
pub async fn a_retried_job_answers_for_its_key_again(maker: impl Maker) {
    let s = Scene::new(&maker).await;
    s.submit([keyed(1, "k")]).await;
    end_badly(&s, StateWord::Cancelled).await;
    assert_eq!(s.retry(&[1]).await, 1);
    assert_eq!(again(&s, 2, AfterFailure::Resubmit).await.unwrap(), Submitted::Existing(id(1)));
}

/// Two jobs of one batch with the same key are one job.
pub async fn a_key_twice_in_a_batch_is_one_job(maker: impl Maker) {
    let s = Scene::new(&maker).await;
    let answers = s.try_submit(vec![keyed(1, "k"), keyed(2, "k"), keyed(3, "l")]).await.unwrap();
    assert_eq!(answers, [Submitted::New(id(1)), Submitted::Existing(id(1)), Submitted::New(id(3))]);
    assert_eq!(s.claim_ids(9).await, [1, 3]);
}

/// A dependent of a job that turned out to exist waits for that one.
pub async fn a_dependent_waits_for_the_job_that_answers(maker: impl Maker) {
    let s = Scene::new(&maker).await;
    s.submit([keyed(1, "k")]).await;
    let answers = s.try_submit(vec![keyed(2, "k"), job_after(3, &[2])]).await.unwrap();
    assert_eq!(answers, [Submitted::Existing(id(1)), Submitted::New(id(3))]);
    assert_eq!(s.drain_one_by_one(9).await, [1, 3]);
}

/// A pruned job gives its key free.
pub async fn a_pruned_job_gives_its_key_free(maker: impl Maker) {
    let mut s = Scene::new(&maker).await;
    s.submit([keyed(1, "k")]).await;
    s.run_job(1).await;
    s.wait(8 * 24 * 3600);
    s.store.prune(s.now, Default::default(), false).await.unwrap();
    assert_eq!(again(&s, 2, AfterFailure::Resubmit).await.unwrap(), Submitted::New(id(2)));
}
