//! The one thread of a daemon that writes to a server. It takes whatever requests have come in since its last
//! turn into the next one, so that many callers share one commit, and answers each only when that is done.
//!
//! When the server is away it connects again and again, with growing pauses, for ever. Requests wait for that
//! up to a bound. A request may run more than once before its turn is written, never after.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use runcue_core::{JobId, Timestamp};
use tokio::sync::{oneshot, watch};

use super::cache::{Foresight, Overlay};
use super::news::News;
use super::told::Voice;
use super::{Backend, CommitId, Committed, WriteSet};
use crate::machine::Machine;
use crate::{Result, StoreError};

/// Requests in one turn at the most, so that no caller waits long for the first of many.
const TOGETHER: usize = 256;
/// Turns in a row in which nobody else has written, before turns are skipped.
const ALONE: u32 = 3;
/// The same after others have come in between again and again.
const MOST_ALONE: u32 = 256;
/// How long a turn is kept over several commits at the most.
const KEPT: Duration = Duration::from_millis(20);
/// How long a kept turn waits for the next request.
const LINGER: Duration = Duration::from_micros(400);
/// Turns in a row that were each followed by the next request at once, before a turn is kept. A daemon with little to
/// do has three: it claims a job, ends it, and finds nothing more to claim.
const FOLLOWED: u32 = 4;
/// How long the first request of a busy daemon waits for company, and how much longer for each job that it is about, which
/// is little beside what the commit takes.
const COMPANY: Duration = Duration::from_micros(200);
const COMPANY_PER_JOB: Duration = Duration::from_micros(1);
/// After so many times in vain in a row it waits only once in so many turns.
const IN_VAIN: u32 = 4;
const SELDOM: u32 = 64;
/// After commits that relied on what was told and were refused, so many turns are begun at the most before the next one
/// relies on it.
const MOST_DOUBT: u32 = 63;
/// A turn in which the server was not heard of for so long may have been lost.
const TRUSTED: Duration = Duration::from_secs(1);
/// Between two attempts to connect: at first, and at the most.
const PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));
/// How far the server's clock may be set back before it is followed.
const STEP: Duration = Duration::from_secs(1);

/// How a writer works.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The server as messages name it.
    pub place: String,
    /// Names this daemon among all, for the ids of its commits. Random.
    pub instance: u128,
    /// The instants that callers pass count, not the server's clock. For tests with a virtual clock.
    pub callers_clock: bool,
    /// How long a request waits for a server that is away.
    pub patience: Duration,
}

/// An answer, and the instant at which the store holds it to have happened.
#[derive(Debug)]
pub struct Answered<R> {
    /// The answer.
    pub value: R,
    /// The store's clock.
    pub now: Timestamp,
}

type Workshop<B> = Machine<Overlay<B>>;

/// A request that can be run again until its turn is written.
trait Work<B>: Send {
    fn run(&mut self, machine: &mut Workshop<B>, now: Timestamp) -> Result<()>;
    fn answer(self: Box<Self>, failed: Option<StoreError>);
}

struct Call<R, F> {
    operation: F,
    outcome: Option<Result<Answered<R>>>,
    reply: oneshot::Sender<Result<Answered<R>>>,
}

impl<B, R: Send, F> Work<B> for Call<R, F>
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
}

struct Request<B> {
    now: Timestamp,
    until: Instant,
    foresight: Foresight,
    work: Box<dyn Work<B>>,
}

/// Where requests go, as long as the store is open.
type Requests<B> = Mutex<Option<Sender<Request<B>>>>;

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
fn admission<B: Backend>(
    requests: &Arc<Requests<B>>,
    patience: Duration,
) -> Arc<dyn Fn() + Send + Sync> {
    let requests = Arc::downgrade(requests);
    let under_way = Arc::new(AtomicBool::new(false));
    Arc::new(move || {
        let Some(requests) = requests.upgrade() else { return };
        let requests = requests.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(sender) = requests.as_ref() else { return };
        if !under_way.swap(true, Ordering::AcqRel) {
            let (now, foresight) = (Timestamp::ZERO, Foresight::default());
            let work = Box::new(Admit(under_way.clone()));
            let _ = sender.send(Request { now, until: Instant::now() + patience, foresight, work });
        }
    })
}

