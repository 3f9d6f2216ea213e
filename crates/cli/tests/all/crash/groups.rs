//! A flood in one group, and two small groups that come later, while workers die.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::arena::Arena;
use super::history::History;
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
    let turns = turns_until_all_began(&arena.history(), &late);
    // A round serves three groups once, and the first may be half over when the late jobs come. What the killed worker
    // held, as many as it had slots, is claimed a second time and takes a turn of its group again.
    assert!(
        turns <= 3 * (FEW + 1 + SLOTS),
        "the last of the late jobs had to wait for {turns} turns"
    );
    // What ran in fact follows the claims, but for what was under way or died before it could write.
    let starts = arena.ledger().starts;
    let last = late.iter().map(|id| starts.iter().position(|start| start == id).unwrap());
    let last = last.max().unwrap();
    assert!(last < starts.len() / 2, "{last} of {}", starts.len());
    super::note(&format!(
        "late jobs came after {begun} starts; all had been claimed {turns} turns later, and begun after {last} of {}",
        starts.len()
    ));
}

/// How many claims there were from the moment these jobs were queued until each had been claimed.
fn turns_until_all_began(history: &History, late: &[String]) -> usize {
    let mut waiting: BTreeSet<&str> = late.iter().map(String::as_str).collect();
    let is_late = |event: &Value| event["job"].as_str().is_some_and(|job| waiting.contains(job));
    let came = history.events.iter().position(is_late).unwrap();
    let claims = history.events[came..].iter().filter(|event| event["type"] == "work_started");
    for (turn, claim) in claims.enumerate() {
        waiting.remove(claim["job"].as_str().unwrap());
        if waiting.is_empty() {
            return turn + 1;
        }
    }
    panic!("never claimed: {waiting:?}");
}
