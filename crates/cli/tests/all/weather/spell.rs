//! A spell of bad weather: a daemon at work, trouble begins, is told of, and ends.

use std::collections::BTreeSet;

use serde_json::json;

use crate::crash::arena::Arena;
use crate::crash::{ledger, patience};

/// Jobs for the time before and during the trouble, with enough in them that writing them needs room.
const JOBS: usize = 40;

/// Work on a server while trouble begins and ends. `words` are what everybody is told of it.
pub fn goes_on_after(url: &str, begin: impl FnOnce(), words: &[&str], end: impl FnOnce()) {
    let arena = Arena::on(url);
    let line = json!({
        "run": ledger::command(0.05),
        "target": "x".repeat(2000),
        "retry": {"max_attempts": 1000, "max_crashes": 1000, "jitter": false, "base_delay": 0.01},
    });
    let lines = format!("{line}\n").repeat(JOBS);
    let mut acknowledged: BTreeSet<String> = arena.submit(&lines).into_iter().collect();
    let mut daemon = arena.spawn(&["work", "--jobs", "2"]);
    patience::until("work is done", || (arena.lines() >= 10).then_some(()));
    begin();
    // A batch that is refused is refused whole; what is still taken in is acknowledged.
    let refused = patience::until("a submission is refused", || {
        let ended = arena.run_with(&["add", "--from", "-"], &lines);
        if ended.code == 0 {
            acknowledged.extend(ended.stdout.lines().map(str::to_owned));
            return None;
        }
        Some(ended)
    });
    assert_eq!(refused.code, 1, "{refused:?}");
    assert_eq!(refused.stdout, "", "nothing of it was acknowledged");
    for word in words {
        assert!(refused.stderr.contains(word), "{word:?} is not in {}", refused.stderr);
    }
    patience::until("the daemon says so", || {
        let told = arena.read("stderr");
        words.iter().all(|word| told.contains(word)).then_some(())
    });
    assert_eq!(daemon.left(), None, "it goes on trying");
    end();
    patience::until("everything is completed", || {
        let counts = &arena.run(&["status", "--json"]).json()["counts"];
        (counts["completed"].as_u64()? >= acknowledged.len() as u64).then_some(())
    });
    let told = arena.read("stderr");
    let lines = told.lines().filter(|line| words.iter().all(|word| line.contains(word)));
    assert!(lines.count() <= 3, "a line now and then, not one per try: {told}");
    assert!(told.contains("goes on by itself"), "{told}");
    let history = arena.history();
    let completed: BTreeSet<String> = history.completed().into_keys().collect();
    let lost: Vec<_> = acknowledged.difference(&completed).collect();
    assert!(lost.is_empty(), "lost: {lost:?}");
    let ledger = arena.ledger();
    history.leaves_finished_jobs_alone(&ledger);
    history.grants(&ledger);
    let doctor = arena.run(&["doctor", "--json"]).json();
    let mut checks = doctor["checks"].as_array().unwrap().iter();
    assert!(checks.all(|check| check["verdict"] != "bad"), "{doctor}");
}
