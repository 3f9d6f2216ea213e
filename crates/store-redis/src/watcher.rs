//! News from other daemons: a thread that is subscribed to a channel of the queue, and looks at the revision once
//! a second besides, because news may get lost. Once a minute it looks whether the server throws keys away by now.
//!
//! There are two channels with the same news, because the server writes to one subscriber after the other, and what it has
//! woken is in the way of what it wakes next. Whoever runs jobs is told before whoever only keeps up in order to submit some.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use runcue_store::overlay::News;

use crate::connection::Options;
use crate::persistence::Eviction;
use crate::value::parse;

/// For those who wait for jobs. Scripts have both names in `tell.lua`.
pub const FIRST: &str = "news";
/// For those who only keep up with the others.
pub const BEHIND: &str = "news:behind";
/// Between two attempts to connect.
const PAUSE: Duration = Duration::from_secs(1);
/// How long the thread may take to notice that it is to stop.
const NOTICE: Duration = Duration::from_millis(250);

/// Which channels this handle is subscribed to itself. A commit is not told where only its author would hear of it: the server
/// would be busy with that just when somebody else, who was told, asks for the jobs.
#[derive(Debug, Default)]
pub struct Ears {
    first: AtomicBool,
    behind: AtomicBool,
}

impl Ears {
    fn set(&self, channel: &str, hears: bool) {
        let ear = if channel == FIRST { &self.first } else { &self.behind };
        ear.store(hears, Ordering::Release);
    }

    /// For a script: how many subscribers of either channel, the later first, are this handle.
    pub fn count(&self) -> [&'static str; 2] {
        [&self.behind, &self.first].map(|ear| if ear.load(Ordering::Acquire) { "1" } else { "0" })
    }
}

/// A handle on the thread that listens.
#[derive(Debug)]
pub struct Watcher {
    options: Options,
    ears: Arc<Ears>,
    stop: Arc<AtomicBool>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Watcher {
    /// Does not listen yet.
    pub fn new(options: Options, ears: Arc<Ears>) -> Self {
        Self { options, ears, stop: Arc::default(), thread: Mutex::new(None) }
    }

    /// Begins to listen, if that has not begun.
    pub fn ensure(&self, news: &News) {
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if thread.is_some() || self.stop.load(Ordering::Acquire) {
            return;
        }
        let (options, stop, news) = (self.options.clone(), self.stop.clone(), news.clone());
        let ears = self.ears.clone();
        let listen = move || {
            while !stop.load(Ordering::Acquire) {
                // Whatever ends a connection, the next one begins with a look at the revision.
                let _ = listen(&options, &ears, &stop, &news);
                [FIRST, BEHIND].iter().for_each(|channel| ears.set(channel, false));
                if !stop.load(Ordering::Acquire) {
                    thread::park_timeout(PAUSE);
                }
            }
        };
        *thread = thread::Builder::new().name("runcue-news".into()).spawn(listen).ok();
    }

    /// Stops listening.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Listens until the connection ends.
fn listen(
    options: &Options,
    ears: &Ears,
    stop: &AtomicBool,
    news: &News,
) -> runcue_store::Result<()> {
    let mut looks = options.connect()?;
    let explain = |error| crate::failure::explain(&options.place, &error);
    let mut connection = options.connect()?.into_connection();
    connection.set_read_timeout(Some(NOTICE)).map_err(explain)?;
    let mut subscription = connection.as_pubsub();
    let mut is_first = news.is_awaited();
    // A user who may not subscribe hears of everything by looking.
    let channel = if is_first { FIRST } else { BEHIND };
    let subscribed = subscription.subscribe(options.keys.key(channel)).is_ok();
    ears.set(channel, subscribed);
    let mut quiet = options.look;
    let mut eviction: Option<(Eviction, Instant)> = None;
    while !stop.load(Ordering::Acquire) {
        if subscribed && !is_first && news.is_awaited() {
            // What is heard on both until then is known the second time.
            is_first = true;
            subscription.subscribe(options.keys.key(FIRST)).map_err(explain)?;
            ears.set(FIRST, true);
            ears.set(BEHIND, false);
            subscription.unsubscribe(options.keys.key(BEHIND)).map_err(explain)?;
        }
        if quiet >= options.look {
            quiet = Duration::ZERO;
            let revision = looks.command("HGET", "meta", &[b"revision"])?;
            news.heard(parse(&revision).unwrap_or(0));
        }
        let is_late = |at: &Instant| at.elapsed() >= options.look_at_settings;
        if !options.accept_eviction && eviction.as_ref().is_none_or(|(_, at)| is_late(at)) {
            let before = eviction.as_ref().map(|(before, _)| before);
            eviction = Some((Eviction::look(&mut looks, before)?, Instant::now()));
        }
        if !subscribed {
            thread::park_timeout(NOTICE);
            quiet += NOTICE;
            continue;
        }
        match subscription.get_message() {
            Ok(message) => {
                news.told(&String::from_utf8_lossy(message.get_payload_bytes()));
            }
            Err(error) if error.is_timeout() => quiet += NOTICE,
            Err(error) => return Err(explain(error)),
        }
    }
    Ok(())
}
