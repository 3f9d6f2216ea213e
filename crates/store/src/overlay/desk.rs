//! Where the backend is used: by the writer's thread, or, while a large commit is under way, by a second one that does
//! nothing else. The writer decides the next turn meanwhile, and waits here as soon as it needs the backend for that.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use runcue_core::Job;

use super::{Backend, Committed, WriteSet};
use crate::{Result, StoreError};

/// What the second thread tells: first what came of a commit, and if that is done, what was read with it.
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
    /// The second thread says what it has read.
    reads: bool,
}

impl<B: Backend> Desk<B> {
    pub fn new(backend: B) -> Self {
        let backend = Arc::new(Mutex::new(backend));
        Self { backend, aside: None, under_way: false, committed: None, reads: false }
    }

    /// The backend, as soon as no commit is under way.
    pub fn backend(&mut self) -> MutexGuard<'_, B> {
        self.wait();
        self.backend.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Carries out a commit.
    pub fn commit(&mut self, writes: &WriteSet) -> Result<Committed> {
        let committed = self.backend().commit(writes);
        self.reads = false;
        committed
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

    /// What was read with a commit, once that is known.
    pub fn read(&mut self) -> Option<Vec<Job>> {
        self.wait();
        if !std::mem::take(&mut self.reads) {
            return self.backend().end_reading();
        }
        match self.aside.as_ref()?.landings.recv() {
            Ok(Landing::Read(read)) => read,
            _ => None,
        }
    }

    fn wait(&mut self) {
        if !std::mem::take(&mut self.under_way) {
            return;
        }
        let lost = || Err(StoreError::Unavailable("a thread of the store ended".to_owned()));
        let committed = loop {
            match self.aside.as_ref().and_then(|aside| aside.landings.recv().ok()) {
                Some(Landing::Committed(committed)) => break committed,
                // Nobody wanted to know.
                Some(Landing::Read(_)) => {}
                None => break lost(),
            }
        };
        self.reads = is_done(&committed);
        self.committed = Some(committed);
    }
}

fn is_done(committed: &Result<Committed>) -> bool {
    matches!(committed, Ok(Committed::Done { .. }))
}

fn start<B: Backend>(backend: &Arc<Mutex<B>>) -> std::io::Result<Aside> {
    let (orders, ordered) = channel::<Order>();
    let (land, landings) = channel();
    let backend = Arc::clone(backend);
    std::thread::Builder::new().name("runcue-commit".into()).spawn(move || {
        for Order { writes, done } in ordered {
            let mut backend = backend.lock().unwrap_or_else(PoisonError::into_inner);
            let committed = catch_unwind(AssertUnwindSafe(|| backend.commit(&writes)));
            let failed = || StoreError::Unavailable("a commit failed inside the store".to_owned());
            let committed = committed.unwrap_or_else(|_| Err(failed()));
            let reads = is_done(&committed);
            if land.send(Landing::Committed(committed)).is_err() {
                return;
            }
            done();
            if reads {
                let read = catch_unwind(AssertUnwindSafe(|| backend.end_reading()));
                let _ = land.send(Landing::Read(read.unwrap_or_default()));
            }
        }
    })?;
    Ok(Aside { orders, landings })
}
