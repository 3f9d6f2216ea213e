//! The state machine under random inputs: whatever is thrown at a life, its parts agree, a refusal
//! changes nothing, and only the documented arrows are walked.

use std::time::Duration;

use proptest::prelude::*;
use runcue_core::breaker::Verdict;
use runcue_core::event::{EventKind, Final};
use runcue_core::job::FAILURES_KEPT;
use runcue_core::transition::{Input, Refused, Unmet, first_wait, lease_limit, transition};
use runcue_core::{
    ErrorKind, JobId, JobSpec, Lease, Life, RetryPolicy, State, StateWord, TaskName, Timestamp,
    Token, Wait, WorkerId,
};

/// An input as data, so that a failing history can be read.
#[derive(Clone, Debug)]
enum Throw {
    Promote,
    PrerequisiteDone,
    PrerequisiteUnmet(u8),
    Claim { start: bool, seconds: u64 },
    Extend { stale: bool, seconds: u64 },
    Complete { stale: bool, key: Option<u8> },
    Fail { stale: bool, kind: u8, code: bool },
    RateLimited { stale: bool, seconds: Option<u64> },
    HandBack { stale: bool, begun: bool },
    Stopped { stale: bool },
    Lapse,
    Cancel,
    NotStarted,
    Retry(u8),
    Wait(u64),
}

fn throw() -> impl Strategy<Value = Throw> {
    let stale = || prop::bool::weighted(0.2);
    prop_oneof![
        2 => Just(Throw::Promote),
        1 => Just(Throw::PrerequisiteDone),
        1 => (0..4_u8).prop_map(Throw::PrerequisiteUnmet),
        6 => (any::<bool>(), 1..90_u64).prop_map(|(start, seconds)| Throw::Claim { start, seconds }),
        3 => (stale(), 1..90_u64).prop_map(|(stale, seconds)| Throw::Extend { stale, seconds }),
        1 => (stale(), prop::option::of(0..2_u8)).prop_map(|(stale, key)| Throw::Complete { stale, key }),
        3 => (stale(), 0..4_u8, any::<bool>()).prop_map(|(stale, kind, code)| Throw::Fail { stale, kind, code }),
        1 => (stale(), prop::option::of(0..9_u64)).prop_map(|(stale, seconds)| Throw::RateLimited { stale, seconds }),
        2 => (stale(), any::<bool>()).prop_map(|(stale, begun)| Throw::HandBack { stale, begun }),
        1 => stale().prop_map(|stale| Throw::Stopped { stale }),
        2 => Just(Throw::Lapse),
        1 => Just(Throw::Cancel),
        1 => Just(Throw::NotStarted),
        2 => (0..3_u8).prop_map(Throw::Retry),
        3 => (1..40_u64).prop_map(Throw::Wait),
    ]
}

/// The documented arrows. A worker may end an attempt before its first heartbeat, so whatever leads
/// out of running leads out of leased too.
fn documented(from: StateWord, to: StateWord) -> bool {
    use StateWord::*;
    match from {
        Queued => matches!(to, Queued | Leased | Running | Cancelled | Failed),
        Leased | Running => to != Leased || from == Leased,
        Completed => to == Completed,
        Failed | Cancelled | Quarantined => to == from || to == Queued,
    }
}

struct Walk {
    life: Life,
    spec: JobSpec,
    now: Timestamp,
    tokens: u64,
    /// Attempts begun and not given back, counted here from the outside.
    attempts: u32,
}

impl Walk {
    fn lease(&self, stale: bool) -> Lease {
        let held = self.life.state.lease().cloned().unwrap_or(Lease {
            job: self.spec.id,
            attempt: self.life.attempt,
            worker: WorkerId::from_u128(7),
            token: Token(self.tokens),
            until: self.now,
            start_by: None,
        });
        if stale { Lease { token: Token(held.token.0.wrapping_sub(1)), ..held } } else { held }
    }

