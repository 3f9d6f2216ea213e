//! The one of a daemon who writes to a server, on a thread of its own, or for a moment on the one that listens to the server
//! (`door.rs`). It takes whatever requests have come in since its last
//! turn into the next one, so that many callers share one commit, and answers each only when that is done. While a
//! large commit is carried out by a second thread it decides the next turn, on what that commit will have written; if
//! that comes to nothing, both are decided again.
//!
//! When the server is away it connects again and again, with growing pauses, for ever. Requests wait for that
//! up to a bound. A request may run more than once before its turn is written, never after.

mod gather;
mod keeping;
mod trouble;

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use runcue_core::{JobId, Timestamp};
use tokio::sync::watch;

use super::ahead::{Ahead, Place};
use super::cache::{Foresight, Overlay};
use super::clock::Clock;
use super::door::Door;
use super::news::News;
use super::requests::{Message, Request, Workshop, refuse_all, refuse_late, tell};
use super::told::Voice;
use super::{Backend, CommitId, Committed, Haste, WriteSet};
use crate::machine::Machine;
use crate::{Result, StoreError};
use gather::{TOGETHER, linger};

/// Turns in a row in which nobody else has written, before turns are skipped.
const ALONE: u32 = 3;
/// The same after others have come in between again and again.
const MOST_ALONE: u32 = 256;
/// Commits of so many jobs are carried out by the second thread, unless told otherwise ([`Settings::large`]).
pub const LARGE: usize = 256;
/// After so many times in vain in a row it waits, or uses the second thread, only once in so many turns.
const IN_VAIN: u32 = 4;
const SELDOM: u32 = 64;
/// After commits that relied on what was told and were refused, so many turns are begun at the most before the next one
/// relies on it.
const MOST_DOUBT: u32 = 63;
/// Whoever has not heard of the server for so long begins a turn before it decides about many jobs.
const LONG_AGO: Duration = Duration::from_millis(20);
/// A turn in which the server was not heard of for so long may have been lost.
const TRUSTED: Duration = Duration::from_secs(1);
/// Between two attempts to connect: at first, and at the most.
const PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));

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
    /// Those who listen to the server have a thread of their own to do it, which may be kept for a while.
    pub listens_apart: bool,
    /// Commits of so many jobs are carried out by a second thread, as long as there is something to decide meanwhile. If it
    /// is zero all of them always are.
    pub large: usize,
}

/// What came of an attempt at a turn.
enum Attempt {
    /// It is written.
    Done,
    /// The second thread writes it.
    UnderWay,
    /// Nothing is written; the requests are to be run again.
    Again,
    /// Nothing is written, and the server is away.
    Away(StoreError),
}

/// How often in a row something was tried in vain, or was not tried for that reason.
#[derive(Default)]
struct Vain(u32);

impl Vain {
    /// Whether to try again.
    fn is_worth_it(&mut self) -> bool {
        let times = self.0;
        self.0 = times.wrapping_add(1);
        times < IN_VAIN || times.is_multiple_of(SELDOM)
    }
}

/// A commit that the second thread carries out.
struct Flight<B> {
    /// The requests that are answered when it is done.
    turn: VecDeque<Request<B>>,
    writes: Arc<WriteSet>,
    /// Since when its turn is held.
    since: Option<Instant>,
    /// Whether another turn was decided meanwhile.
    joined: bool,
}

/// What came to be done.
enum Gathered {
    Some,
    Nothing,
    /// Nobody will come any more.
    Closed,
}

