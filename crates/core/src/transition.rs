//! The state machine: one function says what may happen to a job and what follows. Stores call it and
//! persist its answer; no other code changes a job's state.
//!
//! ```text
//!            claim              start
//!  queued ────────▶ leased ──────────▶ running ──▶ completed
//!    ▲ ▲               │                  │  └───▶ cancelled   (asked for, and it stopped)
//!    │ └── hand back ──┴──────────────────┤  └───▶ failed      (permanent error)
//!    └──── fail or lapse, attempts left ──┤
//!                         attempts used up└──────▶ quarantined
//!  queued ──▶ cancelled, failed (a prerequisite was not done, or took too long)
//!  failed, cancelled, quarantined ── retry by a person ──▶ queued
//! ```

use std::time::Duration;

use crate::breaker::Verdict;
use crate::event::{EventKind, Final};
use crate::job::{FAILURES_KEPT, Failure, JobSpec, Lease, Life, State, Wait};
use crate::json::Json;
use crate::retry::{ErrorKind, jitter_of};
use crate::time::Timestamp;

/// A worker that reports at the very end of its time gets this much longer before its lease lapses.
pub const TIMEOUT_GRACE: Duration = Duration::from_secs(30);

/// Why a prerequisite's end ends its dependents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unmet {
    /// A prerequisite failed.
    Failed,
    /// A prerequisite was withdrawn.
    Cancelled,
    /// A prerequisite was withdrawn, and its dependents with it.
    CancelledWithDependents,
    /// The prerequisites took too long.
    TimedOut,
}

impl Unmet {
    /// The documented error word.
    pub fn error(self) -> &'static str {
        match self {
            Self::Failed => "prerequisite_failed",
            Self::Cancelled | Self::CancelledWithDependents => "prerequisite_cancelled",
            Self::TimedOut => "dependency_timeout",
        }
    }

    /// What the end of a prerequisite means for its dependents.
    pub fn after(end: Final, with_dependents: bool) -> Option<Self> {
        match end {
            Final::Completed => None,
            Final::Failed => Some(Self::Failed),
            Final::Cancelled if with_dependents => Some(Self::CancelledWithDependents),
            Final::Cancelled => Some(Self::Cancelled),
        }
    }
}

/// Something that happens to a job.
#[derive(Clone, Debug)]
pub enum Input<'a> {
    /// Its time has come.
    Promote,
    /// One of its prerequisites completed.
    PrerequisiteDone,
    /// A prerequisite will not complete in time.
    PrerequisiteUnmet(Unmet),
    /// A worker takes it, and begins at once or says later that it has.
    Claim {
        /// The right it is given.
        lease: Lease,
        /// Whether it begins at once.
        start: bool,
    },
    /// The holder is alive, and has begun.
    Extend {
        /// The right it holds.
        lease: &'a Lease,
        /// Until when it wants it.
        until: Timestamp,
    },
    /// The holder is done.
    Complete {
        /// The right it holds.
        lease: &'a Lease,
        /// What came of it.
        result: Option<Json>,
        /// What a repetition of this is recognised by.
        result_key: Option<String>,
    },
    /// The holder failed.
    Fail {
        /// The right it holds.
        lease: &'a Lease,
        /// What went wrong.
        error: String,
        /// What sort of error.
        kind: ErrorKind,
        /// A finer word for it that `retry_on` may name.
        code: Option<String>,
    },
    /// The holder was told by a service to come back later; the attempt does not count.
    RateLimited {
        /// The right it holds.
        lease: &'a Lease,
        /// Not before this instant, for a job that uses no service which could wait in its place.
        until: Option<Timestamp>,
    },
    /// The holder gives it back undone; the attempt does not count.
    HandBack {
        /// The right it holds.
        lease: &'a Lease,
        /// Whether it may have begun. If it surely has not, its places in the windows are free again.
        begun: bool,
    },
    /// The holder stopped because it was asked to.
    Stopped {
        /// The right it holds.
        lease: &'a Lease,
    },
    /// Nobody extended the lease in time, or its worker is known to be gone.
    Lapse,
    /// Somebody withdraws it.
    Cancel,
    /// It was not started in time.
    NotStarted,
    /// A person wants it tried again, waiting for this.
    Retry(Wait),
}

