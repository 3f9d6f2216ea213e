//! Withdrawing jobs: queued, running, with their dependents, and what a handler can see of it.

use runcue_core::StateWord;
use runcue_engine::{Failure, NewJob, Task, testing};

use crate::support::{endless, quick, secs, until_running, word};

#[tokio::test(start_paused = true)]
async fn a_running_job_sees_that_it_is_cancelled_and_stops() {
    let task = Task::new("t").unwrap().handler(|work| async move {
        work.cancellation().cancelled().await;
        assert!(work.cancelled());
        Ok("stopped early")
    });
    let cue = testing::cue().task(task).build().await.unwrap();
    cue.start();
    let id = cue.submit(NewJob::of("t")).await.unwrap();
    until_running(&cue, id).await;
    let start = cue.clock().now();
    assert!(cue.cancel(id, false).await.unwrap());
    assert_eq!(word(&cue.wait(id).await.unwrap()), StateWord::Cancelled);
    assert!(cue.clock().now().since(start) < secs(1), "within a second");
}

#[tokio::test(start_paused = true)]
async fn a_job_that_does_not_stop_is_dropped_after_the_grace() {
    let cue = testing::cue().task(endless("t")).cancel_grace(secs(5)).build().await.unwrap();
    cue.start();
    let id = cue.submit(NewJob::of("t")).await.unwrap();
    until_running(&cue, id).await;
    let start = cue.clock().now();
    cue.cancel(id, false).await.unwrap();
    assert_eq!(word(&cue.wait(id).await.unwrap()), StateWord::Cancelled);
    let took = cue.clock().now().since(start);
    assert!(took >= secs(5) && took < secs(6), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn work_that_was_done_in_spite_of_a_cancel_counts() {
    let task = Task::new("t").unwrap().handler(|_| async {
        tokio::time::sleep(secs(2)).await;
        Ok(7)
    });
    let cue = testing::cue().task(task).build().await.unwrap();
    cue.start();
    let id = cue.submit(NewJob::of("t")).await.unwrap();
    until_running(&cue, id).await;
    cue.cancel(id, false).await.unwrap();
    assert_eq!(cue.result::<u32>(id).await.unwrap(), 7);
}

#[tokio::test(start_paused = true)]
async fn a_failure_after_a_cancel_is_a_cancel() {
    let task = Task::new("t").unwrap().handler(|work| async move {
        work.cancellation().cancelled().await;
        Err::<(), _>(Failure::transient("connection closed"))
    });
    let cue = testing::cue().task(task).build().await.unwrap();
    cue.start();
    let id = cue.submit(NewJob::of("t")).await.unwrap();
    until_running(&cue, id).await;
    cue.cancel(id, false).await.unwrap();
    assert_eq!(word(&cue.wait(id).await.unwrap()), StateWord::Cancelled);
}

#[tokio::test(start_paused = true)]
async fn dependents_are_cancelled_with_it_or_fail() {
    let cue = testing::cue().task(endless("t")).task(quick("next")).build().await.unwrap();
    cue.start();
    for (cascade, state) in [(true, StateWord::Cancelled), (false, StateWord::Failed)] {
        let id = cue.submit(NewJob::of("t")).await.unwrap();
        let next = cue.submit(NewJob::of("next").depends_on([id])).await.unwrap();
        until_running(&cue, id).await;
        cue.cancel(id, cascade).await.unwrap();
        let next = cue.wait(next).await.unwrap();
        assert_eq!(word(&next), state, "cascade {cascade}");
        if !cascade {
            assert_eq!(next.life.last_error.as_deref(), Some("prerequisite_cancelled"));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_queued_job_is_cancelled_at_once_and_a_finished_one_not_at_all() {
    let cue = testing::cue().task(quick("t")).build().await.unwrap();
    let done = cue.submit(NewJob::of("t")).await.unwrap();
    cue.run_inline().await.unwrap();
    let queued = cue.submit(NewJob::of("t")).await.unwrap();
    assert!(cue.cancel(queued, false).await.unwrap());
    assert_eq!(word(&cue.get(queued).await.unwrap()), StateWord::Cancelled);
    assert!(!cue.cancel(done, false).await.unwrap());
    assert_eq!(word(&cue.get(done).await.unwrap()), StateWord::Completed);
}
