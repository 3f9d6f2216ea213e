//! A flood in one group, and two small groups that come later, while workers die.

use serde_json::json;

use super::arena::Arena;
use super::{ledger, patience};

const FLOOD: usize = 300;
const FEW: usize = 5;
const SLOTS: usize = 2;

#[test]
fn small_groups_that_come_late_take_their_turns_and_do_not_wait_for_the_flood() {
    let arena = Arena::new();
    let line = |group: &str| {
        let retry =
            json!({"max_attempts": 1000, "max_crashes": 1000, "jitter": false, "base_delay": 0.01});
        let job = json!({"run": ledger::command(0.005), "group": group, "retry": retry});
        format!("{job}\n")
    };
    arena.submit(&line("flood").repeat(FLOOD));
    let mut workers = [arena.worker(SLOTS), arena.worker(SLOTS)];
    patience::until("the flood runs", || (arena.lines() > 20).then_some(()));
    let late = arena.submit(&(line("b") + &line("c")).repeat(FEW));
    let begun = arena.ledger().starts.len();
    workers[0].kill();
    workers[0] = arena.worker(SLOTS);
    patience::until("everything is completed", || {
        (arena.count("completed") == (FLOOD + 2 * FEW) as u64).then_some(())
    });
    let starts = arena.ledger().starts;
    let last = starts.iter().rposition(|id| late.contains(id)).unwrap();
    // Each round serves the three groups once. Before the first, what the two workers held or had just claimed may
    // start; a late job that was killed with its worker comes back and needs a round of its own, at the latest when
    // the new worker is there: the old one notices a death within five seconds, the new one when it starts.
    let rounds = 3 * (FEW + SLOTS);
    let in_flight = 3 * 2 * SLOTS;
    assert!(
        last <= begun + rounds + in_flight,
        "the last of the late jobs began as number {last}; {begun} had begun when they came"
    );
    assert!(last < starts.len() / 2, "{last} of {}", starts.len());
    super::note(&format!(
        "late jobs came after {begun} starts, and all had begun after {last} of {}",
        starts.len()
    ));
}