/// A handle on the thread that writes.
pub struct Writer<B> {
    requests: Arc<Requests<B>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    news: News,
    trouble: watch::Receiver<Option<String>>,
    patience: Duration,
}

impl<B: Backend> Writer<B> {
    /// Starts the thread over a backend, which should be connected.
    pub fn start(backend: B, settings: Settings) -> std::io::Result<Self> {
        let (sender, receiver) = channel();
        let requests = Arc::new(Mutex::new(Some(sender)));
        let (tell, trouble) = watch::channel(None);
        let patience = settings.patience;
        let news = News::new(admission(&requests, patience));
        let worker = Worker {
            requests: receiver,
            waiting: VecDeque::new(),
            turn_since: None,
            heard_at: Instant::now(),
            ended_at: None,
            followed: 0,
            lonely: 0,
            fresh: false,
            voiced: false,
            doubt: 0,
            refused: 0,
            machine: Machine::new(Overlay::new(backend)),
            clock: Clock::new(),
            commits: 0,
            connected: true,
            pause: PAUSES.0,
            retry_at: None,
            alone: 0,
            wanted_alone: ALONE,
            known: Vec::new(),
            news: news.clone(),
            trouble: tell,
            settings,
        };
        let thread =
            std::thread::Builder::new().name("runcue-writer".into()).spawn(move || worker.run())?;
        Ok(Self { requests, thread: Mutex::new(Some(thread)), news, trouble, patience })
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

    /// What is known of changes.
    pub fn news(&self) -> &News {
        &self.news
    }

    /// Why the server cannot be used at the moment, if that is so.
    pub fn trouble(&self) -> Option<String> {
        self.trouble.borrow().clone()
    }

    fn send(&self, request: Request<B>) -> Result<()> {
        let requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        let sender = requests.as_ref().ok_or(StoreError::Closed)?;
        sender.send(request).map_err(|_| StoreError::Closed)
    }

    /// Lets the thread finish what it has and waits for it.
    pub fn stop(&self) {
        self.leave();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }

    fn leave(&self) {
        drop(self.requests.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}

impl<B> Drop for Writer<B> {
    fn drop(&mut self) {
        drop(self.requests.lock().unwrap_or_else(PoisonError::into_inner).take());
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }
}

/// Never later than the server's clock, as far as its replies tell: it said so when the reply came in at the
/// latest.
struct Clock {
    reported: Option<(Timestamp, Instant)>,
    latest: Timestamp,
}

impl Clock {
    fn new() -> Self {
        Self { reported: None, latest: Timestamp::ZERO }
    }

    fn note(&mut self, reported: Timestamp) {
        if self.latest.since(reported) > STEP {
            self.latest = reported;
        }
        self.reported = Some((reported, Instant::now()));
    }

    fn now(&mut self) -> Timestamp {
        if let Some((reported, at)) = self.reported {
            self.latest = self.latest.max(reported.plus(at.elapsed()));
        }
        self.latest
    }
}

/// What came of an attempt at a turn.
enum Attempt {
    /// It is written.
    Done,
    /// Nothing is written; the requests are to be run again.
    Again,
    /// Nothing is written, and the server is away.
    Away(StoreError),
}

struct Worker<B> {
    requests: Receiver<Request<B>>,
    /// Requests that no turn has taken in yet.
    waiting: VecDeque<Request<B>>,
    /// Since when the turn is held.
    turn_since: Option<Instant>,
    /// When the server was last heard of in the turn.
    heard_at: Instant,
    /// When the last turn was written, and how many in a row were followed by the next request at once.
    ended_at: Option<Instant>,
    followed: u32,
    /// How often in a row a request waited in vain for another one to share its commit, or did not wait for that reason.
    lonely: u32,
    /// Whether everything since the last turn was begun, or before, came from here or was told.
    fresh: bool,
    /// Whether the queue was asked for its secret.
    voiced: bool,
    /// How many turns are to be begun before what was told is relied on again, and how many it was last time.
    doubt: u32,
    refused: u32,
    machine: Workshop<B>,
    settings: Settings,
    clock: Clock,
    commits: u64,
    connected: bool,
    pause: Duration,
    retry_at: Option<Instant>,
    /// Turns in a row in which nobody else had written.
    alone: u32,
    wanted_alone: u32,
    /// Jobs that turned out to be there when they were to be inserted.
    known: Vec<JobId>,
    news: News,
    trouble: watch::Sender<Option<String>>,
}

impl<B: Backend> Worker<B> {
    fn run(mut self) {
        while self.gather() {
            refuse_late(&mut self.waiting, self.trouble.borrow().as_deref());
            if self.waiting.is_empty() || self.retry_at.is_some_and(|at| at > Instant::now()) {
                continue;
            }
            let at_once = self.ended_at.is_some_and(|at| at.elapsed() < LINGER);
            self.followed = if at_once { self.followed.saturating_add(1) } else { 0 };
            self.await_company();
            let last = self.waiting.len().min(TOGETHER);
            let mut turn: VecDeque<Request<B>> = self.waiting.drain(..last).collect();
            self.take_turn(&mut turn);
            self.known.clear();
            self.ended_at = Some(Instant::now());
            // Those who still wait do so for the server to come back.
            while let Some(request) = turn.pop_back() {
                self.waiting.push_front(request);
            }
            self.read_ahead();
        }
        let waiting = std::mem::take(&mut self.waiting);
        waiting.into_iter().for_each(|request| request.work.answer(Some(StoreError::Closed)));
        self.leave_turn();
    }

    /// Takes in what has come. While the server is away it waits for the next attempt, otherwise for the
    /// next request. Answers whether there is to be a next turn.
    fn gather(&mut self) -> bool {
        if self.waiting.is_empty()
            && let Ok(request) = self.requests.try_recv()
        {
            self.waiting.push_back(request);
        }
        if self.waiting.is_empty() {
            match self.next_request() {
                Some(request) => self.waiting.push_back(request),
                None => return false,
            }
        } else if let Some(at) = self.retry_at {
            let late = self.waiting.iter().map(|request| request.until).min();
            let at = late.map_or(at, |late| late.min(at));
            match self.requests.recv_timeout(at.saturating_duration_since(Instant::now())) {
                Ok(request) => self.waiting.push_back(request),
                Err(RecvTimeoutError::Timeout) => {}
                // Nobody will come any more; those who wait are tried once more and then told.
                Err(RecvTimeoutError::Disconnected) if self.trouble.borrow().is_some() => {
                    return false;
                }
                Err(RecvTimeoutError::Disconnected) => {}
            }
        }
        while let Ok(request) = self.requests.try_recv() {
            self.waiting.push_back(request);
        }
        true
    }

    /// A turn that is kept waits a moment for the next request; then others may have it.
    fn next_request(&mut self) -> Option<Request<B>> {
        if self.turn_since.is_some() {
            if let Ok(request) = self.requests.recv_timeout(LINGER) {
                return Some(request);
            }
            self.leave_turn();
        }
        self.requests.recv().ok()
    }

    /// A busy daemon asks for two things, to end jobs and to claim others, and is answered sooner if they share a
    /// commit. Whoever asks for one thing after the other would wait in vain every time, and is soon let go on.
    fn await_company(&mut self) {
        if self.waiting.len() > 1 {
            self.lonely = 0;
        }
        if self.followed < FOLLOWED || self.waiting.len() > 1 {
            return;
        }
        let waits = self.lonely < IN_VAIN || self.lonely.is_multiple_of(SELDOM);
        self.lonely = self.lonely.wrapping_add(1);
        let jobs = self.waiting.front().map_or(0, |request| request.foresight.len());
        let company = COMPANY + COMPANY_PER_JOB * u32::try_from(jobs).unwrap_or(u32::MAX).min(2000);
        if waits && let Ok(request) = self.requests.recv_timeout(company) {
            self.lonely = 0;
            self.waiting.push_back(request);
        }
    }

    /// Takes over what others have told, so that their changes need not be asked for.
    fn catch_up(&mut self) {
        let overlay = self.machine.tables();
        for told in self.news.messages.take(overlay.voice.as_ref()) {
            self.fresh |= overlay.hear(told);
        }
    }

    /// Reads jobs that will probably be claimed next, while those who were answered are busy with theirs. What it reads may
    /// be newer than what is known; then the next commit is refused, as after every question outside of a turn.
    fn read_ahead(&mut self) {
        if !self.waiting.is_empty() || self.machine.revision().is_none() {
            return;
        }
        if let Ok(request) = self.requests.try_recv() {
            self.waiting.push_back(request);
            return;
        }
        if let Err(error) = self.machine.tables().read_ahead() {
            self.leave_turn();
            self.forget();
            self.connected &= !matches!(error, StoreError::Unavailable(_));
        }
    }

    /// Lets go of the turn, if it is held.
    fn leave_turn(&mut self) {
        self.turn_since = None;
        self.machine.tables().backend().abandon();
    }

    /// Runs requests until their turn is written, or leaves them waiting because the server is away.
    fn take_turn(&mut self, turn: &mut VecDeque<Request<B>>) {
        while !turn.is_empty() {
            match self.attempt(turn) {
                Attempt::Done => {
                    self.well();
                    turn.drain(..).for_each(|request| request.work.answer(None));
                }
                Attempt::Again => {
                    self.forget();
                    refuse_late(turn, None);
                }
                Attempt::Away(error) => {
                    self.forget();
                    self.away(&error);
                    if !matches!(error, StoreError::Unavailable(_)) {
                        refuse_all(turn, &error);
                    }
                    return;
                }
            }
        }
    }

    fn attempt(&mut self, turn: &mut VecDeque<Request<B>>) -> Attempt {
        if let Err(error) = self.connect() {
            return Attempt::Away(error);
        }
        let kept = self.turn_since.is_some();
        if !kept && self.machine.revision().is_some() {
            self.catch_up();
        }
        let known = self.known.clone();
        self.machine.tables().expect(&Foresight::of_ids(known));
        for request in turn.iter() {
            self.machine.tables().expect(&request.foresight);
        }
        let heard = self.news.heard.load(Ordering::Acquire);
        let sure = self.fresh && self.doubt == 0;
        let in_turn = kept
            || (self.alone < self.wanted_alone && !sure)
            || heard > self.machine.tables().revision
            || self.machine.revision().is_none();
        let now = turn.front().map_or(Timestamp::ZERO, |request| request.now);
        if in_turn && !kept {
            if let Err(error) = self.begin(now) {
                return self.failed(error);
            }
            self.top_up(turn);
        }
        let begin = self.now_for(now);
        if let Err(error) = self.machine.begin(begin) {
            return self.failed(error);
        }
        if let Some(attempt) = self.run_all(turn) {
            return attempt;
        }
        self.end(in_turn)
    }

    fn now_for(&mut self, callers: Timestamp) -> Timestamp {
        if self.settings.callers_clock { callers } else { self.clock.now() }
    }

    fn connect(&mut self) -> Result<()> {
        if !self.connected {
            self.machine.tables().backend().connect()?;
            self.connected = true;
            self.voiced = false;
        }
        if !self.voiced {
            let overlay = self.machine.tables();
            overlay.voice = overlay.backend().secret()?.as_deref().and_then(Voice::new);
            self.voiced = true;
        }
        Ok(())
    }

    /// Takes the turn and brings the overlay up to date.
    fn begin(&mut self, now: Timestamp) -> Result<()> {
        let known = self.machine.revision().unwrap_or(0);
        let heard = self.news.heard.load(Ordering::Acquire);
        let overlay = self.machine.tables();
        let questions = overlay.first_questions(heard > overlay.revision);
        let callers = self.settings.callers_clock.then_some(now);
        let opening = overlay.backend().begin(known, callers, &questions)?;
        self.clock.note(opening.now);
        // Nobody writes meanwhile: whatever else was heard of is not so, and would drown out what is.
        self.news.heard.fetch_min(opening.revision, Ordering::AcqRel);
        self.doubt = self.doubt.saturating_sub(1);
        self.fresh &= opening.changed.is_none();
        self.alone = if opening.changed.is_some() { 0 } else { self.alone.saturating_add(1) };
        if opening.changed.is_none() && self.alone >= MOST_ALONE {
            self.wanted_alone = ALONE;
        }
        if self.machine.tables().open(opening, &questions) {
            self.machine.reset();
        }
        self.heard_at = Instant::now();
        self.turn_since = Some(self.heard_at);
        Ok(())
    }

    /// Takes in what has come while others had their turns.
    fn top_up(&mut self, turn: &mut VecDeque<Request<B>>) {
        while turn.len() < TOGETHER && self.waiting.is_empty() {
            let Ok(request) = self.requests.try_recv() else { return };
            self.machine.tables().expect(&request.foresight);
            turn.push_back(request);
        }
    }

    /// Whether the turn may be kept after a commit: there is more to do, and others have not waited long.
    fn may_keep(&self) -> bool {
        self.followed >= FOLLOWED && self.turn_since.is_some_and(|since| since.elapsed() < KEPT)
    }

    /// Runs every request once. Answers what is to be done if they cannot all go into this turn.
    fn run_all(&mut self, turn: &mut VecDeque<Request<B>>) -> Option<Attempt> {
        for n in 0..turn.len() {
            let now = self.now_for(turn[n].now);
            let work = &mut turn[n].work;
            let ran = catch_unwind(AssertUnwindSafe(|| work.run(&mut self.machine, now)));
            let error = match ran {
                Ok(Ok(())) => continue,
                Ok(Err(error @ StoreError::Unavailable(_))) => return Some(self.failed(error)),
                Ok(Err(error)) => error,
                Err(_) => {
                    StoreError::Unavailable("an operation failed inside the store".to_owned())
                }
            };
            if let Some(request) = turn.remove(n) {
                request.work.answer(Some(error));
            }
            self.leave_turn();
            return Some(Attempt::Again);
        }
        None
    }

    /// Writes the turn, or makes sure that answers without a change are up to date.
    fn end(&mut self, in_turn: bool) -> Attempt {
        let changed = match self.machine.end() {
            Ok(changed) => changed,
            Err(error) => return self.failed(error),
        };
        if changed {
            return self.commit(in_turn);
        }
        let sure = in_turn && self.heard_at.elapsed() < TRUSTED;
        if !sure {
            let overlay = self.machine.tables();
            match overlay.backend().look() {
                Ok((revision, now)) => {
                    let behind = revision != overlay.revision;
                    self.clock.note(now);
                    if behind {
                        return self.overtaken();
                    }
                }
                Err(error) => return self.failed(error),
            }
        }
        if in_turn && !(sure && self.may_keep()) {
            self.leave_turn();
        }
        self.machine.tables().end();
        Attempt::Done
    }

    fn commit(&mut self, in_turn: bool) -> Attempt {
        self.commits += 1;
        let id = CommitId(self.settings.instance ^ u128::from(self.commits));
        let keep = in_turn && self.may_keep();
        let overlay = self.machine.tables();
        let writes = overlay.take_writes(id, in_turn, keep);
        let committed = overlay.backend().commit(&writes);
        let since = self.turn_since.take();
        match committed {
            Ok(Committed::Done { now, kept }) => {
                self.clock.note(now);
                if !in_turn {
                    self.refused /= 2;
                }
                self.heard_at = Instant::now();
                self.turn_since = since.filter(|_| kept);
                self.written(writes)
            }
            Ok(Committed::Behind) => self.overtaken(),
            Ok(Committed::Known(ids)) => {
                // All of them count until it is written: what else was known has been forgotten by then.
                self.known.extend(ids);
                Attempt::Again
            }
            Err(StoreError::Unavailable(why)) => self.settle(writes, why),
            Err(error) => self.failed(error),
        }
    }

    fn written(&mut self, writes: WriteSet) -> Attempt {
        let overlay = self.machine.tables();
        overlay.written(writes);
        self.news.seen.fetch_max(overlay.revision, Ordering::AcqRel);
        // The version moves first, so that whoever has an answer also sees that it moved.
        self.news.wake();
        Attempt::Done
    }

    /// The reply to a commit was lost. Nobody is answered before it is known whether it went through.
    fn settle(&mut self, writes: WriteSet, why: String) -> Attempt {
        let Some(id) = writes.id else { return Attempt::Again };
        let begun = Instant::now();
        let mut error = StoreError::Unavailable(why);
        loop {
            self.away(&error);
            if begun.elapsed() > self.settings.patience {
                return Attempt::Away(error);
            }
            if let Some(at) = self.retry_at {
                std::thread::sleep(at.saturating_duration_since(Instant::now()));
            }
            let settled = self
                .connect()
                .and_then(|()| self.machine.tables().backend().settle(id, writes.follows));
            match settled {
                Ok(true) => return self.written(writes),
                Ok(false) => return Attempt::Again,
                Err(failed @ StoreError::Unavailable(_)) => error = failed,
                Err(failed) => return Attempt::Away(failed),
            }
        }
    }

    /// Somebody else has written: not alone for a while.
    fn overtaken(&mut self) -> Attempt {
        self.leave_turn();
        if std::mem::take(&mut self.fresh) {
            self.refused = (self.refused * 2 + 1).min(MOST_DOUBT);
            self.doubt = self.refused;
        }
        self.alone = 0;
        self.wanted_alone = (self.wanted_alone * 2).min(MOST_ALONE);
        Attempt::Again
    }

    fn failed(&mut self, error: StoreError) -> Attempt {
        self.leave_turn();
        Attempt::Away(error)
    }

    /// Forgets everything after a turn that was not written.
    fn forget(&mut self) {
        self.machine.reset();
        self.machine.tables().reset();
        self.fresh = false;
        self.alone = 0;
    }

    fn away(&mut self, error: &StoreError) {
        self.connected &= !matches!(error, StoreError::Unavailable(_));
        self.commits += 1;
        let jitter =
            75 + (self.settings.instance ^ u128::from(self.commits).wrapping_mul(0x9e37_79b9)) % 50;
        let pause = self.pause * u32::try_from(jitter).unwrap_or(100) / 100;
        self.retry_at = Some(Instant::now() + pause);
        self.pause = (self.pause * 2).min(PAUSES.1);
        let why = error.to_string();
        let place = &self.settings.place;
        if self.trouble.borrow().is_none() {
            tracing::warn!(place, "{why}; trying again");
        } else {
            tracing::debug!(place, "{why}; trying again");
        }
        self.trouble.send_replace(Some(why));
    }

    fn well(&mut self) {
        self.retry_at = None;
        self.pause = PAUSES.0;
        if self.trouble.borrow().is_some() {
            tracing::info!(place = self.settings.place, "the store is available again");
            self.trouble.send_replace(None);
            // Whatever happened in the meantime was not heard of.
            self.news.wake();
        }
    }
}

/// Those who have waited too long are told why.
fn refuse_late<B>(waiting: &mut VecDeque<Request<B>>, why: Option<&str>) {
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

fn refuse_all<B>(turn: &mut VecDeque<Request<B>>, error: &StoreError) {
    for request in turn.drain(..) {
        request.work.answer(Some(error.repeat()));
    }
}
