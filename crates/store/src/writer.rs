//! The one thread that writes. It takes whatever requests have come in since its last transaction into
//! the next one, so that many callers share one commit, and answers each only when that is done.
//!
//! A refused request leaves the transaction good. Any other error undoes the whole transaction: the
//! requests in it get that error, those that had not been reached are taken into the next.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use runcue_core::Timestamp;
use tokio::sync::{oneshot, watch};

use crate::machine::Machine;
use crate::tables::Tables;
use crate::{Result, StoreError};

/// Requests in one transaction at the most, so that no caller waits long for the first of many.
const TOGETHER: usize = 256;

/// How long the thread looks for another request before it sleeps.
const MOMENT: Duration = Duration::from_micros(100);
/// For so much of it, it lets nobody else have its core.
const BRIEF: Duration = Duration::from_micros(20);

/// What tables need besides their rows so that one thread can write them.
pub trait Transaction {
    /// Begins a transaction that nobody else writes in.
    fn begin(&mut self) -> Result<()>;
    /// Makes it durable.
    fn commit(&mut self) -> Result<()>;
    /// Undoes it, if one is open.
    fn roll_back(&mut self);
    /// The disk is full: gives back what space it can, without waiting for anybody.
    fn make_room(&mut self) {}
    /// The last call: leaves everything tidy.
    fn close(&mut self) {}
}

type Answer = Box<dyn FnOnce(Option<StoreError>) + Send>;
type Operation<T> = Box<dyn FnOnce(&mut Machine<T>) -> Result<Answer> + Send>;
type Refuse = Box<dyn FnOnce(StoreError) + Send>;

struct Request<T> {
    now: Timestamp,
    operation: Operation<T>,
    /// Used instead when the operation is never run, or panics.
    refuse: Refuse,
}

/// A handle on the thread that writes.
pub struct Writer<T> {
    requests: Mutex<Option<Sender<Request<T>>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// Moves on with every change, for those who wait for news.
    pub version: Arc<watch::Sender<u64>>,
    /// The latest revision this process has written or seen.
    pub revision: Arc<AtomicU64>,
}

impl<T: Tables + Transaction + Send + 'static> Writer<T> {
    /// Starts the thread.
    pub fn start(tables: T) -> std::io::Result<Self> {
        let (sender, receiver) = channel();
        let version = Arc::new(watch::Sender::new(1));
        let revision = Arc::new(AtomicU64::new(0));
        let worker = Worker {
            machine: Machine::new(tables),
            version: version.clone(),
            revision: revision.clone(),
        };
        let thread = std::thread::Builder::new()
            .name("runcue-writer".into())
            .spawn(move || worker.run(&receiver))?;
        Ok(Self {
            requests: Mutex::new(Some(sender)),
            thread: Mutex::new(Some(thread)),
            version,
            revision,
        })
    }

    /// Runs an operation in the next transaction and answers when that is committed.
    pub async fn call<R: Send + 'static>(
        &self,
        now: Timestamp,
        operation: impl FnOnce(&mut Machine<T>) -> Result<R> + Send + 'static,
    ) -> Result<R> {
        let (reply, answer) = oneshot::channel::<Result<R>>();
        let reply = Arc::new(Mutex::new(Some(reply)));
        let send = {
            let reply = reply.clone();
            move |result: Result<R>| {
                if let Some(reply) = reply.lock().unwrap_or_else(PoisonError::into_inner).take() {
                    // A caller that has gone away needs no answer.
                    let _ = reply.send(result);
                }
            }
        };
        let refuse_send = send.clone();
        let request = Request {
            now,
            operation: Box::new(move |machine| {
                let value = operation(machine)?;
                Ok(Box::new(move |failed: Option<StoreError>| send(failed.map_or(Ok(value), Err))))
            }),
            refuse: Box::new(move |error| refuse_send(Err(error))),
        };
        self.send(request)?;
        answer.await.unwrap_or(Err(StoreError::Closed))
    }

    fn send(&self, request: Request<T>) -> Result<()> {
        let requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        let sender = requests.as_ref().ok_or(StoreError::Closed)?;
        sender.send(request).map_err(|_| StoreError::Closed)
    }
}

