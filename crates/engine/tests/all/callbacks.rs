//! The application's callbacks: their answers, their time limit, and what holds when they hang or panic.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use runcue_core::StateWord;
use runcue_engine::{
    NewJob, PriorityContext, Task, dependency_check_file, priority_by_wait_time, testing,
};

use crate::support::{Record, millis, quick, rated, recording, secs, word};

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
