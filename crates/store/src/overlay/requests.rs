//! What callers ask of the writer's thread, and how they are answered.

use std::any::Any;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use runcue_core::Timestamp;
use tokio::sync::{oneshot, watch};

use super::Backend;
use super::ahead::{self, Place};
use super::cache::{Foresight, Overlay};
use super::door::Door;
use super::news::{News, Poke};
use super::told::Messages;
use super::writer::{Settings, Worker};
use crate::machine::Machine;
use crate::{ClaimRequest, Claimed, Result, StoreError};

/// An answer, and the instant at which the store holds it to have happened.
#[derive(Debug)]
pub struct Answered<R> {
    /// The answer.
    pub value: R,
    /// The store's clock.
    pub now: Timestamp,
}

pub(super) type Workshop<B> = Machine<Overlay<B>>;

/// A request that can be run again until its turn is written.
pub(super) trait Work<B>: Send {
    fn run(&mut self, machine: &mut Workshop<B>, now: Timestamp) -> Result<()>;
    fn answer(self: Box<Self>, failed: Option<StoreError>);

    /// Whether nobody has asked for it yet.
    fn is_ahead(&self) -> bool {
        false
    }

    /// Answers what was done before it was asked for.
    fn give(self: Box<Self>, _value: Box<dyn Any + Send>, _now: Timestamp) {}
}

struct Call<R, F> {
    operation: F,
    outcome: Option<Result<Answered<R>>>,
    reply: oneshot::Sender<Result<Answered<R>>>,
}

