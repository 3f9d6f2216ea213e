//! One claimed job, from its claim to its outcome: a flat line of steps.
//!
//! ```text
//! in time? ─▶ find the handler ─▶ run it, watched ─▶ judge how it ended ─▶ report it
//! ```
//!
//! The watch: the handler's future is dropped when its time is up, when it was asked to stop and did not
//! within a grace, or when the lease was lost. A panic is caught and is a transient failure.

use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use runcue_core::{ErrorKind, GroupName, Json, TraceParent};
use runcue_store::Outcome;
use runcue_trace::{self as trace, Attempt, Details, Span};

use crate::failure::Failure;
use crate::running::{Running, Stop};
use crate::shared::Shared;
use crate::task::Handler;
use crate::work::Work;

/// How long a handler has to notice that the engine stops, after all the time it was given before.
const LAST_MOMENT: Duration = Duration::from_millis(250);

/// How the watch over a handler ended.
enum End {
    Returned(Result<Json, Failure>),
    Panicked(String),
    TimedOut(Duration),
    Abandoned,
}

/// Runs one held job and reports how it ended.
pub(crate) async fn execute(shared: &Shared, running: &Arc<Running>) {
    let outcome = match handler_in_time(shared, running) {
        Ok(handler) => {
            log_start(running);
            let parent = running.job.spec.traceparent;
            let span = shared.tracer.start(parent, || shared.clock.now());
            let place = span.as_ref().map(Span::place).or(parent);
            let end = watch(shared, running, handler, place).await;
            let outcome = judge(running, end);
            if let Some(span) = span {
                span.end(shared.clock.now(), || details(shared, running, outcome.as_ref()));
            }
            outcome
        }
        Err(outcome) => Some(outcome),
    };
    report(shared, running, outcome);
}

/// The handler, or what follows without one. A job of a rated service that starts later than it was counted
/// for would make its window wrong, so it goes back instead; and so does one whose lease had lapsed by the time the
/// store's answer came, as another may have run it by now, and one that nobody wants any more as the engine stops.
/// None of them has begun, so none has used its services.
fn handler_in_time(shared: &Shared, running: &Running) -> Result<Arc<dyn Handler>, Outcome> {
    let now = shared.clock.now();
    let late = running.lease.start_by.is_some_and(|by| now > by);
    if late || now >= running.lease.until {
        shared.start_within.took(now.since(running.asked));
        tracing::debug!(work_unit_id = %running.id(), "claimed but too late to start");
        return Err(Outcome::Unstarted);
    }
    if running.why_stop() == Stop::HandBack {
        return Err(Outcome::Unstarted);
    }
    let task = &running.job.spec.task;
    shared.handler(task).ok_or_else(|| {
        Failure::permanent(format!("no handler for task {task} on this worker")).into_outcome()
    })
}

fn log_start(running: &Running) {
    tracing::info!(
        work_unit_id = %running.id(),
        task_type = %running.job.spec.task,
        attempt = running.lease.attempt,
        "work_started"
    );
}

async fn watch(
    shared: &Shared,
    running: &Arc<Running>,
    handler: Arc<dyn Handler>,
    traceparent: Option<TraceParent>,
) -> End {
    let timeout = running.job.spec.timeout;
    let patience = handler.patience();
    let work = Work {
        running: Arc::clone(running),
        jobs: Arc::clone(&shared.running),
        logs: Arc::clone(&shared.logs),
        timeout,
        traceparent,
    };
    let mut attempt = pin!(caught(async move { handler.run(work).await }));
    tokio::select! {
        biased;
        end = &mut attempt => return end,
        () = running.cancel.cancelled() => {}
        () = elapse(timeout.map(|timeout| timeout + patience)) => {
            return End::TimedOut(timeout.unwrap_or_default());
        }
    }
    let grace = match running.why_stop() {
        Stop::Lost => Duration::ZERO,
        Stop::HandBack => LAST_MOMENT.max(patience),
        Stop::Cancelled | Stop::Not => shared.settings.cancel_grace.max(patience),
    };
    tokio::select! {
        biased;
        end = &mut attempt => end,
        () = tokio::time::sleep(grace) => End::Abandoned,
    }
}

async fn elapse(timeout: Option<Duration>) {
    match timeout {
        Some(timeout) => tokio::time::sleep(timeout).await,
        None => std::future::pending().await,
    }
}

