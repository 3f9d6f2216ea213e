//! Where the backend is used: by the writer's thread, or, while a large commit is under way, by a second one that does
//! nothing else. The writer decides the next turn meanwhile, and waits here as soon as it needs the backend for that.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use runcue_core::Job;

use super::{Backend, Committed, ReadyQuestion, WriteSet};
use crate::{Result, StoreError};

/// What the second thread tells: what came of a commit, and before that, of what was begun to be read with the one before.
#[derive(Debug)]
enum Landing {
    Committed(Result<Committed>),
    Read(Option<Vec<Job>>),
}

/// A commit for the second thread, and what to do when it is done.
struct Order {
    writes: Arc<WriteSet>,
    done: Box<dyn FnOnce() + Send>,
}

/// The second thread.
#[derive(Debug)]
struct Aside {
    orders: Sender<Order>,
    landings: Receiver<Landing>,
}

/// A backend and who uses it.
#[derive(Debug)]
pub(super) struct Desk<B> {
    backend: Arc<Mutex<B>>,
    aside: Option<Aside>,
    under_way: bool,
    committed: Option<Result<Committed>>,
    /// What came of reading, until somebody asks for it.
    read: Option<Option<Vec<Job>>>,
}

impl<B: Backend> Desk<B> {
    pub fn new(backend: B) -> Self {
        let backend = Arc::new(Mutex::new(backend));
        Self { backend, aside: None, under_way: false, committed: None, read: None }
    }

    /// The backend, as soon as no commit is under way.
    pub fn backend(&mut self) -> MutexGuard<'_, B> {
        self.wait();
        self.backend.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Carries out a commit.
    pub fn commit(&mut self, writes: &WriteSet) -> Result<Committed> {
        self.wait();
        let mut backend = self.backend.lock().unwrap_or_else(PoisonError::into_inner);
        backend.commit_and_tell(writes, &mut |read| self.read = Some(read))
    }

    /// Lets the second thread carry out a commit. Answers whether there is one.
    pub fn commit_aside(
        &mut self,
        writes: &Arc<WriteSet>,
        done: impl FnOnce() + Send + 'static,
    ) -> bool {
        self.wait();
        if self.aside.is_none() {
            self.aside = start(&self.backend).ok();
        }
        let order = Order { writes: Arc::clone(writes), done: Box::new(done) };
        self.under_way = self.aside.as_ref().is_some_and(|aside| aside.orders.send(order).is_ok());
        self.under_way
    }

    /// What came of the commit that was carried out aside, once that is known.
    pub fn landed(&mut self) -> Option<Result<Committed>> {
        self.wait();
        self.committed.take()
    }

    /// Begins to read with the next commit.
    pub fn begin_reading(&mut self, question: &ReadyQuestion, known: u64) {
        self.backend().begin_reading(question, known);
        self.read = None;
    }

    /// Begins to read when the next turn is begun, if that can be.
    pub fn read_when_begun(&mut self, question: &ReadyQuestion) -> bool {
        let begun = self.backend().read_when_begun(question);
        self.read = None;
        begun
    }

    /// Whether it is known what came of reading, without waiting for it.
    pub fn has_read(&self) -> bool {
        self.read.is_some()
    }

    /// What was read, once that is known: during the commit after the one that it was begun with, or here.
    pub fn read(&mut self) -> Option<Vec<Job>> {
        while self.read.is_none() && self.under_way {
            self.hear();
        }
        let read = self.read.take();
        read.unwrap_or_else(|| self.backend().end_reading())
    }

    fn wait(&mut self) {
        while self.under_way {
            self.hear();
        }
    }

    fn hear(&mut self) {
        match self.aside.as_ref().and_then(|aside| aside.landings.recv().ok()) {
            Some(Landing::Read(read)) => self.read = Some(read),
            Some(Landing::Committed(committed)) => {
                (self.under_way, self.committed) = (false, Some(committed));
            }
            None => {
                let lost = "a thread of the store ended".to_owned();
                self.committed = Some(Err(StoreError::Unavailable(lost)));
                self.under_way = false;
            }
        }
    }
}

fn start<B: Backend>(backend: &Arc<Mutex<B>>) -> std::io::Result<Aside> {
    let (orders, ordered) = channel::<Order>();
    let (land, landings) = channel();
    let backend = Arc::clone(backend);
    std::thread::Builder::new().name("runcue-commit".into()).spawn(move || {
        for Order { writes, done } in ordered {
            let mut backend = backend.lock().unwrap_or_else(PoisonError::into_inner);
            // If nobody listens any more, nor does anybody to what follows.
            let mut read = |read| drop(land.send(Landing::Read(read)));
            let committed =
                catch_unwind(AssertUnwindSafe(|| backend.commit_and_tell(&writes, &mut read)));
            let failed = || StoreError::Unavailable("a commit failed inside the store".to_owned());
            let committed = committed.unwrap_or_else(|_| Err(failed()));
            if land.send(Landing::Committed(committed)).is_err() {
                return;
            }
            drop(backend);
            done();
        }
    })?;
    Ok(Aside { orders, landings })
}
