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
use runcue_store::machine::Machine;
use runcue_store::{Result, StoreError};
use tokio::sync::{oneshot, watch};

use crate::tables::SqliteTables;

/// Requests in one transaction at the most, so that no caller waits long for the first of many.
const TOGETHER: usize = 256;

/// How long the thread looks for another request before it sleeps.
const MOMENT: Duration = Duration::from_micros(30);

type Answer = Box<dyn FnOnce(Option<StoreError>) + Send>;
type Operation = Box<dyn FnOnce(&mut Machine<SqliteTables>) -> Result<Answer> + Send>;
type Refuse = Box<dyn FnOnce(StoreError) + Send>;

struct Request {
    now: Timestamp,
    operation: Operation,
    /// Used instead when the operation is never run, or panics.
    refuse: Refuse,
}

/// A handle on the thread that writes.
pub struct Writer {
    requests: Mutex<Option<Sender<Request>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// Moves on with every change, for those who wait for news.
    pub version: Arc<watch::Sender<u64>>,
    /// The latest revision this process has written or seen.
    pub revision: Arc<AtomicU64>,
}

impl Writer {
    pub fn start(tables: SqliteTables) -> std::io::Result<Self> {
        let (sender, receiver) = channel();
        let version = Arc::new(watch::Sender::new(1));
        let revision = Arc::new(AtomicU64::new(0));
        let worker = Worker {
            machine: Machine::new(tables),
            version: version.clone(),
            revision: revision.clone(),
        };
        let thread = std::thread::Builder::new()
            .name("runcue-sqlite".into())
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
        operation: impl FnOnce(&mut Machine<SqliteTables>) -> Result<R> + Send + 'static,
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

    fn send(&self, request: Request) -> Result<()> {
        let requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        let sender = requests.as_ref().ok_or(StoreError::Closed)?;
        sender.send(request).map_err(|_| StoreError::Closed)
    }

    /// Lets the thread finish what it has and waits for it.
    pub fn stop(&self) {
        drop(self.requests.lock().unwrap_or_else(PoisonError::into_inner).take());
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.stop();
    }
}

struct Worker {
    machine: Machine<SqliteTables>,
    version: Arc<watch::Sender<u64>>,
    revision: Arc<AtomicU64>,
}

impl Worker {
    fn run(mut self, requests: &Receiver<Request>) {
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
        // Leaves one tidy file behind where no other process is using it.
        let _ = self.machine.tables().connection().execute_batch("PRAGMA wal_checkpoint(TRUNCATE)");
    }

    fn transaction(&mut self, waiting: &mut VecDeque<Request>) {
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
                    failed = Some(repeat(&error));
                    (request.refuse)(error);
                    break;
                }
                Err(_) => {
                    let error =
                        StoreError::Unavailable("an operation failed inside the store".to_owned());
                    failed = Some(repeat(&error));
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
                    self.make_room();
                }
                answers.into_iter().for_each(|answer| answer(Some(repeat(&error))));
            }
        }
    }

    fn begin(&mut self, now: Timestamp) -> Result<()> {
        self.execute("BEGIN IMMEDIATE")?;
        self.machine.begin(now)
    }

    fn commit(&mut self) -> Result<bool> {
        let changed = self.machine.end()?;
        if let Some(revision) = self.machine.revision() {
            self.revision.store(revision, Ordering::Release);
        }
        self.execute("COMMIT")?;
        Ok(changed)
    }

    /// What the log holds can move into the file, and its space be used again. Nobody is waited for.
    fn make_room(&mut self) {
        let connection = self.machine.tables().connection();
        let _ = connection.execute_batch("PRAGMA wal_checkpoint(PASSIVE)");
    }

    fn roll_back(&mut self) {
        self.machine.reset();
        if !self.machine.tables().connection().is_autocommit() {
            let _ = self.execute("ROLLBACK");
        }
    }

    fn execute(&mut self, sql: &str) -> Result<()> {
        let tables = self.machine.tables();
        let mut statement =
            tables.connection().prepare_cached(sql).map_err(|e| tables.explain(&e))?;
        let done = statement.execute([]).map(drop);
        drop(statement);
        done.map_err(|e| tables.explain(&e))
    }
}

