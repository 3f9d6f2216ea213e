//! Worker processes for handlers that burn CPU or crash: kept between calls, replaced when they misbehave.
//!
//! Owns how many workers there are and what a call may cost them. A worker runs one call at a time. It is reused after
//! a reply, also after one that reports a failure; it is killed with its whole group and replaced after a timeout, a
//! cancellation, a crash, a line that is not of the protocol, or silence. Trying a call again is the caller's.
//!
//! ```text
//! call ─▶ a free place ─▶ idle worker, or a new one ─▶ request ─▶ … progress, beats … ─▶ reply ─▶ idle again
//!                                                          └─ timeout, cancel, crash, garbage, silence ─▶ killed
//! ```
//!
//! [`wire`] is the protocol, [`serve`] the worker's side of it for a program in Rust.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::capture::Captured;
use crate::command::CommandSpec;
use crate::run::Exit;
use crate::spawn::SpawnError;

use wire::Message;
use worker::{Heard, Worker};

mod serve;
pub mod wire;
mod worker;

pub use serve::{HandlerError, Reporter, serve};
pub use wire::{FailureKind, Progress, Reply, Request};

/// How long a new worker may take to say its first line, unless the pool is told otherwise.
const START: Duration = Duration::from_secs(60);

/// How long a worker may take to end after SIGTERM, unless the pool is told otherwise.
const GRACE: Duration = Duration::from_secs(2);