/// The one who writes.
pub(super) struct Worker<B> {
    /// Where requests come in, and where the second thread says that it is done.
    door: Weak<Door<B>>,
    /// Requests that no turn has taken in yet.
    waiting: VecDeque<Request<B>>,
    flight: Option<Flight<B>>,
    /// Requests of a flight that came to nothing.
    returned: VecDeque<Request<B>>,
    /// What a flight has written and the requests that are to be answered for it.
    landed: Option<(Arc<WriteSet>, VecDeque<Request<B>>)>,
    /// Whether there is something to decide while the second thread carries out a commit.
    flights: Vain,
    /// Since when the turn is held, or was before it was lent.
    turn_since: Option<Instant>,
    lent: Option<Instant>,
    /// When it was last taken, whether for much, and whether somebody with little to do waits for it.
    taken_at: Instant,
    much: bool,
    hurry: bool,
    /// How many with much to do waited for it when the server was last heard of, if it says so.
    line: Option<usize>,
    /// When the server was last heard of in the turn.
    heard_at: Instant,
    /// When the last turn was written, and how many in a row were followed by the next request at once.
    ended_at: Option<Instant>,
    followed: u32,
    /// How many jobs the latest commit was about.
    written: usize,
    /// How many jobs were handed out in this turn that have not come back.
    handed_out: usize,
    /// Whether some were handed out in it at all.
    has_claimed: bool,
    /// Whether another request comes to share the commit of one that waits for it.
    company: Vain,
    /// Whether those who were handed many jobs come back while the turn is kept for them.
    coming_back: Vain,
    /// Whether everything since the last turn was begun, or before, came from here or was told.
    fresh: bool,
    /// Whether there was a commit that nobody in this process was told of, and whether there is news in it.
    untold: bool,
    has_news: bool,
    /// Whether something was told since the last turn was decided.
    told: bool,
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
    /// What was claimed before anybody asked for it.
    ahead: Place,
    /// Jobs that turned out to be there when they were to be inserted.
    known: Vec<JobId>,
    news: News,
    trouble: watch::Sender<Option<String>>,
}

impl<B: Backend> Worker<B> {
    /// A worker over a backend that should be connected.
    pub fn new(
        backend: B,
        settings: Settings,
        door: &Arc<Door<B>>,
        news: News,
        trouble: watch::Sender<Option<String>>,
        ahead: &Place,
    ) -> Self {
        Self {
            door: Arc::downgrade(door),
            waiting: VecDeque::new(),
            flight: None,
            returned: VecDeque::new(),
            landed: None,
            flights: Vain::default(),
            turn_since: None,
            lent: None,
            taken_at: Instant::now(),
            much: false,
            hurry: false,
            line: None,
            heard_at: Instant::now(),
            ended_at: None,
            followed: 0,
            written: 0,
            handed_out: 0,
            has_claimed: false,
            company: Vain::default(),
            coming_back: Vain::default(),
            fresh: false,
            untold: false,
            has_news: false,
            told: false,
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
            ahead: Arc::clone(ahead),
            known: Vec::new(),
            news,
            trouble,
            settings,
        }
    }

    /// Works until there is nothing to do. Answers whether somebody may still come.
    pub fn work(&mut self) -> bool {
        loop {
            match self.gather() {
                Gathered::Some => self.next_turn(),
                Gathered::Nothing => return true,
                Gathered::Closed => break,
            }
        }
        self.finish();
        false
    }

    /// Looks at what was told, and claims ahead. Answers whether there is something left to do.
    pub fn listen(&mut self) -> bool {
        self.catch_up();
        self.claim_ahead();
        if !self.waiting.is_empty() {
            self.next_turn();
            // By now it was probably asked for.
            while self.take_one() {}
        }
        !self.waiting.is_empty() || self.flight.is_some() || self.ahead().is_some()
    }

    fn next_turn(&mut self) {
        refuse_late(&mut self.waiting, self.trouble.borrow().as_deref());
        if self.waiting.is_empty() || self.retry_at.is_some_and(|at| at > Instant::now()) {
            return;
        }
        let at_once = self.ended_at.is_some_and(|at| at.elapsed() < linger(self.written));
        self.followed = if at_once { self.followed.saturating_add(1) } else { 0 };
        self.await_landing();
        self.await_company();
        let mut turn = VecDeque::new();
        self.fill(&mut turn);
        self.claim_along(&mut turn);
        self.take_turn(&mut turn);
        self.known.clear();
        self.ended_at = Some(Instant::now());
        // Those who still wait do so for the server to come back.
        while let Some(request) = turn.pop_back() {
            self.waiting.push_front(request);
        }
        self.read_ahead();
    }

