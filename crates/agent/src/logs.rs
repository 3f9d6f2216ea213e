//! Output of running jobs on its way to the hub: collected for a moment, sent in pieces, and bounded while the hub
//! is away.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde::Serialize;
use tokio_util::sync::CancellationToken;

use crate::client::{HubClient, HubTrouble, Lease};

/// How often output is sent.
const EVERY: Duration = Duration::from_millis(400);
/// Output of one job that waits to be sent, in bytes; beyond that the oldest goes.
const PER_JOB: usize = 256 * 1024;
/// The largest piece.
const PIECE: usize = 64 * 1024;

/// A piece of output.
#[derive(Clone, Debug, Serialize)]
pub struct Chunk {
    stream: &'static str,
    text: String,
}

#[derive(Debug)]
struct Waiting {
    lease: Lease,
    chunks: Vec<Chunk>,
    bytes: usize,
    dropped: bool,
}

/// Output on its way.
#[derive(Debug, Default)]
pub struct Logs {
    jobs: Mutex<HashMap<String, Waiting>>,
}

impl Logs {
    fn jobs(&self) -> std::sync::MutexGuard<'_, HashMap<String, Waiting>> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes some output of a job.
    pub fn add(&self, job: &str, lease: &Lease, stream: &'static str, text: &str) {
        let mut jobs = self.jobs();
        let waiting = jobs.entry(job.to_owned()).or_insert_with(|| Waiting {
            lease: lease.clone(),
            chunks: Vec::new(),
            bytes: 0,
            dropped: false,
        });
        waiting.bytes += text.len();
        match waiting.chunks.last_mut() {
            Some(last) if last.stream == stream && last.text.len() + text.len() < PIECE => {
                last.text.push_str(text);
            }
            _ => waiting.chunks.push(Chunk { stream, text: text.to_owned() }),
        }
        while waiting.bytes > PER_JOB && waiting.chunks.len() > 1 {
            let gone = waiting.chunks.remove(0);
            waiting.bytes -= gone.text.len();
            waiting.dropped = true;
        }
    }

    /// Sends until the end.
    pub async fn run(&self, hub: &HubClient, worker: &str, over: CancellationToken) {
        loop {
            tokio::select! {
                () = over.cancelled() => return,
                () = tokio::time::sleep(EVERY) => {}
            }
            let jobs: Vec<String> = self.jobs().keys().cloned().collect();
            for job in jobs {
                if !self.flush(hub, worker, &job).await {
                    break;
                }
            }
        }
    }

    /// Sends what a job has written so far; answers whether the hub is there.
    pub async fn flush(&self, hub: &HubClient, worker: &str, job: &str) -> bool {
        let Some(mut waiting) = self.jobs().remove(job) else { return true };
        if std::mem::take(&mut waiting.dropped) {
            let text = "output was left out here: the hub was away for too long\n".to_owned();
            waiting.chunks.insert(0, Chunk { stream: "note", text });
        }
        match hub.log(worker, job, &waiting.lease, &waiting.chunks).await {
            Err(HubTrouble::Away(_)) => {
                self.put_back(job, waiting);
                false
            }
            // The output of a job that is not ours is nobody's.
            _ => true,
        }
    }

    /// What could not be sent comes before what was written since.
    fn put_back(&self, job: &str, mut waiting: Waiting) {
        let mut jobs = self.jobs();
        if let Some(since) = jobs.remove(job) {
            waiting.bytes += since.bytes;
            waiting.chunks.extend(since.chunks);
        }
        jobs.insert(job.to_owned(), waiting);
    }
}