/// Why nothing happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The caller does not hold the job any more.
    LeaseLost,
    /// The same result was submitted before; all is well.
    Repeated,
    /// The job is not in a state where this makes sense.
    NotNow,
}

/// What follows from a change, besides the change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// What to tell the world.
    pub event: Option<EventKind>,
    /// The lease has ended: its services are free, and this is what it says about them.
    pub released: Option<Verdict>,
    /// The start that was counted at this instant never was: its units are to be taken back.
    pub unused: Option<Timestamp>,
    /// The job reached a final state: its dependents are to be told.
    pub ended: Option<Final>,
}

const QUIET: Outcome = Outcome { event: None, released: None, unused: None, ended: None };

/// Applies an input to a life, or refuses and leaves it as it was.
pub fn transition(
    life: &mut Life,
    spec: &JobSpec,
    now: Timestamp,
    input: Input<'_>,
) -> Result<Outcome, Refused> {
    match input {
        Input::Promote => promote(life, now),
        Input::PrerequisiteDone => prerequisite_done(life, spec, now),
        Input::PrerequisiteUnmet(unmet) => prerequisite_unmet(life, now, unmet),
        Input::Claim { lease, start } => claim(life, now, lease, start),
        Input::Extend { lease, until } => extend(life, spec, now, lease, until),
        Input::Complete { lease, result, result_key } => {
            complete(life, now, lease, result, result_key)
        }
        Input::Fail { lease, error, kind, code } => {
            holder(life, lease)?;
            Ok(fail(life, spec, now, Bad { error, kind, code: code.as_deref() }))
        }
        Input::RateLimited { lease, until } => {
            holder(life, lease)?;
            Ok(hand_back(life, now, until))
        }
        Input::HandBack { lease, begun } => {
            holder(life, lease)?;
            // The instant of the lease that is held: the caller's own may have been translated to its clock.
            let counted = life.state.lease().and_then(|held| held.start_by);
            let unused = counted.filter(|_| !begun);
            Ok(Outcome { unused, ..hand_back(life, now, None) })
        }
        Input::Stopped { lease } => {
            holder(life, lease)?;
            Ok(Outcome { released: Some(Verdict::None), ..cancelled(life, now) })
        }
        Input::Lapse => lapse(life, spec, now),
        Input::Cancel => cancel(life, now),
        Input::NotStarted => not_started(life, now),
        Input::Retry(wait) => retry(life, now, wait),
    }
}

/// What a job waits for once its prerequisites are done.
pub fn first_wait(run_at: Option<Timestamp>, now: Timestamp) -> Wait {
    match run_at {
        Some(at) if at > now => Wait::Until(at),
        _ => Wait::Turn,
    }
}

/// The instant after which a lease may not be extended: the attempt has had its time.
pub fn lease_limit(spec: &JobSpec, started_at: Option<Timestamp>) -> Timestamp {
    match (started_at, spec.timeout) {
        (Some(start), Some(timeout)) => start.plus(timeout).plus(TIMEOUT_GRACE),
        _ => Timestamp::MAX,
    }
}

fn holder(life: &Life, lease: &Lease) -> Result<(), Refused> {
    match life.state.lease() {
        Some(held) if held.same_as(lease) => Ok(()),
        _ => Err(Refused::LeaseLost),
    }
}

fn promote(life: &mut Life, now: Timestamp) -> Result<Outcome, Refused> {
    match life.state {
        State::Queued(Wait::Until(at)) if at <= now => {
            life.state = State::Queued(Wait::Turn);
            Ok(QUIET)
        }
        _ => Err(Refused::NotNow),
    }
}