    /// Nobody comes any more.
    fn finish(&mut self) {
        self.land_now();
        let mut last: VecDeque<Request<B>> = self.hand_back().into_iter().collect();
        self.take_turn(&mut last);
        refuse_all(&mut last, &StoreError::Closed);
        let waiting = std::mem::take(&mut self.waiting);
        waiting.into_iter().for_each(|request| request.work.answer(Some(StoreError::Closed)));
        self.leave_turn();
    }

    fn ahead(&self) -> MutexGuard<'_, Option<Ahead>> {
        self.ahead.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes over what others have told, so that their changes need not be asked for. Not in a turn that is held: nobody
    /// else writes then.
    fn catch_up(&mut self) {
        if self.machine.revision().is_none() {
            return;
        }
        let overlay = self.machine.tables();
        let mut told = false;
        for message in self.news.messages.take(overlay.voice.as_ref()) {
            told |= overlay.hear(message);
        }
        self.fresh |= told;
        self.told |= told;
    }

    /// Reads jobs that will probably be claimed next, while those who were answered are busy with theirs. What it reads may
    /// be newer than what is known; then the next commit is refused, as after every question outside of a turn.
    fn read_ahead(&mut self) {
        let busy = !self.waiting.is_empty() || self.flight.is_some();
        if busy || self.machine.revision().is_none() {
            return;
        }
        if self.take_one() {
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
        (self.turn_since, self.lent) = (None, None);
        self.machine.tables().backend().abandon();
    }

    /// Runs requests until their turn is written, or leaves them waiting because the server is away.
    fn take_turn(&mut self, turn: &mut VecDeque<Request<B>>) {
        while !turn.is_empty() {
            match self.attempt(turn) {
                Attempt::Done => self.answer(turn),
                Attempt::UnderWay => {
                    if let Some(flight) = &mut self.flight {
                        flight.turn = std::mem::take(turn);
                    }
                }
                Attempt::Again => {
                    self.forget();
                    // Somebody was quicker.
                    turn.retain(|request| !request.work.is_ahead());
                    self.take_back(turn);
                    refuse_late(turn, None);
                }
                Attempt::Away(error) => {
                    self.forget();
                    self.away(&error);
                    if !matches!(error, StoreError::Unavailable(_)) {
                        // Whoever was decided while that commit was under way has nothing to do with it.
                        let landed = !self.returned.is_empty();
                        refuse_all(if landed { &mut self.returned } else { turn }, &error);
                    }
                    self.take_back(turn);
                    return;
                }
            }
        }
    }

    /// Requests of a flight that came to nothing are before those that were decided meanwhile.
    fn take_back(&mut self, turn: &mut VecDeque<Request<B>>) {
        while let Some(request) = self.returned.pop_back() {
            turn.push_front(request);
        }
    }

    /// Waits for the commit that is under way, if there is one, and answers its requests. Otherwise answers what is to be
    /// done: nothing that was decided since then holds.
    fn land(&mut self) -> Option<Attempt> {
        let attempt = self.touch_down();
        self.answer_landed();
        attempt
    }

    /// The same, but for the answers: whoever has them is in the way of those who carry out the next commit.
    fn touch_down(&mut self) -> Option<Attempt> {
        let Flight { turn, writes, since, joined } = self.flight.take()?;
        if joined {
            self.flights = Vain::default();
        }
        let overlay = self.machine.tables();
        let lost = || Err(StoreError::Unavailable("a commit was lost".to_owned()));
        let committed = overlay.desk.landed().unwrap_or_else(lost);
        match self.judge(committed, &writes, since) {
            Attempt::Done => {
                self.landed = Some((writes, turn));
                None
            }
            attempt => {
                self.returned = turn;
                Some(attempt)
            }
        }
    }

    fn answer_landed(&mut self) {
        let Some((writes, mut turn)) = self.landed.take() else { return };
        self.tell_news(&writes);
        self.answer(&mut turn);
        self.ended_at = Some(Instant::now());
    }

    /// The same between two turns, if it is that commit which is under way. Often it was waited for before this was said.
    fn land_if(&mut self, follows: u64) {
        if self.flight.as_ref().is_some_and(|flight| flight.writes.follows == follows) {
            self.land_now();
        }
    }

    /// The same between two turns.
    fn land_now(&mut self) {
        let Some(attempt) = self.land() else { return };
        self.forget();
        if let Attempt::Away(error) = attempt {
            self.away(&error);
            if !matches!(error, StoreError::Unavailable(_)) {
                refuse_all(&mut self.returned, &error);
            }
        }
        let mut waiting = std::mem::take(&mut self.waiting);
        self.take_back(&mut waiting);
        self.waiting = waiting;
    }

    fn attempt(&mut self, turn: &mut VecDeque<Request<B>>) -> Attempt {
        if let Err(error) = self.connect() {
            return Attempt::Away(error);
        }
        let keeps = |flight: &Flight<B>| flight.writes.keeps_turn;
        let kept = self.turn_since.is_some() || self.flight.as_ref().is_some_and(keeps);
        if !kept {
            self.catch_up();
        }
        let told = std::mem::take(&mut self.told);
        let heard = self.news.heard.load(Ordering::Acquire);
        let sure = self.fresh && self.doubt == 0;
        // Much would be decided in vain on what is out of date, or on what several others were told as well.
        let jobs: usize = turn.iter().map(|request| request.foresight.len()).sum();
        let waited = self.flight.is_none() && self.heard_at.elapsed() > LONG_AGO;
        let in_vain = jobs >= LARGE && (told || (waited && !sure));
        let in_turn = kept
            || self.lent.is_some()
            || (self.alone < self.wanted_alone && !sure)
            || in_vain
            || heard > self.machine.tables().revision
            || self.machine.revision().is_none();
        let now = turn.front().map_or(Timestamp::ZERO, |request| request.now);
        let begins = in_turn && !kept;
        let ends_first = begins && self.put_off_claims(turn);
        let known = self.known.clone();
        self.machine.tables().expect(&Foresight::of_ids(known));
        for request in turn.iter() {
            self.machine.tables().expect(&request.foresight);
        }
        if begins {
            if let Some(attempt) = self.land() {
                return attempt;
            }
            let haste = match (jobs >= LARGE, self.lent) {
                (false, _) => Haste::Little,
                (true, None) => Haste::Much,
                (true, Some(_)) => Haste::Again,
            };
            if let Err(error) = self.begin(now, ends_first, haste) {
                return self.failed(error);
            }
            self.top_up(turn, ends_first);
        }
        self.flight.iter_mut().for_each(|flight| flight.joined = true);
        let begin = self.now_for(now);
        if let Err(error) = self.machine.begin(begin) {
            return self.land().unwrap_or_else(|| self.failed(error));
        }
        if let Some(attempt) = self.run_all(turn) {
            return attempt;
        }
        self.end(turn.iter().all(|request| request.work.is_ahead()))
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
            let secret = overlay.backend().secret()?;
            overlay.voice = secret.as_deref().and_then(Voice::new);
            self.voiced = true;
        }
        Ok(())
    }

