//! Output of running jobs on its way to the store: gathered, joined, and sent a few times a second. While the
//! store is away it waits here. Bounded: a job that writes more than can be kept, or faster than the store
//! takes, loses its oldest unsent output, and is told so.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use runcue_core::{JobId, Lease, Timestamp, Token};
use runcue_store::{LogChunk, LogStream, Result, StoreError};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::shared::{Shared, backoff};

/// Output is sent at most this often.
const EVERY: Duration = Duration::from_millis(250);
/// The most unsent bytes of one job.
const PER_JOB: usize = 256 * 1024;
/// Pieces of one stream are joined up to about this many bytes.
const PIECE: usize = 16 * 1024;
/// The most unsent bytes of all jobs, give or take a piece of each.
const IN_ALL: usize = 16 * 1024 * 1024;

/// What stands in the place of output that was dropped.
const DROPPED: &str = "[output dropped: it came faster than it could be kept]\n";

/// Unsent output.
#[derive(Debug, Default)]
pub(crate) struct Logs {
    unsent: Mutex<Unsent>,
    written: Notify,
    /// Held while output is sent: who finds none unsent can be sure that none comes back.
    sending: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct Unsent {
    jobs: BTreeMap<Token, JobOutput>,
    bytes: usize,
}

/// What one attempt has written since the last round, oldest first.
#[derive(Debug)]
struct JobOutput {
    job: JobId,
    attempt: u32,
    token: Token,
    pieces: VecDeque<(LogStream, String)>,
    bytes: usize,
    dropped: bool,
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
        let unsent = std::mem::take(&mut *self.unsent());
        unsent.jobs.into_values().flat_map(JobOutput::into_chunks).collect()
    }

    /// Sends what there is. What cannot be sent now waits for the next time; what never can is dropped, with a
    /// warning.
    pub(crate) async fn run_once(&self, shared: &Shared, now: Timestamp) -> Result<usize> {
        let _sending = self.sending.lock().await;
        let chunks = self.take();
        let sent = chunks.len();
        if sent == 0 {
            return Ok(0);
        }
        match shared.ask(shared.store.append_logs(now, chunks.clone())).await {
            Ok(()) => Ok(sent),
            Err(error) if error.is_transient() => {
                self.unsent().put_back(chunks);
                Err(error)
            }
            Err(StoreError::Closed) => Ok(0),
            Err(error) => {
                shared.refused("some output was not kept", &error);
                Ok(0)
            }
        }
    }

    pub(crate) async fn run(shared: &Shared, stop: &CancellationToken) {
        let mut failures = 0;
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                () = shared.logs.written.notified(), if failures == 0 => {}
                () = tokio::time::sleep(backoff(failures)), if failures > 0 => {}
            }
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                () = tokio::time::sleep(EVERY) => {}
            }
            match shared.logs.run_once(shared, shared.clock.now()).await {
                Ok(_) => failures = 0,
                Err(error) => {
                    failures += 1;
                    shared.refused("output waits", &error);
                }
            }
        }
    }
}

impl Unsent {
    /// Adds a text and says whether it is the first.
    fn add(&mut self, lease: &Lease, stream: LogStream, text: String) -> bool {
        let first = self.jobs.is_empty();
        let fair = if self.bytes > IN_ALL { IN_ALL / self.jobs.len().max(1) } else { PER_JOB };
        let output = self.jobs.entry(lease.token).or_insert_with(|| JobOutput::new(lease));
        self.bytes -= output.bytes;
        output.add(stream, text);
        output.shorten(fair.min(PER_JOB));
        self.bytes += output.bytes;
        first
    }

    /// Puts output back that could not be sent, before what has come since.
    fn put_back(&mut self, chunks: Vec<LogChunk>) {
        for chunk in chunks.into_iter().rev() {
            let output = self.jobs.entry(chunk.token).or_insert_with(|| JobOutput::of(&chunk));
            self.bytes -= output.bytes;
            if chunk.stream == LogStream::Note && chunk.text == DROPPED {
                output.dropped = true;
            } else {
                output.bytes += chunk.text.len();
                output.pieces.push_front((chunk.stream, chunk.text));
                output.shorten(PER_JOB);
            }
            self.bytes += output.bytes;
        }
    }
}

impl JobOutput {
    fn new(lease: &Lease) -> Self {
        let (job, attempt, token) = (lease.job, lease.attempt, lease.token);
        Self { job, attempt, token, pieces: VecDeque::new(), bytes: 0, dropped: false }
    }

    fn of(chunk: &LogChunk) -> Self {
        let (job, attempt, token) = (chunk.job, chunk.attempt, chunk.token);
        Self { job, attempt, token, pieces: VecDeque::new(), bytes: 0, dropped: false }
    }

    fn add(&mut self, stream: LogStream, text: String) {
        self.bytes += text.len();
        match self.pieces.back_mut() {
            Some((last, joined)) if *last == stream && joined.len() < PIECE => {
                joined.push_str(&text);
            }
            _ => self.pieces.push_back((stream, text)),
        }
    }

    /// Drops the oldest pieces beyond a bound; the latest one stays, cut if it alone is too long.
    fn shorten(&mut self, most: usize) {
        while self.bytes > most && self.pieces.len() > 1 {
            let gone = self.pieces.pop_front().map_or(0, |(_, text)| text.len());
            self.bytes -= gone;
            self.dropped = true;
        }
        if let Some((_, text)) = self.pieces.front_mut()
            && self.bytes > most
        {
            let mut cut = text.len() - most;
            while !text.is_char_boundary(cut) {
                cut += 1;
            }
            text.drain(..cut);
            self.bytes -= cut;
            self.dropped = true;
        }
    }

    fn into_chunks(self) -> impl Iterator<Item = LogChunk> {
        let note = self.dropped.then(|| (LogStream::Note, DROPPED.to_owned()));
        let (job, attempt, token) = (self.job, self.attempt, self.token);
        note.into_iter().chain(self.pieces).map(move |(stream, text)| LogChunk {
            n: 0,
            job,
            attempt,
            token,
            stream,
            at: Timestamp::ZERO,
            text,
        })
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
    fn output_that_was_put_back_comes_before_what_came_since_and_is_bounded_with_it() {
        let logs = Logs::default();
        logs.add(&lease(1), LogStream::Stdout, "a".into());
        let first = logs.take();
        logs.add(&lease(1), LogStream::Stderr, "b".into());
        logs.unsent().put_back(first);
        let texts: Vec<_> = logs.take().into_iter().map(|chunk| chunk.text).collect();
        assert_eq!(texts, ["a", "b"]);
        for _ in 0..3 {
            logs.add(&lease(1), LogStream::Stdout, "x".repeat(PER_JOB));
            let flood = logs.take();
            logs.add(&lease(1), LogStream::Stdout, "end".into());
            logs.unsent().put_back(flood);
        }
        assert!(logs.unsent().bytes <= PER_JOB + 3, "{}", logs.unsent().bytes);
        let chunks = logs.take();
        assert_eq!(chunks[0].text, DROPPED);
        assert!(chunks.last().unwrap().text.ends_with("end"));
        assert_eq!(logs.unsent().bytes, 0);
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
        assert!(bytes <= PER_JOB + 100, "{bytes}");
        assert!(chunks[0].text.starts_with("[output dropped"));
    }
}
