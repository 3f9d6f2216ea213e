//! Attempts: backoff, kinds of failure, timeouts, panics, and jobs that are set aside.

use runcue_core::{ErrorKind, StateWord};
use runcue_engine::{Failure, NewJob, Task, testing};

use crate::support::{Record, endless, quick, retry, secs, word};

#[tokio::test(start_paused = true)]
async fn attempts_are_spaced_by_the_backoff() {
    let record = Record::default();
    let starts = record.clone();
    let task = Task::new("t").unwrap().retry(retry(4)).handler(move |_| {
        starts.add(tokio::time::Instant::now());
        async { Err::<(), _>(Failure::transient("no")) }
    });
    let cue = testing::cue().task(task).build().await.unwrap();
    cue.start();
    let id = cue.submit(NewJob::of("t")).await.unwrap();
    let job = cue.wait(id).await.unwrap();
    assert_eq!(word(&job), StateWord::Quarantined);
    assert_eq!(job.life.failures.len(), 4);
    let starts = record.all();
    let gaps: Vec<u64> = starts.windows(2).map(|w| (w[1] - w[0]).as_secs()).collect();
    assert_eq!(gaps, [1, 2, 4]);
}

#[tokio::test(start_paused = true)]
async fn a_permanent_failure_is_not_retried() {
    let task = Task::new("t")
        .unwrap()
        .handler(|_| async { Err::<(), _>(Failure::permanent("bad input")) });
    let cue = testing::cue().task(task).build().await.unwrap();
    let id = cue.submit(NewJob::of("t")).await.unwrap();
    assert_eq!(cue.run_inline().await.unwrap(), 1);
    let job = cue.get(id).await.unwrap();
    assert_eq!(word(&job), StateWord::Failed);
    assert_eq!(job.life.last_error.as_deref(), Some("bad input"));
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_takes_too_long_is_dropped_and_tried_again() {
    let task = endless("t").timeout(secs(5)).retry(retry(2));
    let cue = testing::cue().task(task).build().await.unwrap();
    cue.start();
    let id = cue.submit(NewJob::of("t")).await.unwrap();
    let start = cue.clock().now();
    let job = cue.wait(id).await.unwrap();
    assert_eq!(word(&job), StateWord::Quarantined);
    assert_eq!(job.life.last_error.as_deref(), Some("timeout: ran longer than 5s"));
    assert!(job.life.failures.iter().all(|failure| failure.kind == ErrorKind::Timeout));
    let took = cue.clock().now().since(start);
    assert!(took >= secs(11) && took < secs(12), "two attempts and a second between: {took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_panic_is_a_transient_failure_and_the_engine_goes_on() {
    let task = Task::new("t").unwrap().retry(retry(2)).handler(|work| async move {
        assert!(work.attempt() > 1, "first time unlucky");
        Ok("fine")
    });
    let cue = testing::cue().task(task).task(quick("other")).build().await.unwrap();
    cue.start();
    let id = cue.submit(NewJob::of("t")).await.unwrap();
    assert_eq!(cue.result::<String>(id).await.unwrap(), "fine");
    let job = cue.get(id).await.unwrap();
    assert_eq!(job.life.failures[0].reason, "panic: first time unlucky");
    assert_eq!(job.life.failures[0].kind, ErrorKind::Transient);
    let other = cue.submit(NewJob::of("other")).await.unwrap();
    assert_eq!(word(&cue.wait(other).await.unwrap()), StateWord::Completed);
}

#[tokio::test(start_paused = true)]
async fn params_that_do_not_fit_fail_for_good() {
    let task = Task::new("t").unwrap().handler(|work| async move { work.params::<u32>() });
    let cue = testing::cue().task(task).build().await.unwrap();
    let id = cue.submit(NewJob::of("t").params("text").unwrap()).await.unwrap();
    cue.run_inline().await.unwrap();
    let job = cue.get(id).await.unwrap();
    assert_eq!(word(&job), StateWord::Failed);
    assert!(job.life.last_error.unwrap().contains("invalid type: string"));
}

#[tokio::test(start_paused = true)]
async fn a_result_that_is_too_large_fails_for_good_and_names_the_fix() {
    let task = Task::new("t").unwrap().handler(|_| async { Ok("x".repeat(2 << 20)) });
    let cue = testing::cue().task(task).task(quick("other")).build().await.unwrap();
    let id = cue.submit(NewJob::of("t")).await.unwrap();
    cue.drain().await.unwrap();
    let job = cue.get(id).await.unwrap();
    assert_eq!(word(&job), StateWord::Failed);
    assert!(job.life.last_error.unwrap().contains("address"));
}

#[tokio::test(start_paused = true)]
async fn a_person_can_send_a_failed_job_round_again() {
    let task = Task::new("t").unwrap().handler(|work| async move {
        if work.attempt() == 1 { Err(Failure::permanent("no")) } else { Ok(work.attempt()) }
    });
    let cue = testing::cue().task(task).build().await.unwrap();
    let id = cue.submit(NewJob::of("t")).await.unwrap();
    cue.drain().await.unwrap();
    assert!(cue.result::<u32>(id).await.unwrap_err().to_string().contains("is failed"));
    assert!(cue.retry(id).await.unwrap());
    cue.drain().await.unwrap();
    assert_eq!(cue.result::<u32>(id).await.unwrap(), 2);
}

#[tokio::test(start_paused = true)]
async fn delayed_jobs_run_when_their_time_has_come() {
    let record = Record::default();
    let starts = record.clone();
    let task = Task::new("t").unwrap().handler(move |_| {
        starts.add(tokio::time::Instant::now());
        async { Ok(()) }
    });
    let cue = testing::cue().task(task).build().await.unwrap();
    cue.start();
    let begin = tokio::time::Instant::now();
    let late = cue.submit(NewJob::of("t").delay(secs(3600))).await.unwrap();
    cue.wait(late).await.unwrap();
    let after = record.all()[0] - begin;
    assert!(after >= secs(3600) && after < secs(3601), "{after:?}");
}

#[tokio::test(start_paused = true)]
async fn a_job_that_is_not_started_in_time_expires() {
    let cue = testing::cue().task(quick("t")).slots(1).build().await.unwrap();
    cue.pause_group("g").await.unwrap();
    cue.start();
    let job = NewJob::of("t").group("g").expires_in(secs(30));
    let id = cue.submit(job).await.unwrap();
    let job = cue.wait(id).await.unwrap();
    assert_eq!(word(&job), StateWord::Cancelled);
    assert_eq!(job.life.last_error.as_deref(), Some("expired: not started in time"));
}