/// Why a call brought no reply. The worker that had it is gone; other calls are not affected.
#[derive(Debug, thiserror::Error)]
pub enum PoolError {
    /// The worker program could not be started.
    #[error("the worker could not be started: {0}")]
    Spawn(#[from] SpawnError),
    /// The worker ended in the middle of the call.
    #[error("the worker crashed ({})", ended(*exit))]
    Crashed {
        /// How, if the system told.
        exit: Option<Exit>,
        /// What it last wrote to standard error.
        stderr: Captured,
    },
    /// The call took longer than it may.
    #[error("the call timed out")]
    TimedOut,
    /// The call was called off.
    #[error("the call was cancelled")]
    Cancelled,
    /// The worker gave no sign of life.
    #[error("the worker gave no sign of life for {silence:?}")]
    Stuck {
        /// For how long.
        silence: Duration,
    },
    /// The worker wrote something that is no reply to this call.
    #[error("the worker wrote a line that is not of the protocol: {line}")]
    Garbage {
        /// The start of it.
        line: String,
    },
    /// The request is larger than a line may be.
    #[error("the request is {bytes} bytes long, more than the {} a line may be", wire::MAX_LINE)]
    TooLarge {
        /// Its size.
        bytes: usize,
    },
    /// The request cannot be written as JSON.
    #[error("the request cannot be written as JSON: {0}")]
    Invalid(#[from] serde_json::Error),
    /// The pool is closed.
    #[error("the pool is closed")]
    Closed,
}

fn ended(exit: Option<Exit>) -> String {
    exit.map_or_else(|| "its status is unknown".to_owned(), |exit| exit.to_string())
}

/// A bounded set of worker processes. They are started when first needed.
#[derive(Debug)]
pub struct ProcessPool {
    spec: CommandSpec,
    heartbeat_timeout: Duration,
    start_timeout: Duration,
    grace: Duration,
    places: Semaphore,
    idle: Mutex<Vec<Worker>>,
}

impl ProcessPool {
    /// A pool of at most `size` workers (at least one) that run `spec`; a busy worker that is silent for
    /// `heartbeat_timeout` is taken for stuck. What `spec` has for standard input is not used.
    #[must_use]
    pub fn new(spec: CommandSpec, size: usize, heartbeat_timeout: Duration) -> Self {
        Self {
            spec,
            heartbeat_timeout,
            start_timeout: START.max(heartbeat_timeout),
            grace: GRACE,
            places: Semaphore::new(size.clamp(1, Semaphore::MAX_PERMITS)),
            idle: Mutex::default(),
        }
    }

    /// The same pool with another limit for the time until a new worker's first line (60 s).
    #[must_use]
    pub fn with_start_timeout(mut self, start_timeout: Duration) -> Self {
        self.start_timeout = start_timeout;
        self
    }

    /// The same pool with another time between SIGTERM and SIGKILL for its workers (2 s).
    #[must_use]
    pub fn with_grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// The process ids of the workers that wait for work.
    #[must_use]
    pub fn idle_pids(&self) -> Vec<u32> {
        self.idle().iter().map(Worker::pid).collect()
    }

    /// Has a worker do something, waiting for a free one if all are busy. `timeout` starts when a worker has been
    /// found. When this returns an error, the worker is gone. Dropping the future kills the worker at once.
    ///
    /// # Errors
    /// There is no reply; see [`PoolError`].
    pub async fn call(
        &self,
        request: &Request,
        timeout: Option<Duration>,
        cancel: &CancellationToken,
        progress: impl FnMut(Progress),
    ) -> Result<Reply, PoolError> {
        let line = serde_json::to_vec(request)?;
        if line.len() > wire::MAX_LINE {
            return Err(PoolError::TooLarge { bytes: line.len() });
        }
        let _place = tokio::select! {
            biased;
            () = cancel.cancelled() => return Err(PoolError::Cancelled),
            place = self.places.acquire() => place.map_err(|_| PoolError::Closed)?,
        };
        let mut worker = self.worker()?;
        worker.say(line);
        let ending = tokio::select! {
            biased;
            () = cancel.cancelled() => Ending::Cancelled,
            () = elapse(timeout) => Ending::TimedOut,
            ending = self.listen(&mut worker, &request.id, progress) => ending,
        };
        self.settle(worker, ending).await
    }

    /// Ends the idle workers and refuses further calls. Calls in progress go on.
    pub async fn close(&self) {
        self.places.close();
        let idle = std::mem::take(&mut *self.idle());
        for worker in idle {
            let _ = worker.stop(self.grace).await;
        }
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Worker>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The worker that was busy last, or a new one. One that died while it was idle is nobody's crash.
    fn worker(&self) -> Result<Worker, SpawnError> {
        while let Some(mut worker) = self.idle().pop() {
            if !worker.is_gone() {
                return Ok(worker);
            }
            tracing::debug!(pid = worker.pid(), "an idle worker had died");
        }
        Worker::spawn(&self.spec)
    }

    async fn listen(
        &self,
        worker: &mut Worker,
        id: &str,
        mut progress: impl FnMut(Progress),
    ) -> Ending {
        loop {
            let patience = if worker.is_up { self.heartbeat_timeout } else { self.start_timeout };
            let heard = match tokio::time::timeout(patience, worker.hear()).await {
                Ok(heard) => heard,
                Err(_) => return Ending::Stuck(patience),
            };
            let line = match heard {
                Heard::Line(line) => line,
                Heard::TooLong => return Ending::Garbage("a line without end".to_owned()),
                Heard::End => return Ending::Crashed,
            };
            match Message::read(&line, id) {
                Some(Message::Beat) => {}
                Some(Message::Progress(report)) => progress(report),
                Some(Message::Reply(reply)) => return Ending::Replied(reply),
                None => return Ending::Garbage(start_of(&line)),
            }
        }
    }

    /// Puts the worker back or gets rid of it, before its place is given to another call.
    async fn settle(&self, worker: Worker, ending: Ending) -> Result<Reply, PoolError> {
        let error = match ending {
            Ending::Replied(reply) => {
                if self.places.is_closed() {
                    let _ = worker.stop(self.grace).await;
                } else {
                    self.idle().push(worker);
                }
                return Ok(reply);
            }
            Ending::Crashed => {
                let (exit, stderr) = worker.bury().await;
                return Err(PoolError::Crashed { exit, stderr });
            }
            Ending::Cancelled => PoolError::Cancelled,
            Ending::TimedOut => PoolError::TimedOut,
            Ending::Stuck(silence) => PoolError::Stuck { silence },
            Ending::Garbage(line) => PoolError::Garbage { line },
        };
        tracing::debug!(pid = worker.pid(), %error, "replacing a worker");
        let _ = worker.stop(self.grace).await;
        Err(error)
    }
}

/// How a call came to its end.
enum Ending {
    Replied(Reply),
    Crashed,
    Cancelled,
    TimedOut,
    Stuck(Duration),
    Garbage(String),
}

async fn elapse(timeout: Option<Duration>) {
    match timeout.and_then(|timeout| Instant::now().checked_add(timeout)) {
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

fn start_of(line: &[u8]) -> String {
    String::from_utf8_lossy(&line[..line.len().min(200)]).into_owned()
}
