//! Where requests come in, and where the worker stays while there are none. Its own thread takes it up when something has
//! come. A thread that hears what others tell may take it up as well, if nobody has, instead of waking the other one.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::requests::Message;
use super::writer::Worker;
use crate::{Result, StoreError};

/// What a worker finds that looks for the next message.
pub(super) enum Next<B> {
    Message(Message<B>),
    /// Nothing yet.
    Nothing,
    /// Nobody will come any more.
    Closed,
}

struct Inside<B> {
    messages: VecDeque<Message<B>>,
    open: bool,
    /// Nothing if somebody has taken it up, or it is lost.
    worker: Option<Box<Worker<B>>>,
    lost: bool,
    /// The worker was put down with something left to do.
    unfinished: bool,
    /// Whoever has taken it up waits for a message.
    waits: bool,
}

/// See the module's documentation.
pub(super) struct Door<B> {
    inside: Mutex<Inside<B>>,
    /// The worker's own thread waits for it, and for a moment whoever else has taken the worker up.
    bell: Condvar,
}

impl<B> Default for Door<B> {
    fn default() -> Self {
        let inside = Inside {
            messages: VecDeque::new(),
            open: true,
            worker: None,
            lost: false,
            unfinished: false,
            waits: false,
        };
        Self { inside: Mutex::new(inside), bell: Condvar::new() }
    }
}

impl<B> Door<B> {
    fn inside(&self) -> MutexGuard<'_, Inside<B>> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Somebody comes.
    pub fn enter(&self, message: Message<B>) -> Result<()> {
        let mut inside = self.inside();
        if !inside.open {
            return Err(StoreError::Closed);
        }
        inside.messages.push_back(message);
        // Whoever else has taken the worker up looks before it puts it down.
        let rings = inside.waits || inside.worker.is_some();
        drop(inside);
        if rings {
            self.bell.notify_all();
        }
        Ok(())
    }

    /// Nobody comes any more. Those who are there are dealt with.
    pub fn close(&self) {
        self.inside().open = false;
        self.bell.notify_all();
    }

    /// The worker is no more: nobody is dealt with.
    pub fn abandon(&self) {
        let mut inside = self.inside();
        (inside.open, inside.lost) = (false, true);
        let messages = std::mem::take(&mut inside.messages);
        drop(inside);
        drop(messages);
        self.bell.notify_all();
    }

    /// The next message, if it is there.
    pub fn look(&self) -> Next<B> {
        let mut inside = self.inside();
        match inside.messages.pop_front() {
            Some(message) => Next::Message(message),
            None if inside.open => Next::Nothing,
            None => Next::Closed,
        }
    }

    /// The next message as soon as it is there, or nothing at an instant, if one is named.
    pub fn wait(&self, until: Option<Instant>) -> Next<B> {
        let mut inside = self.inside();
        inside.waits = true;
        let next = loop {
            if let Some(message) = inside.messages.pop_front() {
                break Next::Message(message);
            }
            if !inside.open {
                break Next::Closed;
            }
            let Some(until) = until else {
                inside = self.bell.wait(inside).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break Next::Nothing;
            }
            let waited = self.bell.wait_timeout(inside, left);
            inside = waited.unwrap_or_else(PoisonError::into_inner).0;
        };
        inside.waits = false;
        next
    }

    /// The worker, for its own thread, as soon as there is something to do. Nothing if it is lost.
    pub fn take_up(&self) -> Option<Box<Worker<B>>> {
        let mut inside = self.inside();
        loop {
            if inside.lost {
                return None;
            }
            let due = inside.unfinished || !inside.open || !inside.messages.is_empty();
            if due && let Some(worker) = inside.worker.take() {
                return Some(worker);
            }
            inside = self.bell.wait(inside).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The worker, for another thread, if it has nothing to do.
    pub fn borrow(&self) -> Option<Box<Worker<B>>> {
        let mut inside = self.inside();
        let due = inside.unfinished || !inside.open || !inside.messages.is_empty();
        if due { None } else { inside.worker.take() }
    }

    /// Nobody has the worker any more; perhaps with something left to do.
    pub fn put_down(&self, worker: Box<Worker<B>>, unfinished: bool) {
        let mut inside = self.inside();
        (inside.worker, inside.unfinished) = (Some(worker), unfinished);
        let rings = unfinished || !inside.open || !inside.messages.is_empty();
        drop(inside);
        if rings {
            self.bell.notify_all();
        }
    }
}
