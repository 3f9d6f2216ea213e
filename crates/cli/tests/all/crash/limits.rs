//! Limits of a service that two worker processes share, while they are killed.
//!
//! Rates are judged by what the store recorded, which is exact to the microsecond: the claim of every attempt, and
//! the instant it was counted at. The shell's ledger is judged with the one thing it cannot know: how long after its
//! claim the shell was up and running. That delay is measured for every execution, and the longest of them is taken
//! off the window; if every claim obeys the window, every shorter one holds for what came at most that much later.
//! Slots are judged by the ledger alone, by executions that really overlap.

use std::collections::HashMap;

use rusqlite::{Connection, OpenFlags};
use serde_json::json;

use super::arena::{Arena, Kill};
use super::dice::Dice;
use super::{ledger, patience, scaled};

const LIMIT: usize = 10;
const WINDOW: i64 = 1_000_000;
const AT_ONCE: usize = 3;

#[test]
fn no_window_and_no_slot_is_overfilled_by_two_workers_that_are_killed() {
    let arena = Arena::new();
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
    judge_rates(&arena);
    judge_slots(&arena, &kills);
    arena.is_untroubled();
}

fn judge_rates(arena: &Arena) {
    let file = arena.path().join(".runcue/queue.db");
    let store = Connection::open_with_flags(file, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    let counted = counted(&store);
    assert_eq!(ledger::crowded(counted.clone(), WINDOW, LIMIT), None, "as counted");
    let claims = claims(&store);
    let claimed = claims.values().copied().collect();
    assert_eq!(ledger::crowded(claimed, WINDOW, LIMIT), None, "as claimed");
    assert_eq!(claims.len(), counted.len(), "every claim is counted, once");
    let ledger = arena.ledger();
    let delays = ledger.executions.iter().map(|(key, one)| one.start - claims[key]);
    let delay = delays.max().unwrap();
    let starts = ledger.executions.values().map(|one| one.start).collect();
    let crowded = ledger::crowded(starts, WINDOW - delay, LIMIT);
    assert_eq!(crowded, None, "as run, at most {delay} µs after the claim");
    super::note(&format!(
        "{} executions, {} counted starts, {delay} µs from a claim to the shell at most",
        ledger.executions.len(),
        counted.len(),
    ));
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

/// When each attempt was claimed. One that was handed back unstarted is none: its number is used again.
fn claims(store: &Connection) -> HashMap<(String, u32), i64> {
    // A first attempt that was handed back leaves none, and an event says nothing of that.
    let select = "SELECT type, job, coalesce(body ->> 'attempt', 0), at_micros FROM events \
                  WHERE type IN ('work_started', 'work_retrying') ORDER BY seq";
    let mut query = store.prepare(select).unwrap();
    let row = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?));
    let rows = query.query_map([], row).unwrap();
    let mut claims = HashMap::new();
    for row in rows {
        let (kind, job, attempt, at): (String, String, u32, i64) = row.unwrap();
        if kind == "work_started" {
            claims.insert((job, attempt), at);
        } else {
            claims.remove(&(job, attempt + 1));
        }
    }
    claims
}
