//! A server whose clock is twelve minutes off, as seen from this machine. Its clock counts: what people write and read
//! as spans is right, and what depends on both clocks is refused or said.
//!
//! The server's clock is set by a function of that name which is found before PostgreSQL's own.

use runcue_test_servers::Database;
use serde_json::Value;

use crate::crash::arena::{Arena, now};
use crate::crash::{ledger, patience};
use crate::sandbox::Sandbox;

/// In seconds; half a minute more, because what the question took is taken off.
const APART: i64 = 12 * 60 + 30;

/// A database whose clock is ahead of this machine's by so many seconds.
fn ahead_by(seconds: i64) -> Database {
    let database = runcue_test_servers::postgres().unwrap();
    let own = format!(
        "CREATE SCHEMA off; CREATE FUNCTION off.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE AS \
         $$ SELECT pg_catalog.clock_timestamp() + interval '{seconds} seconds' $$; \
         ALTER DATABASE \"{}\" SET search_path = off, pg_catalog, public",
        database.name()
    );
    database.sql(&own).unwrap();
    database
}

fn check(doctor: &Value, name: &str) -> Value {
    let checks = doctor["checks"].as_array().unwrap();
    checks.iter().find(|check| check["name"] == name).cloned().unwrap_or_default()
}

/// How far an instant of a JSON answer is from now by the server's clock, in seconds.
fn from_now(instant: &Value, ahead: i64) -> i64 {
    instant.as_i64().unwrap() / 1000 - now() / 1_000_000 - ahead
}

fn a_delay_counts_by_the_servers_clock(ahead: i64) {
    let database = ahead_by(ahead);
    let arena = Arena::on(&database.url());
    let soon = arena.add(&["--in", "2s", "--", "true"]);
    let late = arena.add(&["--in", "10m", "--expires-in", "20m", "--", "true"]);
    let told = from_now(&arena.show(&late)["run_at"], ahead);
    assert!((540..=600).contains(&told), "{told} s");
    let lines = arena.submit("{\"run\": [\"true\"], \"in\": 600}\n");
    let told = from_now(&arena.show(&lines[0])["run_at"], ahead);
    assert!((540..=600).contains(&told), "{told} s");
    let _daemon = arena.worker(1);
    patience::until("the one that was soon is done", || {
        (arena.state(&soon) == "completed").then_some(())
    });
    assert_eq!(arena.state(&late), "queued");
    // Spans are shown by the server's clock, too.
    let shown = arena.run(&["why", &late]).ok();
    assert!(shown.contains("in 9 min") || shown.contains("in 10 min"), "{shown}");
    let listed = arena.run(&["list"]).ok();
    assert!(!listed.contains("min ago"), "all of it happened just now: {listed}");
}

#[test]
fn a_delay_counts_by_the_clock_of_a_server_that_is_ahead() {
    a_delay_counts_by_the_servers_clock(APART);
}

#[test]
fn a_delay_counts_by_the_clock_of_a_server_that_is_behind() {
    a_delay_counts_by_the_servers_clock(-APART);
}

#[test]
fn doctor_says_how_far_the_clocks_are_apart_and_takes_no_lease_for_lapsed() {
    for (ahead, word) in [(APART, "behind"), (-APART, "ahead of")] {
        let database = ahead_by(ahead);
        let arena = Arena::on(&database.url());
        arena.submit(&format!("{{\"run\": {}}}\n", serde_json::json!(["sleep", "60"])));
        let _daemon = arena.worker(1);
        patience::until("it is worked on", || (arena.count("running") == 1).then_some(()));
        let doctor = arena.run(&["doctor", "--json"]).json();
        let clock = check(&doctor, "clock");
        assert_eq!(clock["verdict"], "warning", "{doctor}");
        let detail = clock["detail"].as_str().unwrap();
        assert!(detail.contains(word) && detail.contains("12 min"), "{detail}");
        assert_eq!(check(&doctor, "leases")["verdict"], "ok", "{doctor}");
        assert_eq!(check(&doctor, "workers")["detail"], "1 alive, 0 gone", "{doctor}");
    }
}

#[test]
fn a_move_between_clocks_that_differ_is_refused_with_the_reason() {
    let database = ahead_by(APART);
    let sandbox = Sandbox::new();
    sandbox.run(&["add", "--store", "a.db", "--in", "1h", "--", "true"]).ok();
    let told = sandbox.run(&["move", "a.db", &database.url()]).refused(1);
    assert!(told.contains("ahead of that of FROM"), "{told}");
    assert!(told.contains("--force"), "{told}");
    sandbox.run(&["move", "a.db", &database.url(), "--force"]).ok();
    let told = sandbox.run(&["move", &database.url(), "b.db"]).refused(1);
    assert!(told.contains("behind that of FROM"), "{told}");
    // A backup is kept as it is, so no clock is asked.
    let words = ["backup", "copy.db", "--store", &database.url()];
    sandbox.run(&words).ok();
    let straight = ahead_by(0);
    sandbox.run(&["move", "a.db", &straight.url()]).ok();
}

#[test]
fn a_move_is_refused_while_workers_hold_jobs_on_a_server_whatever_its_clock() {
    for ahead in [0, APART, -APART] {
        let database = ahead_by(ahead);
        let arena = Arena::on(&database.url());
        arena.submit(&format!("{{\"run\": {}}}\n", ledger::command(60.0)));
        let mut daemon = arena.worker(1);
        patience::until("it is worked on", || (arena.lines() == 1).then_some(()));
        let told = arena.run(&["move", &database.url(), "copy.db"]).refused(1);
        assert!(told.contains("1 worker of") && told.contains("still running"), "{told}");
        assert!(!arena.path().join("copy.db").exists(), "nothing was made");
        daemon.kill().unwrap();
        let told = arena.run(&["move", &database.url(), "copy.db"]).refused(1);
        assert!(told.contains("--force"), "{told}");
    }
}