    fn apply(&mut self, throw: &Throw) -> Result<(), TestCaseError> {
        let before = self.life.clone();
        let later = |seconds: u64| self.now.plus(Duration::from_secs(seconds));
        let stale = match throw {
            Throw::Extend { stale, .. }
            | Throw::Complete { stale, .. }
            | Throw::Fail { stale, .. }
            | Throw::RateLimited { stale, .. }
            | Throw::HandBack { stale, .. }
            | Throw::Stopped { stale } => *stale,
            _ => false,
        };
        let lease = self.lease(stale);
        let input = match throw {
            Throw::Wait(seconds) => {
                self.now = later(*seconds);
                return Ok(());
            }
            Throw::Promote => Input::Promote,
            Throw::PrerequisiteDone => Input::PrerequisiteDone,
            Throw::PrerequisiteUnmet(n) => Input::PrerequisiteUnmet(
                [Unmet::Failed, Unmet::Cancelled, Unmet::CancelledWithDependents, Unmet::TimedOut]
                    [usize::from(*n)],
            ),
            Throw::Claim { start, seconds } => {
                self.tokens += 1;
                let until = later(*seconds);
                let token = Token(self.tokens);
                let start_by = self.tokens.is_multiple_of(2).then(|| later(1));
                Input::Claim { lease: Lease { token, until, start_by, ..lease }, start: *start }
            }
            Throw::Extend { seconds, .. } => {
                Input::Extend { lease: &lease, until: later(*seconds) }
            }
            Throw::Complete { key, .. } => {
                let result_key = key.map(|key| key.to_string());
                Input::Complete { lease: &lease, result: None, result_key }
            }
            Throw::Fail { kind, code, .. } => Input::Fail {
                lease: &lease,
                error: "boom".to_owned(),
                kind: [
                    ErrorKind::Transient,
                    ErrorKind::Permanent,
                    ErrorKind::Timeout,
                    ErrorKind::Crash,
                ][usize::from(*kind)],
                code: code.then(|| "exit 75".to_owned()),
            },
            Throw::RateLimited { seconds, .. } => {
                Input::RateLimited { lease: &lease, until: seconds.map(later) }
            }
            Throw::HandBack { begun, .. } => Input::HandBack { lease: &lease, begun: *begun },
            Throw::Stopped { .. } => Input::Stopped { lease: &lease },
            Throw::Lapse => Input::Lapse,
            Throw::Cancel => Input::Cancel,
            Throw::NotStarted => Input::NotStarted,
            Throw::Retry(0) => Input::Retry(Wait::Turn),
            Throw::Retry(1) => Input::Retry(Wait::Prerequisites(1)),
            Throw::Retry(_) => Input::Retry(first_wait(Some(later(5)), self.now)),
        };
        let answer = transition(&mut self.life, &self.spec, self.now, input);
        self.check(throw, &before, answer)
    }