fn prerequisite_done(life: &mut Life, spec: &JobSpec, now: Timestamp) -> Result<Outcome, Refused> {
    let State::Queued(Wait::Prerequisites(left)) = life.state else {
        return Err(Refused::NotNow);
    };
    let wait = match left {
        0 | 1 => first_wait(spec.run_at, now),
        more => Wait::Prerequisites(more - 1),
    };
    life.state = State::Queued(wait);
    Ok(QUIET)
}

fn prerequisite_unmet(life: &mut Life, now: Timestamp, unmet: Unmet) -> Result<Outcome, Refused> {
    let State::Queued(Wait::Prerequisites(_)) = life.state else {
        return Err(Refused::NotNow);
    };
    if unmet == Unmet::CancelledWithDependents {
        return Ok(cancelled(life, now));
    }
    life.last_error = Some(unmet.error().to_owned());
    Ok(end(life, now, State::Failed, EventKind::Failed, Final::Failed))
}

fn claim(life: &mut Life, now: Timestamp, lease: Lease, start: bool) -> Result<Outcome, Refused> {
    if life.state != State::Queued(Wait::Turn) {
        return Err(Refused::NotNow);
    }
    life.attempt += 1;
    life.progress = None;
    life.started_at = Some(now);
    let lease = Lease { attempt: life.attempt, ..lease };
    life.state = if start { State::Running(lease) } else { State::Leased(lease) };
    let event = if start { EventKind::Started } else { EventKind::Leased };
    Ok(Outcome { event: Some(event), ..QUIET })
}

fn extend(
    life: &mut Life,
    spec: &JobSpec,
    now: Timestamp,
    lease: &Lease,
    until: Timestamp,
) -> Result<Outcome, Refused> {
    holder(life, lease)?;
    let Some(held) = life.state.lease().cloned() else { return Err(Refused::LeaseLost) };
    let begins = matches!(life.state, State::Leased(_));
    if begins {
        life.started_at = Some(now);
    }
    let until = until.min(lease_limit(spec, life.started_at));
    life.state = State::Running(Lease { until, ..held });
    Ok(Outcome { event: begins.then_some(EventKind::Started), ..QUIET })
}

fn complete(
    life: &mut Life,
    now: Timestamp,
    lease: &Lease,
    result: Option<Json>,
    result_key: Option<String>,
) -> Result<Outcome, Refused> {
    if life.state == State::Completed && result_key.is_some() && life.result_key == result_key {
        return Err(Refused::Repeated);
    }
    holder(life, lease)?;
    life.result = result;
    life.result_key = result_key;
    life.last_error = None;
    let outcome = end(life, now, State::Completed, EventKind::Completed, Final::Completed);
    Ok(Outcome { released: Some(Verdict::Good), ..outcome })
}

struct Bad<'a> {
    error: String,
    kind: ErrorKind,
    code: Option<&'a str>,
}

fn fail(life: &mut Life, spec: &JobSpec, now: Timestamp, bad: Bad<'_>) -> Outcome {
    let verdict = match bad.kind {
        ErrorKind::Transient | ErrorKind::Timeout => Verdict::Bad,
        ErrorKind::Permanent | ErrorKind::Crash => Verdict::None,
    };
    let released = Some(verdict);
    remember(life, now, &bad);
    if life.cancel_requested {
        return Outcome { released, ..cancelled(life, now) };
    }
    if !spec.retry.covers(bad.kind, bad.code) {
        let outcome = end(life, now, State::Failed, EventKind::Failed, Final::Failed);
        return Outcome { released, ..outcome };
    }
    let used_up = life.attempt - life.earlier_attempts >= spec.retry.max_attempts;
    let poison = bad.kind == ErrorKind::Crash && life.crashes >= spec.retry.max_crashes;
    if used_up || poison {
        let outcome = end(life, now, State::Quarantined, EventKind::Failed, Final::Failed);
        return Outcome { released, ..outcome };
    }
    // A lapsed lease has already cost its time; an error waits for its turn.
    let wait = match bad.kind {
        ErrorKind::Crash => Wait::Turn,
        _ => {
            let attempt = life.attempt - life.earlier_attempts;
            let delay = spec.retry.delay(attempt, jitter_of(spec.id, life.attempt));
            if delay.is_zero() { Wait::Turn } else { Wait::Until(now.plus(delay)) }
        }
    };
    life.state = State::Queued(wait);
    Outcome { event: Some(EventKind::Retrying), released, ..QUIET }
}