impl<T> Writer<T> {
    /// Lets the thread finish what it has and waits for it.
    pub fn stop(&self) {
        drop(self.requests.lock().unwrap_or_else(PoisonError::into_inner).take());
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }
}

impl<T> Drop for Writer<T> {
    fn drop(&mut self) {
        self.stop();
    }
}

impl<T> std::fmt::Debug for Writer<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writer").finish_non_exhaustive()
    }
}

struct Worker<T> {
    machine: Machine<T>,
    version: Arc<watch::Sender<u64>>,
    revision: Arc<AtomicU64>,
}

impl<T: Tables + Transaction> Worker<T> {
    fn run(mut self, requests: &Receiver<Request<T>>) {
        let mut waiting = VecDeque::new();
        loop {
            if waiting.is_empty() {
                match next(requests) {
                    Some(request) => waiting.push_back(request),
                    None => break,
                }
            }
            while waiting.len() < TOGETHER {
                match requests.try_recv() {
                    Ok(request) => waiting.push_back(request),
                    Err(_) => break,
                }
            }
            self.transaction(&mut waiting);
        }
        self.machine.tables().close();
    }

    fn transaction(&mut self, waiting: &mut VecDeque<Request<T>>) {
        let now = waiting.front().map_or(Timestamp::ZERO, |request| request.now);
        if let Err(error) = self.begin(now) {
            self.roll_back();
            // Whoever comes next may find the disk free again; those who wait now are told.
            refuse_all(waiting.drain(..), &error);
            return;
        }
        let mut answers: Vec<Answer> = Vec::with_capacity(waiting.len());
        let mut failed = None;
        while let Some(request) = waiting.pop_front() {
            match catch_unwind(AssertUnwindSafe(|| (request.operation)(&mut self.machine))) {
                Ok(Ok(answer)) => answers.push(answer),
                Ok(Err(error)) if error.is_refusal() => (request.refuse)(error),
                Ok(Err(error)) => {
                    failed = Some(error.repeat());
                    (request.refuse)(error);
                    break;
                }
                Err(_) => {
                    let error =
                        StoreError::Unavailable("an operation failed inside the store".to_owned());
                    failed = Some(error.repeat());
                    (request.refuse)(error);
                    break;
                }
            }
        }
        let committed = match failed {
            None => self.commit(),
            Some(error) => Err(error),
        };
        match committed {
            Ok(changed) => {
                // The version moves first, so that whoever has an answer also sees that it moved.
                if changed {
                    self.version.send_modify(|version| *version += 1);
                }
                answers.into_iter().for_each(|answer| answer(None));
            }
            Err(error) => {
                self.roll_back();
                if matches!(error, StoreError::DiskFull { .. }) {
                    self.machine.tables().make_room();
                }
                answers.into_iter().for_each(|answer| answer(Some(error.repeat())));
            }
        }
    }

    fn begin(&mut self, now: Timestamp) -> Result<()> {
        self.machine.tables().begin()?;
        self.machine.begin(now)
    }

    fn commit(&mut self) -> Result<bool> {
        let changed = self.machine.end()?;
        if let Some(revision) = self.machine.revision() {
            self.revision.store(revision, Ordering::Release);
        }
        self.machine.tables().commit()?;
        Ok(changed)
    }

    fn roll_back(&mut self) {
        self.machine.reset();
        self.machine.tables().roll_back();
    }
}

/// The next request. Whoever was just answered tends to ask again at once; being put to sleep and woken
/// would take longer than looking for a moment.
fn next<T>(requests: &Receiver<Request<T>>) -> Option<Request<T>> {
    let begin = Instant::now();
    loop {
        match requests.try_recv() {
            Ok(request) => return Some(request),
            Err(TryRecvError::Disconnected) => return None,
            Err(TryRecvError::Empty) => {}
        }
        match begin.elapsed() {
            spent if spent < BRIEF => std::hint::spin_loop(),
            spent if spent < MOMENT => std::thread::yield_now(),
            _ => return requests.recv().ok(),
        }
    }
}

fn refuse_all<T>(requests: impl Iterator<Item = Request<T>>, error: &StoreError) {
    for request in requests {
        (request.refuse)(error.repeat());
    }
}