    /// Takes the turn and brings the overlay up to date.
    fn begin(&mut self, now: Timestamp, ends_first: bool, haste: Haste) -> Result<()> {
        let known = self.machine.revision().unwrap_or(0);
        let heard = self.news.heard.load(Ordering::Acquire);
        let overlay = self.machine.tables();
        // That is as of the revision which is known until here.
        overlay.end_reading();
        // What waits for the turn after this one is decided as soon as this one is.
        let mut claims: usize = self.waiting.iter().map(|request| request.foresight.claim).sum();
        if ends_first && overlay.backend().reads_beside() {
            claims = 0;
        }
        let mut questions = overlay.first_questions(heard > overlay.revision, claims);
        let put_off = if ends_first { overlay.put_off_reading(&mut questions) } else { None };
        let callers = self.settings.callers_clock.then_some(now);
        let opening = overlay.backend().begin(known, callers, &questions, haste)?;
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
        self.machine.tables().reading = put_off;
        self.heard_at = Instant::now();
        (self.taken_at, self.much, self.hurry) = (self.heard_at, haste != Haste::Little, false);
        self.line.take_if(|_| haste != Haste::Again);
        let before = self.lent.take().filter(|_| haste == Haste::Again);
        self.turn_since = Some(before.unwrap_or(self.heard_at));
        (self.handed_out, self.has_claimed) = (0, false);
        Ok(())
    }

