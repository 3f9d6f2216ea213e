//! Metrics, structured logs, job logs.

use std::fmt::Debug;
use std::sync::{Arc, Mutex};

use runcue_core::ServiceSpec;
use runcue_engine::{Failure, NewJob, Task, testing};
use tracing::field::{Field, Visit};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

use crate::support::{quick, rated, retry, secs, service};

#[tokio::test(start_paused = true)]
async fn metrics_have_their_documented_names() {
    let bad = Task::new("bad").unwrap().service("ssh").unwrap().retry(retry(1));
    let bad = bad.handler(|_| async { Err::<(), _>(Failure::transient("no")) });
    let good = Task::new("good").unwrap().service("openai").unwrap().handler(|_| async { Ok(()) });
    let ssh = ServiceSpec { circuit_threshold: Some(1), ..service("ssh") };
    let cue = testing::cue()
        .service(ssh)
        .service(rated("openai", 3, secs(60)))
        .task(bad)
        .task(good)
        .build()
        .await
        .unwrap();
    cue.start();
    cue.submit(NewJob::of("bad")).await.unwrap();
    cue.submit_all((0..4).map(|_| NewJob::of("good")).collect()).await.unwrap();
    cue.submit(NewJob::of("good").delay(secs(3600))).await.unwrap();
    tokio::time::sleep(secs(1)).await;
    cue.refresh_metrics().await.unwrap();
    let text = cue.metrics().render();
    for line in [
        "work_units_queued 2",
        "work_units{stage=\"ready\"} 1",
        "work_units{stage=\"delayed\"} 1",
        "work_units{stage=\"blocked\"} 0",
        "work_units{stage=\"running\"} 0",
        "work_units_completed_total 3",
        "work_units_failed_total 1",
        "service_requests_total{service=\"openai\"} 3",
        "service_requests_total{service=\"ssh\"} 1",
        "circuit_breaker_open{service=\"ssh\"} 1",
        "circuit_breaker_open{service=\"openai\"} 0",
        "callback_errors_total 0",
        "callback_duration_seconds_bucket{le=\"+Inf\"} 0",
        "# TYPE work_units_completed counter",
        "# TYPE callback_duration_seconds histogram",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
    }
    assert!(!text.contains("service_rate_limited_total{service=\"openai\"} 0"), "{text}");
    assert!(text.ends_with("# EOF\n"));
}

#[derive(Clone, Default)]
struct Capture(Arc<Mutex<Vec<String>>>);

struct Fields(String);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            self.0.insert_str(0, &format!("{value:?}:"));
        } else {
            self.0.push_str(&format!(" {}={value:?}", field.name()));
        }
    }
}

impl<S: tracing::Subscriber> Layer<S> for Capture {
    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        let mut fields = Fields(String::new());
        event.record(&mut fields);
        self.0.lock().unwrap().push(fields.0);
    }
}

#[tokio::test(start_paused = true)]
async fn logs_have_their_named_fields() {
    let capture = Capture::default();
    let subscriber = tracing_subscriber::registry().with(capture.clone());
    let _guard = tracing::subscriber::set_default(subscriber);
    let task = Task::new("extract").unwrap().service("ssh").unwrap().retry(retry(3));
    let task = task.handler(|_| async { Err::<(), _>(Failure::transient("timeout")) });
    let ssh = ServiceSpec { circuit_threshold: Some(2), ..service("ssh") };
    let cue = testing::cue().service(ssh).service(rated("api", 1, secs(60))).task(task);
    let limited =
        Task::new("limited").unwrap().service("api").unwrap().handler(|_| async { Ok(()) });
    let cue = cue.task(limited).build().await.unwrap();
    cue.start();
    let id = cue.submit(NewJob::of("extract")).await.unwrap();
    cue.submit_all(vec![NewJob::of("limited"), NewJob::of("limited")]).await.unwrap();
    cue.wait(id).await.unwrap();
    tokio::time::sleep(secs(1)).await;
    let lines = capture.0.lock().unwrap().clone();
    for line in [
        format!("work_started: work_unit_id={id} task_type=extract attempt=2"),
        format!(
            "work_failed: work_unit_id={id} task_type=extract attempt=1 error=\"timeout\" will_retry=true"
        ),
        format!(
            "work_failed: work_unit_id={id} task_type=extract attempt=3 error=\"timeout\" will_retry=false"
        ),
        "circuit_opened: service=ssh failures=2".to_owned(),
        "service_rate_limited: service=api current_rate=1 limit=1".to_owned(),
    ] {
        assert!(lines.contains(&line), "{line} in {lines:#?}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_job_logs_is_kept_with_it() {
    let task = Task::new("t").unwrap().handler(|work| async move {
        work.log("one");
        tokio::time::sleep(secs(1)).await;
        work.log("two");
        work.log("three");
        Ok(())
    });
    let cue = testing::cue().task(task).build().await.unwrap();
    cue.start();
    let id = cue.submit(NewJob::of("t")).await.unwrap();
    cue.wait(id).await.unwrap();
    let logs = cue.store().logs(id, 0).await.unwrap();
    let texts: Vec<_> = logs.into_iter().map(|chunk| chunk.text).collect();
    assert_eq!(texts, ["one\n", "two\nthree\n"], "and the last lines are there when it has ended");
}

#[tokio::test(start_paused = true)]
async fn retention_is_announced_a_round_before_it_deletes() {
    let capture = Capture::default();
    let subscriber = tracing_subscriber::registry().with(capture.clone());
    let _guard = tracing::subscriber::set_default(subscriber);
    let mut retention = runcue_store::Retention::default();
    retention.completed.age = secs(3600);
    let cue = testing::cue()
        .task(quick("t"))
        .retention(Some(retention))
        .prune_every(secs(600))
        .build()
        .await
        .unwrap();
    cue.start();
    let id = cue.submit(NewJob::of("t")).await.unwrap();
    cue.wait(id).await.unwrap();
    let said = |words: &str| capture.0.lock().unwrap().iter().any(|line| line.contains(words));
    while !said("will be deleted") {
        tokio::time::sleep(secs(60)).await;
    }
    assert!(cue.get(id).await.is_ok(), "announced, not deleted");
    tokio::time::sleep(secs(600)).await;
    assert!(said("retention: deleted"));
    assert!(cue.get(id).await.is_err());
}
