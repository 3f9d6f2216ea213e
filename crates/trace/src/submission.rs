//! The spans of a submission: one for each trace that its jobs came with, which for nearly all submissions is one.
//! Jobs without a trace share a new one.

use std::collections::HashMap;

use runcue_core::{JobId, JobSpec, TaskName, Timestamp, TraceParent};

use crate::span::{Details, Kind, Span, Tracer, Value};

/// A submission under way.
#[derive(Debug, Default)]
pub struct Submission {
    spans: Vec<Begun>,
}

#[derive(Debug)]
struct Begun {
    span: Span,
    task: TaskName,
    job: JobId,
    jobs: usize,
}

impl Submission {
    /// Begins the spans, and has the jobs carry them in place of what they came with. Does nothing if tracing is off.
    pub fn begin(tracer: &Tracer, jobs: &mut [JobSpec], now: impl FnOnce() -> Timestamp) -> Self {
        let mut spans: Vec<Begun> = Vec::new();
        if !tracer.is_on() {
            return Self { spans };
        }
        let now = now();
        let mut known: HashMap<Option<TraceParent>, usize> = HashMap::new();
        for job in jobs {
            let place = known.get(&job.traceparent).copied();
            let Some(place) = place.or_else(|| {
                let span = tracer.start(job.traceparent, || now)?;
                spans.push(Begun { span, task: job.task.clone(), job: job.id, jobs: 0 });
                known.insert(job.traceparent, spans.len() - 1);
                Some(spans.len() - 1)
            }) else {
                continue;
            };
            let begun = &mut spans[place];
            begun.jobs += 1;
            job.traceparent = Some(begun.span.place());
        }
        Self { spans }
    }

    /// Ends them.
    pub fn end(self, now: impl FnOnce() -> Timestamp, error: Option<String>) {
        if self.spans.is_empty() {
            return;
        }
        let now = now();
        for Begun { span, task, job, jobs } in self.spans {
            let error = error.clone();
            span.end(now, || {
                let mut attributes = vec![("runcue.jobs", Value::from(jobs))];
                let mut name = "submit".to_owned();
                if jobs == 1 {
                    name = format!("submit {task}");
                    attributes.push(("runcue.job.id", job.to_string().into()));
                    attributes.push(("runcue.task", task.as_str().into()));
                }
                Details { name, kind: Kind::Producer, attributes, error }
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::sampler::Sampler;

    const NOW: Timestamp = Timestamp::from_millis(1_700_000_000_000);

    fn job(n: u128, traceparent: Option<TraceParent>) -> JobSpec {
        let task = TaskName::new("t").unwrap();
        JobSpec { traceparent, ..JobSpec::new(JobId::from_u128(n), task) }
    }

    #[test]
    fn each_trace_of_a_submission_has_one_span() {
        let next = AtomicU64::new(100);
        let bits = move || next.fetch_add(1, Ordering::Relaxed).into();
        let (tracer, mut spans) = Tracer::new(Sampler::default(), bits);
        let theirs = TraceParent::new(7, 8, true);
        let mut jobs = [job(1, None), job(2, theirs), job(3, None)];
        let submission = Submission::begin(&tracer, &mut jobs, || NOW);
        let carried: Vec<TraceParent> = jobs.iter().filter_map(|job| job.traceparent).collect();
        assert_eq!((carried[0], carried[1].trace()), (carried[2], 7));
        submission.end(|| NOW, None);
        let (own, below) = (spans.next_now().unwrap(), spans.next_now().unwrap());
        assert_eq!(
            (own.place, own.parent, own.details.name.as_str()),
            (carried[0], None, "submit")
        );
        assert_eq!((below.place, below.parent), (carried[1], Some(8)));
        assert_eq!(below.details.name, "submit t");
        assert_eq!(spans.next_now(), None);
    }

    #[test]
    fn what_came_is_passed_on_unchanged_if_tracing_is_off() {
        let theirs = TraceParent::new(7, 8, true);
        let mut jobs = [job(1, None), job(2, theirs)];
        Submission::begin(&Tracer::off(), &mut jobs, || NOW).end(|| NOW, None);
        assert_eq!((jobs[0].traceparent, jobs[1].traceparent), (None, theirs));
    }
}