/// The next request. Whoever was just answered tends to ask again at once; being put to sleep and woken
/// would take longer than looking for a moment.
fn next(requests: &Receiver<Request>) -> Option<Request> {
    let begin = Instant::now();
    while begin.elapsed() < MOMENT {
        match requests.try_recv() {
            Ok(request) => return Some(request),
            Err(TryRecvError::Disconnected) => return None,
            Err(TryRecvError::Empty) => std::hint::spin_loop(),
        }
    }
    requests.recv().ok()
}

fn refuse_all(requests: impl Iterator<Item = Request>, error: &StoreError) {
    for request in requests {
        (request.refuse)(repeat(error));
    }
}

/// The same error for another caller of the same transaction.
fn repeat(error: &StoreError) -> StoreError {
    match error {
        StoreError::DiskFull { place } => StoreError::DiskFull { place: place.clone() },
        StoreError::ReadOnly { place, why } => {
            StoreError::ReadOnly { place: place.clone(), why: why.clone() }
        }
        StoreError::Corrupt { place, why } => {
            StoreError::Corrupt { place: place.clone(), why: why.clone() }
        }
        StoreError::Unavailable(why) => StoreError::Unavailable(why.clone()),
        other => StoreError::Unavailable(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use runcue_core::{JobId, JobSpec, TaskName};
    use runcue_store::SubmitBatch;

    use super::*;
    use crate::connection::{self, Options};
    use crate::migrate::migrate;

    fn writer(directory: &tempfile::TempDir) -> Writer {
        let options = Options::new(directory.path().join("queue.db"));
        let mut connection = connection::writer(&options).unwrap();
        migrate(&mut connection, "queue.db").unwrap();
        Writer::start(SqliteTables::new(connection, "queue.db".to_owned())).unwrap()
    }

    fn submit(machine: &mut Machine<SqliteTables>, n: u128) -> Result<()> {
        let job = JobSpec::new(JobId::from_u128(n), TaskName::new("t").unwrap());
        machine.submit(Timestamp::ZERO, SubmitBatch::of(vec![job])).map(drop)
    }

    async fn total(writer: &Writer) -> u64 {
        let stats = writer.call(Timestamp::ZERO, |machine| machine.stats()).await.unwrap();
        stats.counts.total()
    }

    #[tokio::test]
    async fn what_a_failed_operation_wrote_is_undone_and_the_next_one_goes_through() {
        let directory = tempfile::tempdir().unwrap();
        let writer = writer(&directory);
        let failed = writer.call(Timestamp::ZERO, |machine| {
            submit(machine, 1)?;
            Err::<(), _>(StoreError::Unavailable("on purpose".to_owned()))
        });
        assert!(failed.await.is_err());
        assert_eq!(total(&writer).await, 0);
        writer.call(Timestamp::ZERO, |machine| submit(machine, 1)).await.unwrap();
        assert_eq!(total(&writer).await, 1);
    }

    #[tokio::test]
    async fn a_panic_in_an_operation_is_answered_undone_and_survived() {
        let directory = tempfile::tempdir().unwrap();
        let writer = writer(&directory);
        let failed = writer.call(Timestamp::ZERO, |machine| -> Result<()> {
            submit(machine, 1)?;
            panic!("on purpose");
        });
        assert!(matches!(failed.await, Err(StoreError::Unavailable(_))));
        assert_eq!(total(&writer).await, 0);
        writer.call(Timestamp::ZERO, |machine| submit(machine, 2)).await.unwrap();
        assert_eq!(total(&writer).await, 1);
    }
}