impl<B, R: Send + 'static, F> Work<B> for Call<R, F>
where
    F: Fn(&mut Workshop<B>, Timestamp) -> Result<R> + Send,
{
    /// A refusal is an outcome like any other: it may rest on what is out of date.
    fn run(&mut self, machine: &mut Workshop<B>, now: Timestamp) -> Result<()> {
        self.outcome = None;
        match (self.operation)(machine, now) {
            Ok(value) => self.outcome = Some(Ok(Answered { value, now })),
            Err(error) if error.is_refusal() => self.outcome = Some(Err(error)),
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn answer(self: Box<Self>, failed: Option<StoreError>) {
        let outcome = match failed {
            Some(error) => Err(error),
            None => self.outcome.unwrap_or(Err(StoreError::Closed)),
        };
        // A caller that has gone away needs no answer.
        let _ = self.reply.send(outcome);
    }

    fn give(self: Box<Self>, value: Box<dyn Any + Send>, now: Timestamp) {
        if let Ok(value) = value.downcast() {
            let _ = self.reply.send(Ok(Answered { value: *value, now }));
        }
    }
}

pub(super) struct Request<B> {
    pub now: Timestamp,
    pub until: Instant,
    pub foresight: Foresight,
    pub work: Box<dyn Work<B>>,
}

/// What the thread hears.
pub(super) enum Message<B> {
    Request(Request<B>),
    /// The second thread has carried out the commit that follows a revision.
    Landed(u64),
    /// Others have told what they changed.
    Told,
}

pub(super) fn tell<B>(door: &Weak<Door<B>>, message: Message<B>) {
    if let Some(door) = door.upgrade() {
        // Nobody waits for what is told, and nobody needs it when the store is closed.
        let _ = door.enter(message);
    }
}

/// Admits what is in the inbox. Nobody waits for it, and one under way is enough.
struct Admit(Arc<AtomicBool>);

impl<B: Backend> Work<B> for Admit {
    fn run(&mut self, machine: &mut Workshop<B>, now: Timestamp) -> Result<()> {
        self.0.store(false, Ordering::Release);
        machine.admit(now).map(drop)
    }

    fn answer(self: Box<Self>, failed: Option<StoreError>) {
        self.0.store(false, Ordering::Release);
        if let Some(error) = failed {
            tracing::debug!("jobs are left in the inbox for now: {error}");
        }
    }
}

/// What asks for an admission.
fn admission<B: Backend>(door: &Arc<Door<B>>, patience: Duration) -> Poke {
    let door = Arc::downgrade(door);
    let under_way = Arc::new(AtomicBool::new(false));
    Arc::new(move || {
        if !under_way.swap(true, Ordering::AcqRel) {
            let (now, foresight) = (Timestamp::ZERO, Foresight::default());
            let work = Box::new(Admit(under_way.clone()));
            let until = Instant::now() + patience;
            tell(&door, Message::Request(Request { now, until, foresight, work }));
        }
    })
}

/// What has the worker look at what was told, if it has nothing else to do: here, where that may take a while, or on its own
/// thread.
fn taking_over<B: Backend>(door: &Arc<Door<B>>, messages: &Messages, here: bool) -> Poke {
    let (door, messages) = (Arc::downgrade(door), messages.clone());
    Arc::new(move || {
        if !here {
            // One look is for all that has come.
            if messages.len() == 1 {
                tell(&door, Message::Told);
            }
            return;
        }
        let Some(door) = door.upgrade() else { return };
        if let Some(mut worker) = door.borrow() {
            let unfinished = worker.listen();
            door.put_down(worker, unfinished);
        }
    })
}

/// A handle on the thread that writes.
pub struct Writer<B> {
    door: Arc<Door<B>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    ahead: Place,
    news: News,
    trouble: watch::Receiver<Option<String>>,
    patience: Duration,
}

impl<B: Backend> Writer<B> {
    /// Starts the thread over a backend, which should be connected.
    pub fn start(backend: B, settings: Settings) -> std::io::Result<Self> {
        let door = Arc::new(Door::default());
        let (tell, trouble) = watch::channel(None);
        let patience = settings.patience;
        let messages = Messages::default();
        let take_over = taking_over(&door, &messages, settings.listens_apart);
        let news = News::new(messages, admission(&door, patience), take_over);
        let ahead = Place::default();
        let worker = Worker::new(backend, settings, &door, news.clone(), tell, &ahead);
        door.put_down(Box::new(worker), false);
        let own = Arc::clone(&door);
        let thread =
            std::thread::Builder::new().name("runcue-writer".into()).spawn(move || work(&own))?;
        Ok(Self { door, thread: Mutex::new(Some(thread)), ahead, news, trouble, patience })
    }

    /// Runs an operation in the next turn and answers when that is written. It may be run several times;
    /// only the last one counts.
    pub async fn call<R: Send + 'static>(
        &self,
        now: Timestamp,
        foresight: Foresight,
        operation: impl Fn(&mut Machine<Overlay<B>>, Timestamp) -> Result<R> + Send + 'static,
    ) -> Result<Answered<R>> {
        let (reply, answer) = oneshot::channel();
        let work = Box::new(Call { operation, outcome: None, reply });
        let until = Instant::now() + self.patience;
        self.send(Request { now, until, foresight, work })?;
        answer.await.unwrap_or(Err(StoreError::Closed))
    }

    /// What was claimed ahead for whoever asks in these words, without waking anybody for it.
    pub fn claimed_ahead(&self, request: &ClaimRequest) -> Option<Answered<Claimed>> {
        if !request.again {
            return None;
        }
        let (value, now) = ahead::take(&self.ahead, request)?.answer();
        // More may have come since that was claimed, and whoever asks has heard of it before it asked.
        self.news.wake();
        Some(Answered { value, now })
    }

    /// What is known of changes.
    pub fn news(&self) -> &News {
        &self.news
    }

    /// Why the server cannot be used at the moment, if that is so.
    pub fn trouble(&self) -> Option<String> {
        self.trouble.borrow().clone()
    }

    fn send(&self, request: Request<B>) -> Result<()> {
        self.door.enter(Message::Request(request))
    }

    /// Lets the thread finish what it has and waits for it.
    pub fn stop(&self) {
        self.door.close();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }
}

impl<B> Drop for Writer<B> {
    fn drop(&mut self) {
        self.door.close();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }
}

/// What the worker's own thread does.
fn work<B: Backend>(door: &Door<B>) {
    while let Some(mut worker) = door.take_up() {
        if !worker.work() {
            return;
        }
        door.put_down(worker, false);
    }
}

/// Those who have waited too long are told why.
pub(super) fn refuse_late<B>(waiting: &mut VecDeque<Request<B>>, why: Option<&str>) {
    let now = Instant::now();
    if waiting.iter().all(|request| request.until > now) {
        return;
    }
    for request in std::mem::take(waiting) {
        if request.until > now {
            waiting.push_back(request);
        } else {
            let why = why.unwrap_or("others keep it busy");
            let why = why.strip_prefix("the store is not available: ").unwrap_or(why);
            request.work.answer(Some(StoreError::Unavailable(why.to_owned())));
        }
    }
}

pub(super) fn refuse_all<B>(turn: &mut VecDeque<Request<B>>, error: &StoreError) {
    for request in turn.drain(..) {
        request.work.answer(Some(error.repeat()));
    }
}
