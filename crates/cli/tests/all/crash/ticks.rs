//! A schedule that fires every second, and workers that are killed with -9 about when it does.

use std::time::Duration;

use super::arena::{Arena, Victim, now};
use super::dice::Dice;
use super::{patience, scaled};

/// Milliseconds.
const SECOND: i64 = 1000;
/// Beside a file the others see at once who is dead, however long its leases last.
const BESIDE_A_FILE: &str = "30s";
/// What a dead worker held on a server comes back only when its lease has lapsed.
#[cfg(any(feature = "postgres", feature = "redis"))]
const ON_A_SERVER: &str = "2s";

#[test]
fn every_tick_has_one_job_however_many_workers_die_at_it() {
    play(&Arena::new(), BESIDE_A_FILE);
}

#[cfg(feature = "lmdb")]
#[test]
fn every_tick_has_one_job_on_lmdb_too() {
    play(&Arena::on("lmdb:queue"), BESIDE_A_FILE);
}

#[cfg(feature = "postgres")]
#[test]
fn every_tick_has_one_job_on_postgres_too() {
    let server = runcue_test_servers::Postgres::settings().durable().start().unwrap();
    play(&Arena::on(&server.url()), ON_A_SERVER);
}

#[cfg(feature = "redis")]
#[test]
fn every_tick_has_one_job_on_redis_too() {
    let server = runcue_test_servers::Redis::settings().durable().start().unwrap();
    play(&Arena::on(&server.url()), ON_A_SERVER);
}

fn worker(arena: &Arena, lease: &str) -> Victim {
    arena.spawn(&["work", "--jobs", "2", "--lease", lease, "--quiet"])
}

fn play(arena: &Arena, lease: &str) {
    let when = ["--cron", "* * * * * *", "--missed", "all", "--max-attempts", "1000"];
    let words = [&["schedule", "add", "tick"], &when[..], &["--", "true"]].concat();
    arena.run(&words).ok();
    let mut dice = Dice::new();
    let mut workers = [worker(arena, lease), worker(arena, lease)];
    for n in 0..scaled(8) {
        // Just before, at or just after a full second, which is when somebody fires.
        let instant = Duration::from_micros(dice.below(30_000) + 985_000);
        patience::until("the next second is near", || {
            (now().rem_euclid(SECOND * SECOND) < 20_000).then_some(())
        });
        std::thread::sleep(instant);
        workers[n % 2].kill();
        workers[n % 2] = worker(arena, lease);
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
