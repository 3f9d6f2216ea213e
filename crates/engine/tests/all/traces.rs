//! Traces: the span of a submission, one span per attempt below it, and what handlers and commands learn of it.

use runcue_core::TraceParent;
use runcue_engine::{
    Cue, Failure, IdSource, JobExt, NewJob, SeededIds, Task, Tracer, Work, testing,
};
use runcue_process::CommandSpec;
use runcue_store::MemoryStore;
use runcue_trace::{Ended, Sampler, Spans, Value};
use serde_json::Value as Json;

use crate::support::{Record, retry};

fn tracer() -> (Tracer, Spans) {
    let ids = SeededIds::new(7);
    Tracer::new(Sampler::default(), move || ids.bits())
}

fn theirs() -> TraceParent {
    "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".parse().unwrap()
}

fn all(spans: &mut Spans) -> Vec<Ended> {
    std::iter::from_fn(|| spans.next_now()).collect()
}

fn value<'a>(span: &'a Ended, name: &str) -> Option<&'a Value> {
    span.details.attributes.iter().find(|(key, _)| *key == name).map(|(_, value)| value)
}

fn text(span: &Ended, name: &str) -> String {
    match value(span, name) {
        Some(Value::Text(text)) => text.clone(),
        other => panic!("{name} is {other:?}"),
    }
}

/// A task that fails the first time, and records where it stands in the trace.
fn second_time(seen: &Record<Option<TraceParent>>) -> Task {
    let seen = seen.clone();
    Task::new("t").unwrap().retry(retry(3)).handler(move |work: Work| {
        seen.add(work.traceparent());
        async move { if work.attempt() == 1 { Err(Failure::transient("not yet")) } else { Ok(()) } }
    })
}

#[tokio::test(start_paused = true)]
async fn every_attempt_is_a_span_below_the_submission() {
    let (tracer, mut spans) = tracer();
    let seen = Record::default();
    let builder = testing::cue().tracer(tracer).worker_name("w1").task(second_time(&seen));
    let cue = builder.build().await.unwrap();
    cue.start();
    let id = cue.submit(NewJob::of("t").group("g").traceparent(theirs())).await.unwrap();
    let job = cue.wait(id).await.unwrap();
    let spans = all(&mut spans);
    let [submit, first, second] = spans.as_slice() else { panic!("{spans:?}") };
    assert_eq!(submit.parent, Some(theirs().span()));
    assert_eq!(submit.details.name, "submit t");
    assert_eq!(job.spec.traceparent, Some(submit.place));
    for (n, span) in [first, second].into_iter().enumerate() {
        assert_eq!(span.place.trace(), theirs().trace());
        assert_eq!(span.parent, Some(submit.place.span()));
        assert_eq!(span.details.name, "run t");
        assert_eq!(value(span, "runcue.attempt"), Some(&Value::Number(n as i64 + 1)));
        assert_eq!(text(span, "runcue.job.id"), id.to_string());
        assert_eq!(text(span, "runcue.group"), "g");
        assert_eq!(text(span, "runcue.worker"), "w1");
    }
    assert_eq!(first.details.error.as_deref(), Some("not yet"));
    assert_eq!(
        (text(first, "runcue.outcome"), text(second, "runcue.outcome")),
        ("failed".into(), "completed".into())
    );
    assert_eq!(second.details.error, None);
    assert_eq!(seen.all(), [Some(first.place), Some(second.place)]);
    assert!(first.ended <= second.began);
}

#[tokio::test(start_paused = true)]
async fn jobs_of_one_submission_without_a_trace_share_a_new_one() {
    let (tracer, mut spans) = tracer();
    let task = Task::new("t").unwrap().handler(|_| async { Ok(()) });
    let cue = testing::cue().tracer(tracer).task(task).build().await.unwrap();
    cue.submit_all(vec![NewJob::of("t"), NewJob::of("t")]).await.unwrap();
    cue.run_inline().await.unwrap();
    let spans = all(&mut spans);
    let [submit, first, second] = spans.as_slice() else { panic!("{spans:?}") };
    assert_eq!((submit.parent, submit.details.name.as_str()), (None, "submit"));
    assert_eq!(value(submit, "runcue.jobs"), Some(&Value::Number(2)));
    assert!([first, second].iter().all(|span| span.parent == Some(submit.place.span())));
}

#[tokio::test(start_paused = true)]
async fn a_refused_submission_is_told_as_such() {
    let (tracer, mut spans) = tracer();
    let task = Task::new("t").unwrap().handler(|_| async { Ok(()) });
    let cue = testing::cue().tracer(tracer).task(task).build().await.unwrap();
    cue.submit(NewJob::of("t").service("nowhere")).await.unwrap_err();
    let error = all(&mut spans)[0].details.error.clone().unwrap();
    assert!(error.contains("nowhere"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn without_a_tracer_what_came_is_passed_on() {
    let seen = Record::default();
    let cue = testing::cue().task(second_time(&seen)).build().await.unwrap();
    cue.start();
    let with = cue.submit(NewJob::of("t").traceparent(theirs())).await.unwrap();
    assert_eq!(cue.wait(with).await.unwrap().spec.traceparent, Some(theirs()));
    let without = cue.submit(NewJob::of("t")).await.unwrap();
    assert_eq!(cue.wait(without).await.unwrap().spec.traceparent, None);
    assert_eq!(seen.all(), [Some(theirs()), Some(theirs()), None, None]);
}

#[tokio::test]
async fn a_command_finds_its_trace_in_its_environment() {
    let script = "echo ${TRACEPARENT-none}";
    let task = Task::new("sh").unwrap().command(|_| Ok(CommandSpec::shell(script.to_owned())));
    let cue = Cue::builder(MemoryStore::new()).task(task).build().await.unwrap();
    for (job, expected) in [
        (NewJob::of("sh").traceparent(theirs()), theirs().to_string()),
        (NewJob::of("sh"), "none".to_owned()),
    ] {
        let id = cue.submit(job).await.unwrap();
        cue.run_inline().await.unwrap();
        let result: Json = cue.get(id).await.unwrap().result().unwrap();
        assert_eq!(result["stdout"], format!("{expected}\n"));
    }
}
