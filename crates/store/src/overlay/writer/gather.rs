//! What goes into the next turn of a writer: requests that have come, and those that are worth waiting for.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use runcue_core::Timestamp;

use super::super::ahead::{self, Ahead, ClaimAhead};
use super::super::door::Next;
use super::super::requests::{Message, Request, Work};
use super::super::{Backend, Foresight};
use super::keeping::FOLLOWED;
use super::{Gathered, LARGE, Vain, Worker};
use crate::ClaimRequest;

/// Requests in one turn at the most, so that no caller waits long for the first of many.
pub(super) const TOGETHER: usize = 256;
/// How long a kept turn waits for the next request, and how much longer for each job that is at work, because whoever was
/// answered is busy with all of them.
const LINGER: Duration = Duration::from_micros(400);
const LINGER_PER_JOB: Duration = Duration::from_micros(3);
/// How long the first request of a busy daemon waits for company, and how much longer for each job that it is about, which
/// is little beside what the commit takes.
const COMPANY: Duration = Duration::from_micros(200);
const COMPANY_PER_JOB: Duration = Duration::from_micros(1);
/// A request about so many jobs waits for company though it is not one of several in a row.
const MANY: usize = 64;

impl<B: Backend> Worker<B> {
    /// Takes those who wait into a turn, but for what had better go into the turn after it, which is decided while this one
    /// is written; so is from then on whatever comes of either.
    pub(super) fn fill(&mut self, turn: &mut VecDeque<Request<B>>) {
        while let Some(next) = self.waiting.front() {
            if turn.len() >= TOGETHER || !goes_along(turn, next) {
                return;
            }
            turn.extend(self.waiting.pop_front());
        }
    }

    /// A turn that begins with the end of many jobs leaves claims to the one after it: an end needs nothing that would have
    /// to be read first, and while it is written the jobs to claim are. Answers whether it does.
    pub(super) fn put_off_claims(&mut self, turn: &mut VecDeque<Request<B>>) -> bool {
        let ends = |request: &&Request<B>| !is_large_claim(request);
        let jobs: usize = turn.iter().filter(ends).map(|request| request.foresight.len()).sum();
        let claims = turn.iter().chain(&self.waiting).any(is_large_claim);
        if jobs < LARGE || !claims {
            return false;
        }
        for request in std::mem::take(turn).into_iter().rev() {
            if is_large_claim(&request) {
                self.waiting.push_front(request);
            } else {
                turn.push_front(request);
            }
        }
        true
    }

    /// Takes those who wait into such a turn, until there are enough jobs: whoever had the turn before is done with it, and the
    /// server has nothing to write until this has been decided.
    pub(super) fn fill_with_ends(&mut self, turn: &mut VecDeque<Request<B>>) {
        let mut jobs = 0;
        let all = std::mem::take(turn).into_iter().chain(std::mem::take(&mut self.waiting));
        for request in all {
            let is_enough = jobs >= LARGE || turn.len() >= TOGETHER;
            if is_enough || is_large_claim(&request) {
                self.waiting.push_back(request);
            } else {
                jobs += request.foresight.len();
                turn.push_back(request);
            }
        }
    }

    /// Takes in what has come. While the server is away it waits for the next attempt.
    pub(super) fn gather(&mut self) -> Gathered {
        self.take_one();
        while self.waiting.is_empty() {
            if self.turn_since.is_none() && self.flight.is_none() {
                self.catch_up();
                self.claim_ahead();
                if !self.waiting.is_empty() {
                    break;
                }
            }
            match self.next_message() {
                Next::Message(message) => self.take_in(message),
                Next::Nothing => return Gathered::Nothing,
                Next::Closed if self.flight.is_some() => self.land_now(),
                Next::Closed => return Gathered::Closed,
            }
        }
        if let Some(at) = self.retry_at {
            let late = self.waiting.iter().map(|request| request.until).min();
            let at = late.map_or(at, |late| late.min(at));
            match self.wait(Some(at)) {
                Next::Message(message) => self.take_in(message),
                // Nobody will come any more; those who wait are tried once more and then told.
                Next::Closed if self.trouble.borrow().is_some() => return Gathered::Closed,
                Next::Nothing | Next::Closed => {}
            }
        }
        while self.take_one() {}
        Gathered::Some
    }

    fn take_in(&mut self, message: Message<B>) {
        match message {
            Message::Request(request) => self.take_request(request),
            Message::Landed(follows) => self.land_if(follows),
            // Whoever has something to do looks at it before it decides.
            Message::Told => {}
        }
    }

    /// Takes in a request that has come. Answers whether there was one.
    pub(super) fn take_one(&mut self) -> bool {
        let before = self.waiting.len();
        while let Next::Message(message) = self.look() {
            self.take_in(message);
            if self.waiting.len() > before {
                return true;
            }
        }
        false
    }

    /// Whoever asks for what was claimed ahead has it at once, and may ask again for more. Others wait for the next turn.
    fn take_request(&mut self, request: Request<B>) {
        let asked = request.foresight.asked.as_ref();
        if let Some(ahead) = asked.and_then(|asked| ahead::take(&self.ahead, asked)) {
            let (claimed, now) = ahead.answer();
            request.work.give(Box::new(claimed), now);
            // More may have come since that was claimed, and whoever asks has heard of it before it asked.
            self.untold = false;
            self.news.wake();
            return;
        }
        if asked.is_some() {
            // Nobody has to anticipate it any more.
            self.waiting.retain(|waiting| !waiting.work.is_ahead());
        }
        self.waiting.push_back(request);
    }

