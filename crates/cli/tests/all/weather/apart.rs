//! Two daemons at work on one server, on machines whose clocks are minutes apart. The server's clock counts: neither
//! takes a lease of the other before it has lapsed, and what they share is shared as if their clocks agreed.
//!
//! A daemon gets a clock of its own by a function of the system's that is found before the system's. The shells that
//! write the ledger ask the system in another way and have the right time.

use std::path::Path;
use std::process::{Child, Command};

use runcue_core::EventKind;
use serde_json::json;

use crate::crash::arena::Arena;
use crate::crash::{ledger, note, patience};
use crate::sandbox::{Ended, Sandbox};

/// Seconds.
const APART: i64 = 5 * 60;
const LEASE: &str = "2s";
const SLOTS: usize = 4;
const LIMIT: usize = 6;
/// Microseconds.
const WINDOW: i64 = 3_000_000;
/// So many jobs that take longer than a lease, so that it is prolonged again and again.
const LONG: usize = 4;
const SHORT: usize = 12;

const CLOCK: &str = "
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int clock_gettime(clockid_t which, struct timespec *at) {
    int failed = syscall(SYS_clock_gettime, which, at);
    const char *apart = getenv(\"CLOCK_APART\");
    if (!failed && which == CLOCK_REALTIME && apart) at->tv_sec += atol(apart);
    return failed;
}
";

/// A machine with a clock of its own, and the daemon that runs there.
struct Machine {
    daemon: Child,
    sandbox: Sandbox,
}

impl Machine {
    fn new(url: &str, number: usize, clock: &Path, apart: i64) -> Self {
        let sandbox = Sandbox::on(url)
            .with_env("VICTIM", &number.to_string())
            .with_env("LD_PRELOAD", &clock.display().to_string())
            .with_env("CLOCK_APART", &apart.to_string());
        let doctor = sandbox.run(&["doctor", "--json"]).json();
        let mut checks = doctor["checks"].as_array().unwrap().iter();
        let told = checks.find(|check| check["name"] == "clock").unwrap()["detail"].clone();
        let word = if apart > 0 { "ahead of" } else { "behind" };
        let told = told.as_str().unwrap();
        assert!(told.contains(word) && told.contains("min"), "its clock is its own: {told}");
        let words = ["work", "--jobs", "3", "--lease", LEASE, "--quiet"];
        let mut command = sandbox.command(&words);
        let stderr = std::fs::File::create(sandbox.path().join("stderr")).unwrap();
        let daemon = command.stdout(std::process::Stdio::null()).stderr(stderr).spawn().unwrap();
        Self { daemon, sandbox }
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
        if std::thread::panicking() {
            note(&self.sandbox.read("stderr"));
        }
    }
}

fn compiled(directory: &Path) -> std::path::PathBuf {
    let (text, library) = (directory.join("clock.c"), directory.join("clock.so"));
    std::fs::write(&text, CLOCK).unwrap();
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&text);
    Ended::from(compiler.output().unwrap()).ok();
    library
}

fn clocks_apart_share_what_there_is(url: &str) {
    let arena = Arena::on(url);
    let (rate, slots) = (format!("{LIMIT}/3s"), SLOTS.to_string());
    arena.run(&["services", "set", "api", "--rate", &rate, "--max-concurrent", &slots]).ok();
    let job = |seconds: f64| json!({"run": ledger::command(seconds), "services": ["api"]});
    let (long, short) = (format!("{}\n", job(5.0)), format!("{}\n", job(0.1)));
    arena.submit(&(long.repeat(LONG) + &short.repeat(SHORT)));
    let clock = compiled(arena.path());
    let machines =
        [(1, APART), (2, -APART)].map(|(number, apart)| Machine::new(url, number, &clock, apart));
    patience::until("everything is completed", || {
        (arena.lines() == 2 * (LONG + SHORT)).then_some(())
    });
    let all = (LONG + SHORT) as u64;
    patience::until("the ends are known", || (arena.count("completed") == all).then_some(()));
    let ledger = arena.ledger();
    assert!(ledger.order.values().all(|attempts| attempts == &[1]), "{:?}", ledger.order);
    assert!(ledger.most_at_once(&[]) <= SLOTS, "{} at once", ledger.most_at_once(&[]));
    for number in [1, 2] {
        let mut runs = ledger.executions.values();
        assert!(runs.any(|run| run.worker == number), "daemon {number} had no share");
    }
    arena.history().grants(&ledger);
    drop(machines);

    let store = runcue::open(url).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let events = runtime.block_on(store.events(0, 100_000)).unwrap();
    runtime.block_on(store.close()).unwrap();
    let mut grants = Vec::new();
    for event in events {
        match event.kind {
            EventKind::Started => grants.push((event.job, event.at.as_micros())),
            // One that was handed back unused is none. One that was taken away would have failed.
            EventKind::Retrying => {
                assert!(event.error.is_none(), "nobody took a job from the other: {event:?}");
                let own = grants.iter().rposition(|(job, _)| *job == event.job);
                grants.remove(own.unwrap());
            }
            _ => {}
        }
    }
    let grants: Vec<i64> = grants.into_iter().map(|(_, at)| at).collect();
    assert_eq!(grants.len(), LONG + SHORT);
    assert_eq!(ledger::crowded(grants.clone(), WINDOW, LIMIT), None, "{grants:?}");
    // By the server's clock, which is this machine's: a grant is before its shell begins, and not by minutes.
    let first = *grants.iter().min().unwrap();
    let begun = ledger.executions.values().map(|run| run.start).min().unwrap();
    assert!((0..APART * 500_000).contains(&(begun - first)), "{first} {begun}");
}

#[test]
fn daemons_whose_clocks_are_minutes_apart_share_a_postgres() {
    let database = runcue_test_servers::postgres().unwrap();
    clocks_apart_share_what_there_is(&database.url());
}

#[test]
fn daemons_whose_clocks_are_minutes_apart_share_a_redis() {
    let prefix = runcue_test_servers::redis().unwrap();
    clocks_apart_share_what_there_is(&prefix.url());
}
