//! Output of running jobs on its way to the store: gathered, joined, and sent a few times a second.
//! Bounded: a job that writes faster than the store takes loses its oldest unsent output, and is told so.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use runcue_core::{Lease, Timestamp, Token};
use runcue_store::{LogChunk, LogStream};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::shared::Shared;

/// Output is sent at most this often.
const EVERY: Duration = Duration::from_millis(250);
/// The most unsent bytes of one job.
const PER_JOB: usize = 256 * 1024;
/// The most unsent bytes of all jobs.
const IN_ALL: usize = 16 * 1024 * 1024;

/// Unsent output.
#[derive(Debug, Default)]
pub(crate) struct Logs {
    unsent: Mutex<Unsent>,
    written: Notify,
}

#[derive(Debug, Default)]
struct Unsent {
    chunks: Vec<LogChunk>,
    bytes: usize,
}

impl Logs {
    fn unsent(&self) -> MutexGuard<'_, Unsent> {
        self.unsent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds output of an attempt.
    pub(crate) fn add(&self, lease: &Lease, stream: LogStream, text: String) {
        if text.is_empty() {
            return;
        }
        let first = self.unsent().add(lease, stream, text);
        if first {
            self.written.notify_one();
        }
    }

    fn take(&self) -> Vec<LogChunk> {
        let mut unsent = self.unsent();
        unsent.bytes = 0;
        std::mem::take(&mut unsent.chunks)
    }

    /// Sends what there is. Output is worth less than the work: what cannot be sent is dropped, with a
    /// warning.
    pub(crate) async fn run_once(&self, shared: &Shared, now: Timestamp) -> usize {
        let chunks = self.take();
        let sent = chunks.len();
        if sent == 0 {
            return 0;
        }
        if let Err(error) = shared.ask(shared.store.append_logs(now, chunks)).await {
            tracing::warn!(%error, chunks = sent, "job output could not be kept");
        }
        sent
    }

    pub(crate) async fn run(shared: &Shared, stop: &CancellationToken) {
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                () = shared.logs.written.notified() => {}
            }
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                () = tokio::time::sleep(EVERY) => {}
            }
            shared.logs.run_once(shared, shared.clock.now()).await;
        }
    }
}

impl Unsent {
    /// Adds a text and says whether it is the first.
    fn add(&mut self, lease: &Lease, stream: LogStream, text: String) -> bool {
        let first = self.chunks.is_empty();
        self.bytes += text.len();
        match self.chunks.last_mut() {
            Some(last)
                if last.token == lease.token
                    && last.stream == stream
                    && last.text.len() + text.len() <= PER_JOB =>
            {
                last.text.push_str(&text);
            }
            _ => self.chunks.push(chunk(lease, stream, text)),
        }
        self.shorten(lease.token);
        first
    }

    /// Drops a job's oldest output when it has too much, or when all have.
    fn shorten(&mut self, token: Token) {
        let own: usize = if self.bytes > PER_JOB {
            self.chunks.iter().filter(|c| c.token == token).map(|c| c.text.len()).sum()
        } else {
            0
        };
        if own <= PER_JOB && self.bytes <= IN_ALL {
            return;
        }
        if let Some(oldest) = self.chunks.iter_mut().find(|c| c.token == token) {
            self.bytes -= oldest.text.len();
            oldest.stream = LogStream::Note;
            oldest.text = "[output dropped: it came faster than it could be kept]\n".to_owned();
            self.bytes += oldest.text.len();
        }
    }
}

fn chunk(lease: &Lease, stream: LogStream, text: String) -> LogChunk {
    LogChunk {
        n: 0,
        job: lease.job,
        attempt: lease.attempt,
        token: lease.token,
        stream,
        at: Timestamp::ZERO,
        text,
    }
}

#[cfg(test)]
mod tests {
    use runcue_core::{JobId, WorkerId};

    use super::*;

    fn lease(token: u64) -> Lease {
        Lease {
            job: JobId::from_u128(u128::from(token)),
            attempt: 1,
            worker: WorkerId::from_u128(1),
            token: Token(token),
            until: Timestamp::MAX,
            start_by: None,
        }
    }

    #[test]
    fn output_of_one_stream_is_joined() {
        let logs = Logs::default();
        logs.add(&lease(1), LogStream::Stdout, "a".into());
        logs.add(&lease(1), LogStream::Stdout, "b".into());
        logs.add(&lease(1), LogStream::Stderr, "c".into());
        logs.add(&lease(2), LogStream::Stderr, "d".into());
        let texts: Vec<_> = logs.take().into_iter().map(|chunk| chunk.text).collect();
        assert_eq!(texts, ["ab", "c", "d"]);
    }

    #[test]
    fn a_flood_is_bounded_and_says_so() {
        let logs = Logs::default();
        for n in 0..1_000 {
            let stream = if n % 2 == 0 { LogStream::Stdout } else { LogStream::Stderr };
            logs.add(&lease(1), stream, "x".repeat(8 * 1024));
        }
        let chunks = logs.take();
        let bytes: usize = chunks.iter().map(|chunk| chunk.text.len()).sum();
        assert!(bytes <= 2 * PER_JOB, "{bytes}");
        assert!(chunks[0].text.starts_with("[output dropped"));
    }
}
