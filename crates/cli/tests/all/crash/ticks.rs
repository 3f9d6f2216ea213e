//! A schedule that fires every second, and workers that are killed with -9 about when it does.

use std::time::Duration;

use super::arena::{Arena, now};
use super::dice::Dice;
use super::{patience, scaled};

/// Milliseconds.
const SECOND: i64 = 1000;

#[test]
fn every_tick_has_one_job_however_many_workers_die_at_it() {
    play(&Arena::new());
}

#[cfg(feature = "lmdb")]
#[test]
fn every_tick_has_one_job_on_lmdb_too() {
    play(&Arena::on("lmdb:queue"));
}

fn play(arena: &Arena) {
    let when = ["--cron", "* * * * * *", "--missed", "all", "--max-attempts", "1000"];
    let words = [&["schedule", "add", "tick"], &when[..], &["--", "true"]].concat();
    arena.run(&words).ok();
    let mut dice = Dice::new();
    let mut workers = [arena.worker(2), arena.worker(2)];
    for n in 0..scaled(8) {
        // Just before, at or just after a full second, which is when somebody fires.
        let instant = Duration::from_micros(dice.below(30_000) + 985_000);
        patience::until("the next second is near", || {
            (now().rem_euclid(SECOND * SECOND) < 20_000).then_some(())
        });
        std::thread::sleep(instant);
        workers[n % 2].kill();
        workers[n % 2] = arena.worker(2);
    }
    arena.run(&["schedule", "pause", "tick"]).ok();
    for worker in &mut workers {
        worker.kill();
    }
    arena.run(&["work", "--drain", "--quiet"]).ok();
    let info = arena.run(&["schedules", "--json"]).json()["schedules"][0].clone();
    let page = arena.run(&["list", "--limit", "10000", "--json"]).json();
    let jobs = page["jobs"].as_array().unwrap();
    let mut ticks: Vec<i64> = jobs.iter().map(|job| job["run_at"].as_i64().unwrap()).collect();
    ticks.sort_unstable();
    let (first, last) = (ticks[0], ticks[ticks.len() - 1]);
    let expected: Vec<i64> = (0..=(last - first) / SECOND).map(|n| first + n * SECOND).collect();
    assert_eq!(ticks, expected, "each second once, none left out");
    assert!(ticks.len() >= scaled(8), "{} ticks", ticks.len());
    assert_eq!(info["fired"], ticks.len(), "{info}");
    assert_eq!(arena.count("completed"), ticks.len() as u64);
    arena.is_untroubled();
    arena.deserted();
}
