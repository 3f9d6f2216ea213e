//! What is known of changes that others have made: that there are some, and what they said of them. Those who listen to the
//! server call it; whoever waits for news is woken by it, and the writer looks at what was told.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::sync::watch;

use super::told::Messages;

/// What those who listen to the server tell.
#[derive(Clone)]
pub struct News {
    version: Arc<watch::Sender<u64>>,
    /// The latest revision that was heard of, and the latest that this daemon has written.
    pub(super) heard: Arc<AtomicU64>,
    pub(super) seen: Arc<AtomicU64>,
    /// What others have told with it.
    pub(super) messages: Messages,
    /// Whether somebody waits for jobs, or news are only kept up with.
    awaited: Arc<AtomicBool>,
    admit: Poke,
    take_over: Poke,
}

/// Asks the writer for something that nobody waits for.
pub(super) type Poke = Arc<dyn Fn() + Send + Sync>;

impl std::fmt::Debug for News {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("News").field("heard", &self.heard).field("seen", &self.seen).finish()
    }
}

impl News {
    pub(super) fn new(messages: Messages, admit: Poke, take_over: Poke) -> Self {
        let (heard, seen) = (Arc::default(), Arc::default());
        let version = Arc::new(watch::Sender::new(1));
        let awaited = Arc::default();
        Self { version, heard, seen, messages, awaited, admit, take_over }
    }

    /// From here on somebody waits for jobs.
    pub(super) fn be_awaited(&self) {
        self.awaited.store(true, Ordering::Relaxed);
    }

    /// Whether somebody does: then it is worth hearing of them before those who only keep up.
    pub fn is_awaited(&self) -> bool {
        self.awaited.load(Ordering::Relaxed)
    }

    /// A commit with news says so ([`WriteSet::message`](super::WriteSet::message)).
    pub fn told(&self, message: &str) {
        let (revision, told) = message.split_once(' ').unwrap_or((message, ""));
        let revision = revision.parse().unwrap_or(0);
        let is_new = !told.is_empty() && revision > self.seen.load(Ordering::Acquire);
        if is_new {
            self.messages.push(told);
        }
        self.heard(revision);
        // It is taken over while those who wait for news wake up, and is known when they ask.
        if is_new {
            (self.take_over)();
        }
    }

    /// The store is at a revision. Wakes those who wait for news if that is new here.
    pub fn heard(&self, revision: u64) {
        let before = self.heard.fetch_max(revision, Ordering::AcqRel);
        if revision > before.max(self.seen.load(Ordering::Acquire)) {
            self.wake();
        }
    }

    /// Something may have changed.
    pub fn wake(&self) {
        self.version.send_modify(|version| *version += 1);
    }

    /// Something has changed: whoever looks sees it, and those who wait are woken later ([`News::wake_late`]).
    pub(super) fn move_on(&self) {
        self.version.send_if_modified(|version| {
            *version += 1;
            false
        });
    }

    /// Wakes those who wait for what has moved on.
    pub(super) fn wake_late(&self) {
        self.version.send_modify(|_| {});
    }

    /// Jobs were put down beside the queue: they are admitted in the next turn.
    pub fn inbox(&self) {
        (self.admit)();
    }

    /// The version that moves on with every change.
    pub fn version(&self) -> watch::Receiver<u64> {
        self.version.subscribe()
    }
}
