//! The application's callbacks: their answers, their time limit, and what holds when they hang or panic.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use runcue_core::{JobId, ServiceSpec, StateWord};
use runcue_engine::{
    Cue, Failure, NewJob, PriorityContext, Task, dependency_check_file, priority_by_wait_time,
    testing,
};

use crate::support::{Record, millis, quick, rated, recording, retry, secs, service, word};

fn urgency(context: &PriorityContext<'_>) -> f64 {
    context.work.spec.params.to::<f64>().unwrap()
}

#[tokio::test(start_paused = true)]
async fn the_best_score_runs_first() {
    let record = Record::default();
    let cue = testing::cue().task(recording("t", &record)).priority(urgency).build().await.unwrap();
    for (name, score) in [("low", 0.1), ("high", 0.9), ("middle", 0.5), ("beyond", 7.0)] {
        cue.submit(NewJob::of("t").target(name).params(&score).unwrap()).await.unwrap();
    }
    cue.drain().await.unwrap();
    assert_eq!(record.all(), ["beyond", "high", "middle", "low"]);
    let text = cue.metrics().render();
    assert!(text.contains("callback_duration_seconds_count 4"), "scored once each: {text}");
}

#[tokio::test(start_paused = true)]
async fn the_context_tells_depth_wait_and_pressure() {
    let record = Record::default();
    let seen = record.clone();
    let task = Task::new("t").unwrap().service("api").unwrap().handler(|_| async { Ok(()) });
    let cue = testing::cue()
        .service(rated("api", 10, secs(60)))
        .task(task)
        .priority(move |context| {
            let pressure = context.service_pressure["api"];
            seen.add((context.queue_depth, context.wait_time.as_secs(), pressure));
            0.5
        })
        .build()
        .await
        .unwrap();
    cue.submit_all(vec![NewJob::of("t"), NewJob::of("t")]).await.unwrap();
    tokio::time::sleep(secs(7)).await;
    cue.run_inline().await.unwrap();
    assert_eq!(record.all()[0], (2, 7, 0.0));
}

#[tokio::test(start_paused = true)]
async fn a_callback_that_hangs_or_panics_gets_the_default_and_is_counted() {
    let record = Record::default();
    let (release, hang) = std::sync::mpsc::channel::<()>();
    let hang = std::sync::Mutex::new(hang);
    let cue = testing::cue()
        .task(recording("t", &record))
        .priority(move |context| match context.work.spec.target.as_deref() {
            Some("hangs") => hang.lock().unwrap().recv().map_or(1.0, |()| 1.0),
            Some("panics") => std::panic::resume_unwind(Box::new("no score")),
            Some("nan") => f64::NAN,
            Some("low") => 0.4,
            _ => 0.6,
        })
        .build()
        .await
        .unwrap();
    for name in ["low", "hangs", "panics", "nan", "high"] {
        cue.submit(NewJob::of("t").target(name)).await.unwrap();
    }
    let start = std::time::Instant::now();
    cue.drain().await.unwrap();
    assert!(start.elapsed() < secs(2), "dispatch is not stalled");
    assert_eq!(record.all(), ["high", "hangs", "panics", "nan", "low"]);
    assert_eq!(cue.metrics().callback_errors(), 2, "the hang and the panic");
    drop(release);
}

#[tokio::test(start_paused = true)]
async fn dependents_wait_until_the_application_has_the_output() {
    let there = Arc::new(AtomicBool::new(false));
    let check = Arc::clone(&there);
    let cue = testing::cue()
        .task(quick("t"))
        .dependency_satisfied(move |_| check.load(Ordering::SeqCst))
        .build()
        .await
        .unwrap();
    cue.start();
    let first = cue.submit(NewJob::of("t")).await.unwrap();
    let second = cue.submit(NewJob::of("t").depends_on([first])).await.unwrap();
    cue.wait(first).await.unwrap();
    tokio::time::sleep(secs(5)).await;
    assert_eq!(word(&cue.get(second).await.unwrap()), StateWord::Queued);
    there.store(true, Ordering::SeqCst);
    assert_eq!(word(&cue.wait(second).await.unwrap()), StateWord::Completed);
}

#[tokio::test(start_paused = true)]
async fn a_dependency_check_that_panics_means_not_satisfied() {
    let cue = testing::cue()
        .task(quick("t"))
        .dependency_satisfied(|_| std::panic::resume_unwind(Box::new("database gone")))
        .build()
        .await
        .unwrap();
    let first = cue.submit(NewJob::of("t")).await.unwrap();
    let second = cue.submit(NewJob::of("t").depends_on([first])).await.unwrap();
    cue.run_inline().await.unwrap();
    assert_eq!(word(&cue.get(first).await.unwrap()), StateWord::Completed);
    assert_eq!(word(&cue.get(second).await.unwrap()), StateWord::Queued);
    assert!(cue.metrics().callback_errors() > 0);
}

#[tokio::test(start_paused = true)]
async fn a_file_can_be_the_output() {
    let directory = tempfile::tempdir().unwrap();
    let pattern = format!("{}/{{id}}.out", directory.path().display());
    let cue = testing::cue()
        .task(quick("t"))
        .dependency_satisfied(dependency_check_file(pattern))
        .build()
        .await
        .unwrap();
    let first = cue.submit(NewJob::of("t")).await.unwrap();
    let second = cue.submit(NewJob::of("t").depends_on([first])).await.unwrap();
    cue.run_inline().await.unwrap();
    assert_eq!(word(&cue.get(second).await.unwrap()), StateWord::Queued);
    std::fs::write(directory.path().join(format!("{first}.out")), "").unwrap();
    tokio::time::sleep(millis(200)).await;
    cue.run_inline().await.unwrap();
    assert_eq!(word(&cue.get(second).await.unwrap()), StateWord::Completed);
}