    /// Claims what was told of for whoever will ask for it, if all that others have done is known. It waits for nobody's
    /// turn, because whoever listens may be the one who does it.
    pub(super) fn claim_ahead(&mut self) {
        let knows_all = self.told && self.fresh && self.doubt == 0;
        let heard = self.news.heard.load(Ordering::Acquire);
        let begins = self.lent.is_some() || heard > self.machine.tables().revision;
        let can = knows_all && !begins && !self.settings.callers_clock;
        if !can || self.ahead().is_some() {
            return;
        }
        let Some(request) = self.machine.tables().awaited.take() else { return };
        self.waiting.push_back(self.claim_for(request));
    }

    /// A few jobs that are submitted to a daemon whose engine waits for some are claimed for it in the same commit.
    pub(super) fn claim_along(&mut self, turn: &mut VecDeque<Request<B>>) {
        let brings_few = |request: &Request<B>| {
            let batch = request.foresight.batch.as_ref();
            batch.is_some_and(|batch| batch.jobs.len() <= ahead::MOST)
        };
        let claims = |request: &Request<B>| request.foresight.claim > 0 || request.work.is_ahead();
        let can = turn.iter().any(brings_few) && !turn.iter().chain(&self.waiting).any(claims);
        if !can || self.settings.callers_clock || self.ahead().is_some() {
            return;
        }
        let Some(request) = self.machine.tables().awaited.take() else { return };
        turn.push_back(self.claim_for(request));
    }

    fn claim_for(&self, request: ClaimRequest) -> Request<B> {
        let claim = ClaimAhead::new(request, &self.ahead);
        self.own_request(claim.foresight(), Box::new(claim))
    }

    /// What was claimed ahead and nobody has asked for goes back.
    pub(super) fn hand_back(&mut self) -> Option<Request<B>> {
        let ahead = self.ahead().take()?;
        Some(self.own_request(Foresight::default(), Box::new(ahead.hand_back())))
    }

    fn own_request(&self, foresight: Foresight, work: Box<dyn Work<B>>) -> Request<B> {
        let until = Instant::now() + self.settings.patience;
        Request { now: Timestamp::ZERO, until, foresight, work }
    }

    /// A turn that is kept, or was lent, waits a moment for the next request; then others may have it.
    fn next_message(&mut self) -> Next<B> {
        if self.turn_since.or(self.lent).is_some() {
            let until = Instant::now() + linger(self.handed_out);
            if let Next::Message(message) = self.wait(Some(until)) {
                self.coming_back = Vain::default();
                return Next::Message(message);
            }
            self.leave_turn();
        }
        if self.flight.is_some() {
            return self.wait(None);
        }
        let Some(until) = self.ahead().as_ref().map(Ahead::until) else { return self.look() };
        match self.wait(Some(until)) {
            Next::Nothing => {
                self.hand_back().map_or(Next::Nothing, |back| Next::Message(Message::Request(back)))
            }
            next => next,
        }
    }

    fn look(&self) -> Next<B> {
        self.door.upgrade().map_or(Next::Closed, |door| door.look())
    }

    fn wait(&self, until: Option<Instant>) -> Next<B> {
        self.door.upgrade().map_or(Next::Closed, |door| door.wait(until))
    }

    /// How many jobs those who wait are about.
    fn jobs_waiting(&self) -> usize {
        self.waiting.iter().map(|request| request.foresight.len()).sum()
    }

    /// Requests about few jobs wait for the commit that is under way: they cannot be written before, and more may come to
    /// share their own.
    pub(super) fn await_landing(&mut self) {
        while self.flight.is_some() && self.jobs_waiting() < self.settings.large {
            match self.wait(None) {
                Next::Message(message) => self.take_in(message),
                Next::Nothing | Next::Closed => self.land_now(),
            }
        }
    }

    /// A busy daemon asks for two things, to end jobs and to claim others, and is answered sooner if they share a
    /// commit. Whoever asks for one thing after the other would wait in vain every time, and is soon let go on. After a
    /// large commit the first few ends are those of many.
    pub(super) fn await_company(&mut self) {
        let jobs = self.jobs_waiting();
        let first_of_many = self.written >= LARGE && jobs < MANY && self.followed > 0;
        if self.waiting.len() > 1 {
            self.company = Vain::default();
            if !first_of_many {
                return;
            }
        }
        if self.followed < FOLLOWED && jobs < MANY && !first_of_many {
            return;
        }
        if !self.company.is_worth_it() {
            return;
        }
        let about = if first_of_many { self.written } else { jobs };
        let about = u32::try_from(about).unwrap_or(u32::MAX).min(2000);
        let until = Instant::now() + COMPANY + COMPANY_PER_JOB * about;
        loop {
            match self.wait(Some(until)) {
                Next::Message(Message::Request(request)) => {
                    self.company = Vain::default();
                    self.take_in(Message::Request(request));
                    if !first_of_many || self.jobs_waiting() >= MANY {
                        return;
                    }
                }
                Next::Message(other) => self.take_in(other),
                Next::Nothing | Next::Closed => return,
            }
        }
    }
}

/// How long whoever is busy with so many jobs may take to come back.
pub(super) fn linger(jobs: usize) -> Duration {
    LINGER + LINGER_PER_JOB * u32::try_from(jobs).unwrap_or(u32::MAX).min(2000)
}

/// Of the two things that a busy daemon asks for, to end jobs and to claim others, this is the one that is worth a turn.
pub(super) fn is_large_claim<B>(request: &Request<B>) -> bool {
    request.foresight.claim >= LARGE
}

/// Whether a request goes into the same turn as those before it: after a large claim only what was to go before it.
fn goes_along<B>(turn: &VecDeque<Request<B>>, next: &Request<B>) -> bool {
    match turn.iter().position(is_large_claim) {
        Some(at) => at == 0 && !is_large_claim(next),
        None => true,
    }
}
