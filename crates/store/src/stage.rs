//! The numbers by which stores keep where a job is. They are written down in files and servers: a number that was
//! released is never given to anything else.

use runcue_core::{Life, State, StateWord, Timestamp, Wait};

/// Waits for its turn.
pub const READY: u8 = 0;
/// Waits for an instant.
pub const DELAYED: u8 = 1;
/// Waits for prerequisites.
pub const BLOCKED: u8 = 2;
/// Handed to a worker.
pub const LEASED: u8 = 3;
/// Being worked on.
pub const RUNNING: u8 = 4;
/// Done.
pub const COMPLETED: u8 = 5;
/// Not done, for good.
pub const FAILED: u8 = 6;
/// Withdrawn.
pub const CANCELLED: u8 = 7;
/// Set aside.
pub const QUARANTINED: u8 = 8;

/// The number of a state.
pub fn stage(state: &State) -> u8 {
    match state {
        State::Queued(Wait::Turn) => READY,
        State::Queued(Wait::Until(_)) => DELAYED,
        State::Queued(Wait::Prerequisites(_)) => BLOCKED,
        State::Leased(_) => LEASED,
        State::Running(_) => RUNNING,
        State::Completed => COMPLETED,
        State::Failed => FAILED,
        State::Cancelled => CANCELLED,
        State::Quarantined => QUARANTINED,
    }
}

/// The numbers that a word for a state covers.
pub fn stages(word: StateWord) -> &'static [u8] {
    match word {
        StateWord::Queued => &[READY, DELAYED, BLOCKED],
        StateWord::Leased => &[LEASED],
        StateWord::Running => &[RUNNING],
        StateWord::Completed => &[COMPLETED],
        StateWord::Failed => &[FAILED],
        StateWord::Cancelled => &[CANCELLED],
        StateWord::Quarantined => &[QUARANTINED],
    }
}

/// The word for a number; nothing if there is no such stage.
pub fn word(stage: u8) -> Option<StateWord> {
    StateWord::ALL.into_iter().find(|word| stages(*word).contains(&stage))
}

/// The instant a job is found by: when its time comes, when its lease lapses, when it finished.
pub fn due(life: &Life) -> Option<Timestamp> {
    match &life.state {
        State::Queued(Wait::Until(at)) => Some(*at),
        State::Queued(_) => None,
        State::Leased(lease) | State::Running(lease) => Some(lease.until),
        _ => life.finished_at,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_has_one_word() {
        for number in READY..=QUARANTINED {
            let word = word(number).unwrap();
            assert!(stages(word).contains(&number));
        }
        assert_eq!(word(QUARANTINED + 1), None);
    }
}