/// Polls a future and turns its panic into an end like any other.
async fn caught(attempt: impl Future<Output = Result<Json, Failure>>) -> End {
    let mut attempt = pin!(attempt);
    std::future::poll_fn(|cx| {
        // A handler that panicked is dropped and never polled again, so nobody sees what it left behind.
        let polled = std::panic::catch_unwind(AssertUnwindSafe(|| attempt.as_mut().poll(cx)));
        match polled {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(returned)) => Poll::Ready(End::Returned(returned)),
            Err(panic) => Poll::Ready(End::Panicked(panic_message(&*panic))),
        }
    })
    .await
}

pub(crate) fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "of an unknown kind".to_owned())
}

/// What the store is told; nothing if the job is somebody else's by now.
fn judge(running: &Running, end: End) -> Option<Outcome> {
    match (running.why_stop(), end) {
        (Stop::Lost, _) => None,
        (Stop::Not, End::Returned(Ok(result))) => Some(done(result)),
        // It finished in spite of being asked to stop, and never looked: the work is done.
        (_, End::Returned(Ok(result))) if !running.was_seen() => Some(done(result)),
        (Stop::Cancelled, _) => Some(Outcome::Stopped),
        (Stop::HandBack, _) => Some(Outcome::HandBack),
        (Stop::Not, End::Returned(Err(failure))) => Some(failure.into_outcome()),
        (Stop::Not, End::Panicked(message)) => Some(Outcome::Failed {
            error: format!("panic: {message}"),
            kind: ErrorKind::Transient,
            code: Some("panic".to_owned()),
            service: None,
        }),
        (Stop::Not, End::TimedOut(after)) => Some(Failure::timeout(after).into_outcome()),
        (Stop::Not, End::Abandoned) => Some(Outcome::HandBack),
    }
}

fn done(result: Json) -> Outcome {
    let result = (!result.is_null()).then_some(result);
    Outcome::Done { result, result_key: None }
}

/// What is told of an attempt in its trace.
fn details(shared: &Shared, running: &Running, outcome: Option<&Outcome>) -> Details {
    let spec = &running.job.spec;
    let attempt = Attempt {
        job: &spec.id.to_string(),
        task: spec.task.as_str(),
        group: spec.group.as_ref().map(GroupName::as_str),
        number: running.lease.attempt,
        worker: &shared.worker.name,
    };
    attempt.details(match outcome {
        Some(Outcome::Done { .. }) => trace::Outcome::Completed,
        Some(Outcome::Failed { error, .. }) => trace::Outcome::Failed(error.clone()),
        Some(Outcome::RateLimited { .. }) => trace::Outcome::RateLimited,
        Some(Outcome::HandBack | Outcome::Unstarted) => trace::Outcome::HandedBack,
        Some(Outcome::Stopped) => trace::Outcome::Cancelled,
        None => trace::Outcome::Lost,
    })
}

fn report(shared: &Shared, running: &Arc<Running>, outcome: Option<Outcome>) {
    if !running.end() {
        return;
    }
    match outcome {
        Some(outcome) => shared.completer.push(Arc::clone(running), outcome),
        None => shared.running.remove([running]),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use runcue_core::{Rate, ServiceName, ServiceSpec, StateWord};

    use super::*;
    use crate::dispatch::{claim, run_one};
    use crate::{NewJob, Task, testing};

    /// Claims a job of a rated service, lets that much time pass, and runs it.
    async fn started_after(pause: Duration) -> (usize, runcue_core::Job) {
        let runs = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&runs);
        let task = Task::new("t").unwrap().service("api").unwrap().handler(move |_| {
            count.fetch_add(1, Ordering::Relaxed);
            async { Ok(()) }
        });
        let rates = vec![Rate { limit: 5, window: Duration::from_secs(60) }];
        let api = ServiceSpec { rates, ..ServiceSpec::new(ServiceName::new("api").unwrap()) };
        let cue = testing::cue().service(api).task(task).build().await.unwrap();
        let id = cue.submit(NewJob::of("t")).await.unwrap();
        let shared = cue.shared();
        let held = claim(shared, shared.clock.now(), 1).await.unwrap();
        tokio::time::sleep(pause).await;
        for running in held {
            run_one(Arc::clone(shared), running).await;
        }
        shared.completer.run_once(shared, shared.clock.now()).await.unwrap();
        (runs.load(Ordering::Relaxed), cue.get(id).await.unwrap())
    }

    #[tokio::test(start_paused = true)]
    async fn a_job_of_a_rated_service_that_would_start_late_goes_back() {
        let (runs, job) = started_after(Duration::from_millis(30)).await;
        assert_eq!(runs, 0);
        assert_eq!((job.life.state.word(), job.life.attempt), (StateWord::Queued, 0));
        let (runs, job) = started_after(Duration::from_millis(20)).await;
        assert_eq!(runs, 1);
        assert_eq!(job.life.state.word(), StateWord::Completed);
    }
}
