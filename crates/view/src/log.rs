//! A piece of a job's output.

use runcue_core::JobId;
use runcue_store::{LogChunk, LogStream};
use serde::Serialize;

use crate::millis;

/// A piece of output.
#[derive(Clone, Debug, Serialize)]
pub struct LogView {
    /// Its number.
    pub n: u64,
    /// The job.
    pub job: JobId,
    /// The attempt that wrote it.
    pub attempt: u32,
    /// `stdout`, `stderr`, or `note` for runcue's own remarks.
    pub stream: LogStream,
    /// When it was kept.
    pub at: i64,
    /// The text.
    pub text: String,
}

impl From<&LogChunk> for LogView {
    fn from(chunk: &LogChunk) -> Self {
        Self {
            n: chunk.n,
            job: chunk.job,
            attempt: chunk.attempt,
            stream: chunk.stream,
            at: millis(chunk.at),
            text: chunk.text.clone(),
        }
    }
}
