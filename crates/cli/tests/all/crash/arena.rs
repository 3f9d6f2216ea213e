//! A sandbox in which processes die. It knows its own by `HOME`, which is its directory: the binary, its guards and
//! whatever their jobs start have it in their environment, and nobody else has.

use std::cell::Cell;
use std::fs::{self, File};
use std::io::Write;
use std::ops::Deref;
use std::process::{Child, ExitStatus, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use super::history::History;
use super::ledger::Ledger;
use super::patience::until;
use crate::sandbox::Sandbox;

/// A directory with a queue, a ledger, and processes that are all gone when it is dropped.
pub struct Arena {
    sandbox: Sandbox,
    victims: Cell<u32>,
}

impl Deref for Arena {
    type Target = Sandbox;

    fn deref(&self) -> &Sandbox {
        &self.sandbox
    }
}

impl Arena {
    pub fn new() -> Self {
        Self { sandbox: Sandbox::new(), victims: Cell::new(0) }
    }

    /// The same, with another store.
    pub fn on(store: &str) -> Self {
        Self { sandbox: Sandbox::on(store), victims: Cell::new(0) }
    }

    /// Starts the binary. Nobody reads along, so what it says goes to files: a full pipe would hold it up.
    pub fn spawn(&self, words: &[&str]) -> Victim {
        self.spawn_with(words, "", "stdout")
    }

    /// Starts the binary with something to read and a file for its answer.
    pub fn spawn_with(&self, words: &[&str], input: &str, answer: &str) -> Victim {
        let open = |name: &str| {
            File::options().append(true).create(true).open(self.path().join(name)).unwrap()
        };
        let number = self.victims.get() + 1;
        self.victims.set(number);
        let mut command = self.command(words);
        command.env("VICTIM", number.to_string());
        command.stdin(Stdio::piped()).stdout(open(answer)).stderr(open("stderr"));
        let mut child = command.spawn().unwrap();
        // It may be dead already, or not want to read.
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        Victim { child, number }
    }

    /// A worker that runs so many jobs at once.
    pub fn worker(&self, jobs: usize) -> Victim {
        self.spawn(&["work", "--jobs", &jobs.to_string(), "--quiet"])
    }

    /// Submits lines of JSON and answers the ids.
    #[track_caller]
    pub fn submit(&self, lines: &str) -> Vec<String> {
        let ids = self.run_with(&["add", "--from", "-"], lines).ok();
        ids.lines().map(str::to_owned).collect()
    }

    /// What the jobs wrote.
    pub fn ledger(&self) -> Ledger {
        Ledger::read(&self.sandbox.read("ledger"))
    }

    /// How many lines that is.
    pub fn lines(&self) -> usize {
        self.sandbox.read("ledger").lines().count()
    }

    /// What the store says happened.
    pub fn history(&self) -> History {
        History::read(&self.run(&["events", "--after", "0", "--limit", "1000000", "--json"]).ok())
    }

    /// How many jobs are in a state.
    pub fn count(&self, state: &str) -> u64 {
        self.run(&["status", "--json"]).json()["counts"][state].as_u64().unwrap()
    }

    /// The processes of this arena, ours or orphaned.
    pub fn processes(&self) -> Vec<Pid> {
        let home = format!("HOME={}", self.path().display());
        let pids = fs::read_dir("/proc").unwrap().flatten();
        let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        pids.filter(|pid| {
            let environ = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environ.split(|byte| *byte == 0).any(|variable| variable == home.as_bytes())
        })
        .filter_map(Pid::from_raw)
        .collect()
    }

    /// Waits until every process of this arena is gone.
    #[track_caller]
    pub fn deserted(&self) {
        until("every process is gone", || self.processes().is_empty().then_some(()));
    }

    /// No process may have told its user of a trouble: not of a locked file, nor of anything else.
    #[track_caller]
    pub fn is_untroubled(&self) {
        let told = self.read("stderr");
        assert!(!told.contains("error:") && !told.contains("panicked"), "{told}");
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // A guard kills what its worker left; killing the guards too early would be no help to anybody.
        for _ in 0..100 {
            let left = self.processes();
            if left.is_empty() {
                return;
            }
            for pid in left {
                let _ = kill_process(pid, Signal::KILL);
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }
}

/// A process that may be killed at any moment, and is at the latest when it is dropped.
pub struct Victim {
    child: Child,
    number: u32,
}

/// A kill that happened.
#[derive(Clone, Copy, Debug)]
pub struct Kill {
    /// Whom, by number. The children of a victim have its number in their environment.
    pub victim: u32,
    /// When it was sent, in microseconds since the epoch.
    pub at: i64,
}

impl Victim {
    /// By which the ledger knows what it ran.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// By which the machine knows it.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Kills with -9. `None` if it had left already.
    pub fn kill(&mut self) -> Option<Kill> {
        if self.child.try_wait().unwrap().is_some() {
            return None;
        }
        let kill = Kill { victim: self.number, at: now() };
        self.child.kill().unwrap();
        let status = self.child.wait().unwrap();
        // It may have left in the meantime.
        status.code().is_none().then_some(kill)
    }

    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, signal).unwrap();
    }

    /// Whether it has left.
    pub fn left(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().unwrap()
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The wall clock in microseconds since the epoch, which is also what the ledger has.
pub fn now() -> i64 {
    jiff::Timestamp::now().as_microsecond()
}
