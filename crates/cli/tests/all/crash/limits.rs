//! Limits of a service that two worker processes share, while they are killed.
//!
//! Rates are judged by what the store recorded, which is exact to the microsecond: the claim of every attempt
//! ([`Grants`]) and, on SQLite, the instant it was counted at. Slots are judged by the ledger alone, by executions that
//! really overlap.

use rusqlite::{Connection, OpenFlags};
use serde_json::json;

use super::arena::{Arena, Kill};
use super::dice::Dice;
use super::grants::Grants;
use super::{ledger, patience, scaled};

const LIMIT: usize = 10;
const WINDOW: i64 = 1_000_000;
const AT_ONCE: usize = 3;

#[test]
fn no_window_and_no_slot_is_overfilled_by_two_workers_that_are_killed() {
    let arena = Arena::new();
    let file = arena.path().join(".runcue/queue.db");
    let granted = play(&arena, &format!("sqlite:{}", file.display()));
    let store = Connection::open_with_flags(file, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    let counted = counted(&store);
    assert_eq!(ledger::crowded(counted.clone(), WINDOW, LIMIT), None, "as counted");
    assert_eq!(granted, counted.len(), "every claim is counted, once");
}

#[cfg(feature = "lmdb")]
#[test]
fn no_window_and_no_slot_is_overfilled_on_lmdb_either() {
    let arena = Arena::on("lmdb:queue");
    let directory = arena.path().join("queue");
    play(&arena, &format!("lmdb:{}", directory.display()));
}

/// Answers how many starts were granted.
fn play(arena: &Arena, url: &str) -> usize {
    let mut dice = Dice::new();
    arena.run(&["services", "set", "api", "--rate", "10/s", "--max-concurrent", "3"]).ok();
    let line = json!({
        "run": ledger::command(0.1),
        "services": ["api"],
        "retry": {"max_attempts": 1000, "max_crashes": 1000, "jitter": false, "base_delay": 0.01},
    });
    let jobs = scaled(40);
    arena.submit(&format!("{line}\n").repeat(jobs));
    let mut workers = [arena.worker(4), arena.worker(4)];
    let mut kills = Vec::new();
    for n in 0..scaled(5) {
        let enough = arena.lines() + 1 + usize::try_from(dice.below(8)).unwrap();
        patience::until("the ledger grows", || (arena.lines() >= enough).then_some(()));
        kills.extend(workers[n % 2].kill());
        workers[n % 2] = arena.worker(4);
    }
    patience::until("everything is completed", || {
        (arena.count("completed") == jobs as u64).then_some(())
    });
    for worker in &mut workers {
        kills.extend(worker.kill());
    }
    let grants = Grants::of(url);
    let ledger = arena.ledger();
    let delay = grants.keep_a_rate(&ledger, WINDOW, LIMIT);
    super::note(&format!(
        "{} executions, {} grants, {delay} µs from a grant to the shell at most",
        ledger.executions.len(),
        grants.len(),
    ));
    judge_slots(arena, &kills);
    arena.is_untroubled();
    grants.len()
}

fn judge_slots(arena: &Arena, kills: &[Kill]) {
    let most = arena.ledger().most_at_once(kills);
    super::note(&format!("{} kills, {most} at once", kills.len()));
    assert!(most <= AT_ONCE, "{most} at once");
    assert!(most > 1, "nothing ran at once: that proves little");
}

/// When each start was counted, one instant per unit. What was given back unstarted is not.
fn counted(store: &Connection) -> Vec<i64> {
    let mut query = store
        .prepare("SELECT at, sum(units) FROM usage WHERE service = 'api' GROUP BY at")
        .unwrap();
    let rows = query.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    let rows: Vec<(i64, i64)> = rows.map(Result::unwrap).collect();
    let each = |(at, units): (i64, i64)| std::iter::repeat_n(at, units.try_into().unwrap());
    rows.into_iter().flat_map(each).collect()
}