    fn check(
        &mut self,
        throw: &Throw,
        before: &Life,
        answer: Result<runcue_core::transition::Outcome, Refused>,
    ) -> Result<(), TestCaseError> {
        let life = &self.life;
        let (from, to) = (before.state.word(), life.state.word());
        let outcome = match answer {
            Err(_) => {
                prop_assert_eq!(life, before, "a refused {:?} changed something", throw);
                return Ok(());
            }
            Ok(outcome) => outcome,
        };
        prop_assert!(documented(from, to), "{from} -> {to} by {throw:?}");
        let counted = before.state.lease().and_then(|lease| lease.start_by);
        let unstarted = matches!(throw, Throw::HandBack { begun: false, .. });
        prop_assert_eq!(outcome.unused, counted.filter(|_| unstarted));
        match throw {
            Throw::Claim { .. } => self.attempts += 1,
            Throw::HandBack { .. } | Throw::RateLimited { .. } if to == StateWord::Queued => {
                self.attempts -= 1;
            }
            _ => {}
        }
        prop_assert_eq!(life.attempt, self.attempts, "attempts are counted once, at the claim");
        prop_assert!(life.earlier_attempts <= life.attempt);
        prop_assert!(life.crashes <= life.attempt - life.earlier_attempts);
        prop_assert_eq!(life.finished_at.is_some(), to.is_final());
        let held = life.state.lease();
        prop_assert_eq!(held.is_some(), matches!(to, StateWord::Leased | StateWord::Running));
        prop_assert!(held.is_none_or(|lease| lease.attempt == life.attempt && life.attempt > 0));
        prop_assert!(life.failures.len() <= FAILURES_KEPT);
        prop_assert_eq!(
            outcome.released.is_some(),
            before.state.lease().is_some() && held.is_none()
        );
        prop_assert_eq!(outcome.ended.is_some(), to.is_final());
        let ended = match to {
            StateWord::Completed => Some((Final::Completed, EventKind::Completed)),
            StateWord::Failed | StateWord::Quarantined => Some((Final::Failed, EventKind::Failed)),
            StateWord::Cancelled => Some((Final::Cancelled, EventKind::Cancelled)),
            _ => None,
        };
        if let Throw::Claim { .. } = throw {
            let told = if to == StateWord::Leased { EventKind::Leased } else { EventKind::Started };
            prop_assert_eq!(outcome.event, Some(told), "a claim is told whether or not it begins");
        }
        if let Some((end, event)) = ended {
            prop_assert_eq!((outcome.ended, outcome.event), (Some(end), Some(event)));
        }
        prop_assert_eq!(outcome.released == Some(Verdict::Good), to == StateWord::Completed);
        if to == StateWord::Quarantined {
            let round = life.attempt - life.earlier_attempts;
            let retry = &self.spec.retry;
            prop_assert!(round >= retry.max_attempts || life.crashes >= retry.max_crashes);
        }
        if let (Throw::Extend { .. }, Some(lease)) = (throw, held) {
            prop_assert!(lease.until <= lease_limit(&self.spec, life.started_at));
        }
        Ok(())
    }
}

fn spec() -> impl Strategy<Value = JobSpec> {
    let retry_on = prop_oneof![
        Just(vec![]),
        Just(vec!["timeout".to_owned()]),
        Just(vec!["exit 75".to_owned(), "crash".to_owned()]),
    ];
    (1..4_u32, 1..4_u32, any::<bool>(), retry_on, prop::option::of(1..60_u64)).prop_map(
        |(max_attempts, max_crashes, jitter, retry_on, timeout)| {
            let mut spec = JobSpec::new(JobId::from_u128(1), TaskName::new("t").unwrap());
            spec.retry =
                RetryPolicy { max_attempts, max_crashes, jitter, retry_on, ..Default::default() };
            spec.timeout = timeout.map(Duration::from_secs);
            spec
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_inputs_never_break_a_life(
        spec in spec(),
        prerequisites in 0..3_u32,
        throws in prop::collection::vec(throw(), 1..60),
    ) {
        let now = Timestamp::from_millis(1_000_000);
        let wait = if prerequisites == 0 { Wait::Turn } else { Wait::Prerequisites(prerequisites) };
        let mut walk = Walk { life: Life::begin(now, wait), spec, now, tokens: 10, attempts: 0 };
        for throw in &throws {
            walk.apply(throw)?;
        }
    }

    #[test]
    fn a_stale_lease_is_always_refused(spec in spec(), start: bool, kind in 0..6_u8) {
        let now = Timestamp::from_millis(1_000_000);
        let mut walk = Walk { life: Life::begin(now, Wait::Turn), spec, now, tokens: 10, attempts: 0 };
        walk.apply(&Throw::Claim { start, seconds: 30 })?;
        let before = walk.life.clone();
        let late = [
            Throw::Extend { stale: true, seconds: 30 },
            Throw::Complete { stale: true, key: Some(1) },
            Throw::Fail { stale: true, kind: 0, code: false },
            Throw::RateLimited { stale: true, seconds: None },
            Throw::HandBack { stale: true, begun: false },
            Throw::Stopped { stale: true },
        ];
        walk.apply(&late[usize::from(kind)])?;
        prop_assert_eq!(walk.life, before);
    }
}

#[test]
fn a_queued_job_has_no_holder() {
    let now = Timestamp::from_millis(1_000);
    let life = Life::begin(now, Wait::Turn);
    assert!(matches!(life.state, State::Queued(Wait::Turn)));
    assert!(life.state.lease().is_none());
}
