//! Jobs that wait for others: order, failure and withdrawal of prerequisites.

use runcue_core::StateWord;
use runcue_engine::{Failure, NewJob, Task, testing};

use crate::support::{Record, quick, recording, retry, secs, word};

#[tokio::test(start_paused = true)]
async fn a_job_runs_after_all_it_depends_on() {
    let record = Record::default();
    let cue = testing::cue().task(recording("t", &record)).build().await.unwrap();
    let (a, b, c) = (cue.new_id(), cue.new_id(), cue.new_id());
    let job = |name: &str, id| NewJob::of("t").target(name).id(id);
    let batch = vec![job("c", c).depends_on([a, b]), job("b", b).depends_on([a]), job("a", a)];
    cue.submit_all(batch).await.unwrap();
    cue.start();
    assert_eq!(word(&cue.wait(c).await.unwrap()), StateWord::Completed);
    assert_eq!(record.all(), ["a", "b", "c"]);
    cue.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn dependents_of_a_failed_job_fail_at_once() {
    let bad =
        Task::new("bad").unwrap().handler(|_| async { Err::<(), _>(Failure::permanent("no")) });
    let cue = testing::cue().task(bad).task(quick("t")).build().await.unwrap();
    let bad = cue.submit(NewJob::of("bad")).await.unwrap();
    let next = cue.submit(NewJob::of("t").depends_on([bad])).await.unwrap();
    let last = cue.submit(NewJob::of("t").depends_on([next])).await.unwrap();
    cue.drain().await.unwrap();
    for id in [next, last] {
        let job = cue.get(id).await.unwrap();
        assert_eq!(word(&job), StateWord::Failed);
        assert_eq!(job.life.last_error.as_deref(), Some("prerequisite_failed"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_dependency_timeout_is_kept_to_the_second() {
    let slow = Task::new("slow").unwrap().handler(|_| async {
        tokio::time::sleep(secs(3600)).await;
        Ok(())
    });
    let cue = testing::cue().task(slow).task(quick("t")).build().await.unwrap();
    cue.start();
    let first = cue.submit(NewJob::of("slow")).await.unwrap();
    let start = cue.clock().now();
    let waits = NewJob::of("t").depends_on([first]).dependency_timeout(secs(42));
    let job = cue.submit(waits).await.unwrap();
    let job = cue.wait(job).await.unwrap();
    assert_eq!(job.life.last_error.as_deref(), Some("dependency_timeout"));
    let waited = cue.clock().now().since(start);
    assert!(waited >= secs(42) && waited < secs(43), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn retries_of_a_prerequisite_do_not_fail_its_dependents() {
    let flaky = Task::new("flaky").unwrap().retry(retry(3)).handler(|work| async move {
        if work.attempt() < 3 { Err(Failure::transient("not yet")) } else { Ok(()) }
    });
    let cue = testing::cue().task(flaky).task(quick("t")).build().await.unwrap();
    let flaky = cue.submit(NewJob::of("flaky")).await.unwrap();
    let next = cue.submit(NewJob::of("t").depends_on([flaky])).await.unwrap();
    cue.drain().await.unwrap();
    assert_eq!(word(&cue.get(next).await.unwrap()), StateWord::Completed);
}