#[tokio::test(start_paused = true)]
async fn by_wait_time_the_oldest_goes_first_whatever_its_priority() {
    let record = Record::default();
    let cue = testing::cue()
        .task(recording("t", &record))
        .priority(priority_by_wait_time())
        .build()
        .await
        .unwrap();
    for (name, priority) in [("old", 0), ("newer", 5), ("newest", 9)] {
        cue.submit(NewJob::of("t").target(name).priority(priority)).await.unwrap();
        tokio::time::sleep(secs(60)).await;
    }
    cue.drain().await.unwrap();
    assert_eq!(record.all(), ["old", "newer", "newest"]);
}

/// A cue whose application has the output of one job only; so many jobs that wait for another's output, and
/// behind them, in the same lane, one that waits for it. Answers that last one.
async fn behind_unsatisfied(heads: usize) -> (Cue, JobId) {
    let there: Arc<OnceLock<JobId>> = Arc::default();
    let check = Arc::clone(&there);
    let cue = testing::cue()
        .task(quick("t"))
        .slots(4)
        .dependency_satisfied(move |id| check.get() == Some(&id))
        .build()
        .await
        .unwrap();
    let missing = cue.submit(NewJob::of("t")).await.unwrap();
    let output = cue.submit(NewJob::of("t")).await.unwrap();
    there.set(output).unwrap();
    let waiting = |_| NewJob::of("t").depends_on([missing]);
    cue.submit_all((0..heads).map(waiting).collect()).await.unwrap();
    let last = cue.submit(NewJob::of("t").depends_on([output])).await.unwrap();
    (cue, last)
}

#[tokio::test(start_paused = true)]
async fn five_hundred_unsatisfied_jobs_do_not_hide_the_next() {
    let (cue, last) = behind_unsatisfied(500).await;
    assert_eq!(cue.run_inline().await.unwrap(), 3, "the two prerequisites and the last");
    assert_eq!(word(&cue.get(last).await.unwrap()), StateWord::Completed);
    assert_eq!(cue.stats().await.unwrap().counts.queued, 500);
}

#[tokio::test(start_paused = true)]
async fn nor_do_more_than_one_dispatch_looks_at() {
    let (cue, last) = behind_unsatisfied(9_000).await;
    cue.start();
    assert_eq!(word(&cue.wait(last).await.unwrap()), StateWord::Completed);
    assert_eq!(cue.stats().await.unwrap().counts.queued, 9_000);
}

#[tokio::test(start_paused = true)]
async fn with_scores_a_limited_service_is_looked_at_when_it_opens_and_not_before() {
    let record = Record::default();
    let (starts, scored) = (record.clone(), Arc::new(AtomicUsize::new(0)));
    let begin = tokio::time::Instant::now();
    let task = Task::new("t").unwrap().service("api").unwrap().handler(move |_| {
        starts.add(begin.elapsed().as_secs());
        async { Ok(()) }
    });
    let count = Arc::clone(&scored);
    let cue = testing::cue()
        .service(rated("api", 1, secs(600)))
        .task(task)
        .poll(secs(7 * 24 * 3600))
        .priority(move |_| {
            count.fetch_add(1, Ordering::SeqCst);
            0.5
        })
        .build()
        .await
        .unwrap();
    cue.submit_all((0..4).map(|_| NewJob::of("t")).collect()).await.unwrap();
    cue.start();
    cue.drain().await.unwrap();
    assert_eq!(record.all(), [0, 600, 1_200, 1_800]);
    assert_eq!(scored.load(Ordering::SeqCst), 4 + 3 + 2 + 1, "once per job and opening");
}

#[tokio::test(start_paused = true)]
async fn with_scores_a_breaker_still_gets_its_probe() {
    let task = Task::new("t").unwrap().service("api").unwrap().retry(retry(1)).handler(|work| {
        let fails = work.target() == Some("fails");
        async move { if fails { Err(Failure::transient("down")) } else { Ok(()) } }
    });
    let api =
        ServiceSpec { circuit_threshold: Some(1), circuit_timeout: secs(60), ..service("api") };
    let cue = testing::cue().service(api).task(task).priority(|_| 0.5).build().await.unwrap();
    cue.submit(NewJob::of("t").target("fails")).await.unwrap();
    cue.submit_all((0..3).map(|_| NewJob::of("t")).collect()).await.unwrap();
    cue.drain().await.unwrap();
    assert_eq!(cue.stats().await.unwrap().counts.completed, 3);
}

#[tokio::test(start_paused = true)]
async fn with_a_dependency_check_alone_groups_still_take_turns() {
    let record = Record::default();
    let cue = testing::cue()
        .task(recording("t", &record))
        .dependency_satisfied(|_| true)
        .slots(4)
        .build()
        .await
        .unwrap();
    for name in ["a", "b", "c"] {
        let jobs = (0..3).map(|n| NewJob::of("t").target(format!("{name}{n}")).group(name));
        cue.submit_all(jobs.collect()).await.unwrap();
    }
    cue.start();
    cue.drain().await.unwrap();
    assert_eq!(record.all(), ["a0", "b0", "c0", "a1", "b1", "c1", "a2", "b2", "c2"]);
}