    /// Takes in what has come while others had their turns.
    fn top_up(&mut self, turn: &mut VecDeque<Request<B>>, ends_first: bool) {
        while self.waiting.len() < TOGETHER && self.take_one() {}
        let before = turn.len();
        if ends_first {
            self.fill_with_ends(turn);
        } else {
            self.fill(turn);
        }
        for request in turn.iter().skip(before) {
            self.machine.tables().expect(&request.foresight);
        }
    }

    /// Runs every request once. Answers what is to be done if they cannot all go into this turn.
    fn run_all(&mut self, turn: &mut VecDeque<Request<B>>) -> Option<Attempt> {
        for n in 0..turn.len() {
            let now = self.now_for(turn[n].now);
            let work = &mut turn[n].work;
            let ran = catch_unwind(AssertUnwindSafe(|| work.run(&mut self.machine, now)));
            let failed = match ran {
                Ok(Ok(())) => continue,
                Ok(Err(error)) => Some(error),
                Err(_) => None,
            };
            // It may have failed because it was decided on what is not so.
            if let Some(attempt) = self.land() {
                return Some(attempt);
            }
            let inside = || "an operation failed inside the store".to_owned();
            let error = match failed {
                Some(error @ StoreError::Unavailable(_)) => return Some(self.failed(error)),
                Some(error) => error,
                None => StoreError::Unavailable(inside()),
            };
            if let Some(request) = turn.remove(n) {
                request.work.answer(Some(error));
            }
            self.leave_turn();
            return Some(Attempt::Again);
        }
        None
    }