fn remember(life: &mut Life, now: Timestamp, bad: &Bad<'_>) {
    let worker_id = life.state.lease().map(|lease| lease.worker);
    life.last_error = Some(bad.error.clone());
    life.failures.push(Failure {
        reason: bad.error.clone(),
        kind: bad.kind,
        attempt: life.attempt,
        worker_id,
        ts: now,
    });
    if life.failures.len() > FAILURES_KEPT {
        life.failures.remove(0);
    }
}

fn hand_back(life: &mut Life, now: Timestamp, until: Option<Timestamp>) -> Outcome {
    let released = Some(Verdict::None);
    if life.cancel_requested {
        return Outcome { released, ..cancelled(life, now) };
    }
    life.attempt -= 1;
    life.started_at = None;
    let wait = first_wait(until, now);
    life.state = State::Queued(wait);
    Outcome { event: Some(EventKind::Retrying), released, ..QUIET }
}

fn lapse(life: &mut Life, spec: &JobSpec, now: Timestamp) -> Result<Outcome, Refused> {
    let Some(lease) = life.state.lease() else { return Err(Refused::NotNow) };
    let overtime = lease.until >= lease_limit(spec, life.started_at) && lease.until <= now;
    if overtime {
        let error = "timeout: ran longer than it may and did not stop".to_owned();
        return Ok(fail(life, spec, now, Bad { error, kind: ErrorKind::Timeout, code: None }));
    }
    life.crashes += 1;
    let error = "the worker went away".to_owned();
    Ok(fail(life, spec, now, Bad { error, kind: ErrorKind::Crash, code: None }))
}

fn cancel(life: &mut Life, now: Timestamp) -> Result<Outcome, Refused> {
    match life.state {
        State::Queued(_) => Ok(cancelled(life, now)),
        State::Leased(_) | State::Running(_) if !life.cancel_requested => {
            life.cancel_requested = true;
            Ok(QUIET)
        }
        _ => Err(Refused::NotNow),
    }
}

fn not_started(life: &mut Life, now: Timestamp) -> Result<Outcome, Refused> {
    if !matches!(life.state, State::Queued(_)) || life.attempt > 0 {
        return Err(Refused::NotNow);
    }
    life.last_error = Some("expired: not started in time".to_owned());
    Ok(cancelled(life, now))
}

fn retry(life: &mut Life, now: Timestamp, wait: Wait) -> Result<Outcome, Refused> {
    if !matches!(life.state, State::Failed | State::Cancelled | State::Quarantined) {
        return Err(Refused::NotNow);
    }
    life.state = State::Queued(wait);
    life.earlier_attempts = life.attempt;
    life.queued_at = now;
    life.crashes = 0;
    life.finished_at = None;
    life.cancel_requested = false;
    Ok(Outcome { event: Some(EventKind::Queued), ..QUIET })
}

fn cancelled(life: &mut Life, now: Timestamp) -> Outcome {
    end(life, now, State::Cancelled, EventKind::Cancelled, Final::Cancelled)
}

fn end(life: &mut Life, now: Timestamp, state: State, event: EventKind, ended: Final) -> Outcome {
    life.state = state;
    life.finished_at = Some(now);
    Outcome { event: Some(event), ended: Some(ended), ..QUIET }
}
