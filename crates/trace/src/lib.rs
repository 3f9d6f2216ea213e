//! Distributed traces of jobs: spans from their submission to their attempts, and their way to a collector.
//!
//! ```text
//! settings (environment) ─▶ Tracer ─start─▶ Span ─end─▶ bounded queue ─▶ Exporter ─otlp─▶ POST /v1/traces
//! ```
//!
//! A [`Tracer`] that is off makes no spans and costs a look at an option. One that is on never waits: what does not
//! fit in the queue is dropped and counted. Times and random bits come from the caller. Nothing here decides anything
//! about jobs; the engine, the agent and the command line say when something begins and how it ended.

mod attempt;
#[cfg(feature = "export")]
mod export;
#[cfg(feature = "export")]
mod otlp;
mod sampler;
mod settings;
mod span;
mod submission;

pub use attempt::{Attempt, Outcome};
#[cfg(feature = "export")]
pub use export::Exporter;
pub use sampler::Sampler;
pub use settings::Settings;
pub use span::{Details, Ended, Kind, Span, Spans, Tracer, Value};
pub use submission::Submission;
