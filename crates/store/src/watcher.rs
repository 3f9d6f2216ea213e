//! News from other processes: a thread that looks, a few dozen times a second and only while somebody
//! waits, whether the store has a revision that this process has not written or seen.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::watch;

/// Between two looks while others are at work. A look is one integer read from shared memory.
const PAUSE: Duration = Duration::from_millis(20);
/// Between two looks when nothing has happened for a while.
const LONG_PAUSE: Duration = Duration::from_millis(50);
/// How many looks without news make a while.
const QUIET: u32 = 100;

/// How a store on a disk is looked at for changes.
pub trait Glance: Send + 'static {
    /// Something that is cheap to read and differs after every change by another process.
    fn mark(&mut self) -> Option<u64>;
    /// The number of the latest committed change, by whomever.
    fn revision(&mut self) -> Option<u64>;
    /// Whether an application has put down jobs beside the queue, which a claim will admit. That leaves the
    /// revision as it is.
    fn inbox(&mut self) -> bool {
        false
    }
}

/// A handle on the thread that looks.
#[derive(Debug, Default)]
pub struct Watcher {
    stop: Arc<AtomicBool>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Watcher {
    /// Begins to look, if that has not begun yet.
    pub fn ensure<G: Glance>(
        &self,
        glance: impl FnOnce() -> Option<G>,
        seen: &Arc<AtomicU64>,
        version: &Arc<watch::Sender<u64>>,
    ) {
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if thread.is_some() || self.stop.load(Ordering::Acquire) {
            return;
        }
        let Some(mut glance) = glance() else { return };
        let (stop, seen, version) = (self.stop.clone(), seen.clone(), version.clone());
        let look = move || watch(&mut glance, &stop, &seen, &version);
        *thread = std::thread::Builder::new().name("runcue-watch".into()).spawn(look).ok();
    }

    /// Stops looking.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

fn watch(
    glance: &mut impl Glance,
    stop: &AtomicBool,
    seen: &AtomicU64,
    version: &watch::Sender<u64>,
) {
    let mut last = None;
    let mut told = 0;
    let mut quiet = 0;
    while !stop.load(Ordering::Acquire) {
        let current = glance.mark();
        quiet += 1;
        if current != last {
            last = current;
            quiet = 0;
            let revision = glance.revision().unwrap_or(0);
            let moved = revision > seen.load(Ordering::Acquire).max(told);
            told = told.max(revision);
            if moved || glance.inbox() {
                version.send_modify(|version| *version += 1);
            }
        }
        std::thread::park_timeout(if quiet < QUIET { PAUSE } else { LONG_PAUSE });
    }
}
