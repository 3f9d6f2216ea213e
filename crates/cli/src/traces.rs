//! Traces, as far as a command line has to do with them: the environment says whether there are any and where they go,
//! and which trace we are part of. They begin with the first verb that makes a span and are delivered before we leave.

use std::sync::{Mutex, OnceLock, PoisonError};

use runcue_core::{JobSpec, TraceParent};
use runcue_engine::{IdSource, RandomIds};
use runcue_trace::{Exporter, Settings, Submission, Tracer};

use crate::clock;

/// The traces of this process.
#[derive(Debug, Default)]
pub struct Traces {
    tracer: OnceLock<Tracer>,
    exporter: Mutex<Option<Exporter>>,
}

impl Traces {
    /// What makes spans; off, unless the environment names a collector.
    pub fn tracer(&self) -> &Tracer {
        self.tracer.get_or_init(|| {
            let Some(settings) = Settings::read(&|name| std::env::var(name).ok()) else {
                return Tracer::off();
            };
            for notice in &settings.notices {
                tracing::warn!("{notice}");
            }
            let ids = RandomIds::default();
            let (tracer, spans) = Tracer::new(settings.sampler, move || ids.bits());
            match Exporter::start(settings, spans) {
                Ok(exporter) => {
                    *self.exporter.lock().unwrap_or_else(PoisonError::into_inner) = Some(exporter);
                    tracer
                }
                Err(why) => {
                    tracing::warn!("there will be no traces: {why}");
                    Tracer::off()
                }
            }
        })
    }

    /// Begins a submission of jobs, which belong to our trace unless they have one of their own.
    pub fn submission(&self, jobs: &mut [JobSpec]) -> Submission {
        if let Some(ours) = ours() {
            for job in &mut *jobs {
                job.traceparent.get_or_insert(ours);
            }
        }
        Submission::begin(self.tracer(), jobs, clock::machine)
    }

    /// Delivers what there is, within a few seconds.
    pub async fn flush(&self) {
        let exporter = self.exporter.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(exporter) = exporter {
            exporter.flush().await;
        }
    }
}

/// The trace that we were started in. What cannot be read is as good as none.
fn ours() -> Option<TraceParent> {
    std::env::var("TRACEPARENT").ok()?.parse().ok()
}