    /// Writes the turn, or makes sure that answers without a change are up to date, unless nobody has asked.
    fn end(&mut self, is_ahead: bool) -> Attempt {
        let ended = self.machine.end();
        if let Some(attempt) = self.touch_down() {
            return attempt;
        }
        if let Ok(true) = ended {
            return self.commit();
        }
        self.answer_landed();
        if let Err(error) = ended {
            return self.failed(error);
        }
        let in_turn = self.turn_since.is_some();
        let sure = in_turn && self.heard_at.elapsed() < TRUSTED;
        if !sure && !is_ahead {
            let overlay = self.machine.tables();
            let looked = overlay.backend().look();
            match looked {
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
        // Whoever found nothing, and has nobody at work who will come back, has no use for it.
        let done = (self.waiting.is_empty() && self.handed_out == 0) || self.is_to_lend();
        if in_turn && (done || !(sure && self.may_keep(0))) {
            self.leave_turn();
        }
        self.machine.tables().end();
        Attempt::Done
    }

    fn commit(&mut self) -> Attempt {
        self.commits += 1;
        let id = CommitId(self.settings.instance ^ u128::from(self.commits));
        let in_turn = self.turn_since.is_some();
        let (claimed, ended) = self.machine.tables().handed_out_and_back();
        self.handed_out = (self.handed_out + claimed).saturating_sub(ended);
        self.has_claimed |= claimed > 0;
        let more = in_turn && self.may_keep(claimed);
        let lends_turn = more && self.is_to_lend();
        let keep = more && !lends_turn;
        let since = self.turn_since.take();
        let large = self.settings.large;
        let sure = large == 0 || !self.waiting.is_empty();
        let in_this_turn = if keep { self.worth_reading(since) } else { 0 };
        let overlay = self.machine.tables();
        let claims_ahead = if overlay.shared { in_this_turn } else { usize::MAX };
        let writes = WriteSet { lends_turn, ..overlay.take_writes(id, in_turn, keep) };
        let writes = Arc::new(writes);
        self.written = writes.jobs.len();
        let was_reading = overlay.reading.is_some();
        overlay.begin_reading(&writes, claims_ahead);
        // Those who were answered for the last one are in the way of whoever writes this one: it is handed over first, even
        // if a turn ends with it and nothing can be decided meanwhile.
        let may_wait = writes.jobs.len() >= large && !lends_turn;
        let under_way = may_wait && (sure || self.flights.is_worth_it()) && {
            let (door, follows) = (Weak::clone(&self.door), writes.follows);
            let done = move || tell(&door, Message::Landed(follows));
            overlay.desk.commit_aside(&writes, done)
        };
        if under_way {
            overlay.written(&writes);
        }
        // After this one is handed over, or before whoever waits for the last would wait for this one, too.
        self.answer_landed();
        if under_way {
            self.flight = Some(Flight { turn: VecDeque::new(), writes, since, joined: false });
            return Attempt::UnderWay;
        }
        let overlay = self.machine.tables();
        let committed = overlay.desk.commit(&writes);
        let attempt = self.judge(committed, &writes, since);
        if let Attempt::Done = attempt {
            let overlay = self.machine.tables();
            overlay.written(&writes);
            if was_reading {
                overlay.end_reading();
            }
            self.tell_news(&writes);
        }
        attempt
    }

    /// What a commit came to.
    fn judge(
        &mut self,
        committed: Result<Committed>,
        writes: &WriteSet,
        since: Option<Instant>,
    ) -> Attempt {
        match committed {
            Ok(Committed::Done { now, kept, hurry, line }) => {
                self.clock.note(now);
                if !writes.in_turn {
                    self.refused /= 2;
                }
                self.heard_at = Instant::now();
                self.turn_since = since.filter(|_| kept);
                self.lent = since.filter(|_| writes.lends_turn);
                self.hurry |= hurry;
                self.line = line.or(self.line);
                Attempt::Done
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

    /// The version moves before the answers are given, so that whoever has one also sees that it moved.
    fn tell_news(&mut self, writes: &WriteSet) {
        self.news.seen.fetch_max(writes.follows + 1, Ordering::AcqRel);
        self.news.move_on();
        (self.untold, self.has_news) = (true, writes.news);
    }

    /// Answers requests whose turn is written. Where there is no news in it, as in a claim, those who wait for the answers
    /// are woken before those who wait for changes. If there is, whoever asks for what was claimed along finds it.
    fn answer(&mut self, turn: &mut VecDeque<Request<B>>) {
        self.well();
        if let Some(ahead) = turn.pop_back_if(|request| request.work.is_ahead()) {
            ahead.work.answer(None);
        }
        if std::mem::take(&mut self.has_news) {
            self.untold = false;
            self.news.wake_late();
        }
        turn.drain(..).for_each(|request| request.work.answer(None));
        // Whoever comes for what was claimed ahead goes before them, too, and is probably there.
        if self.untold && self.ahead().is_none() {
            self.untold = false;
            self.news.wake_late();
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
}

impl<B> Drop for Worker<B> {
    /// Also when it is lost to a panic: those who wait are told, and others are not let in.
    fn drop(&mut self) {
        if let Some(door) = self.door.upgrade() {
            door.abandon();
        }
    }
}
