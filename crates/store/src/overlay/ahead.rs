//! Claims that are made ahead. Whoever claims for an engine with free slots asks again as soon as there is news, in the
//! same words ([`ClaimRequest::again`]). So the writer, which hears of the news first, does not wait to be asked: the time in
//! which the engine wakes up and asks is that in which the claim is written.
//!
//! A daemon that is given a few jobs itself claims them along with their submission, in the same commit.
//!
//! A claim is made ahead once for each one that was asked for and found too little. What nobody comes for is handed back,
//! and has never begun.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use runcue_core::Timestamp;

use super::requests::{Work, Workshop};
use super::{Backend, Foresight};
use crate::{ClaimRequest, Claimed, Finish, Outcome, Result, StoreError};

/// Jobs that are claimed ahead at the most: no more are told of at a time.
pub(super) const MOST: usize = 16;
/// How long they wait to be asked for.
const KEPT: Duration = Duration::from_millis(50);

/// Jobs that were claimed before anybody asked for them.
#[derive(Debug)]
pub(super) struct Ahead {
    request: ClaimRequest,
    claimed: Claimed,
    /// The store's clock when it was decided.
    now: Timestamp,
    decided: Instant,
    since: Instant,
}

impl Ahead {
    /// When they are to be handed back.
    pub fn until(&self) -> Instant {
        self.since + KEPT
    }

    /// Whether somebody who asks in these words is to be given them.
    pub fn is_for(&self, request: &ClaimRequest) -> bool {
        let ClaimRequest { worker, lease, start, filter, offers, only, .. } = &self.request;
        *worker == request.worker
            && *lease == request.lease
            && *start == request.start
            && *filter == request.filter
            && *offers == request.offers
            && *only == request.only
            && self.claimed.jobs.len() <= request.max
    }

    /// The answer to whoever asks, and the store's clock.
    pub fn answer(self) -> (Claimed, Timestamp) {
        (self.claimed, self.now.plus(self.decided.elapsed()))
    }

    /// Hands them back.
    pub fn hand_back(self) -> HandBack {
        let unstarted = |(_, lease)| Finish { lease, outcome: Outcome::Unstarted };
        HandBack(self.claimed.jobs.into_iter().map(unstarted).collect())
    }
}

/// Where a claim that was made ahead is put down.
pub(super) type Place = Arc<Mutex<Option<Ahead>>>;

/// Takes what was claimed ahead for whoever asks in these words.
pub(super) fn take(place: &Place, request: &ClaimRequest) -> Option<Ahead> {
    let mut place = place.lock().unwrap_or_else(PoisonError::into_inner);
    place.take_if(|ahead| ahead.is_for(request))
}

/// A claim that nobody has asked for yet.
pub(super) struct ClaimAhead {
    request: ClaimRequest,
    claimed: Option<(Claimed, Timestamp, Instant)>,
    place: Place,
}

impl ClaimAhead {
    pub fn new(request: ClaimRequest, place: &Place) -> Self {
        let max = request.max.min(MOST);
        Self { request: ClaimRequest { max, ..request }, claimed: None, place: place.clone() }
    }

    pub fn foresight(&self) -> Foresight {
        Foresight { asked: None, ..Foresight::of_claim(&self.request) }
    }
}

impl<B: Backend> Work<B> for ClaimAhead {
    fn run(&mut self, machine: &mut Workshop<B>, now: Timestamp) -> Result<()> {
        let decided = Instant::now();
        self.claimed = Some((machine.claim(now, &self.request)?, now, decided));
        Ok(())
    }

    fn answer(self: Box<Self>, failed: Option<StoreError>) {
        let Self { request, claimed, place } = *self;
        if let Some((claimed, now, decided)) = claimed
            && failed.is_none()
            && !claimed.jobs.is_empty()
        {
            let ahead = Ahead { request, claimed, now, decided, since: Instant::now() };
            *place.lock().unwrap_or_else(PoisonError::into_inner) = Some(ahead);
        }
    }

    fn is_ahead(&self) -> bool {
        true
    }
}

/// Jobs that nobody came for.
pub(super) struct HandBack(Vec<Finish>);

impl<B: Backend> Work<B> for HandBack {
    fn run(&mut self, machine: &mut Workshop<B>, now: Timestamp) -> Result<()> {
        machine.finish(now, self.0.clone()).map(drop)
    }

    fn answer(self: Box<Self>, failed: Option<StoreError>) {
        if let Some(error) = failed {
            tracing::debug!("jobs that nobody came for are left to their leases: {error}");
        }
    }
}
