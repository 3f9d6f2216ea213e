//! Three daemons on one server, jobs that keep coming, and the verdict.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::json;

use super::limits;
use super::server::Server;
use crate::crash::arena::{Arena, Kill, Victim, now};
use crate::crash::{ledger, note, patience};

const SLOTS: &str = "3";
const BATCH: usize = 8;
/// Submitters wait while so many jobs are ahead of the daemons: the queue is to be busy, not endless.
const AHEAD: usize = 40;
/// What a dead daemon held comes back only when its lease has lapsed.
const LEASE: &str = "2s";
/// By itself, and within seconds, on a machine that has other things to do as well.
const SOON: Duration = Duration::from_secs(20);

pub struct Scene {
    /// Before the server, so that no daemon outlives it.
    pub daemons: Vec<Victim>,
    submission: Option<Victim>,
    pub arena: Arena,
    pub server: Server,
    pub kills: Vec<Kill>,
    batches: usize,
}

impl Scene {
    /// Three daemons at work.
    pub fn begin(server: Server) -> Self {
        let url = server.url();
        Self::begin_with(server, &[&url, &url, &url])
    }

    /// Daemons at work, each at the address it has of the server.
    pub fn begin_with(server: Server, addresses: &[&str]) -> Self {
        let arena = Arena::on(&server.url());
        let mut scene = Self {
            daemons: Vec::new(),
            submission: None,
            arena,
            server,
            kills: Vec::new(),
            batches: 0,
        };
        // The first to come makes the queue, and every daemon has something to do at once.
        limits::set(&scene.arena);
        scene.keep_submitting();
        scene.daemons = addresses.iter().map(|address| scene.daemon(address)).collect();
        scene.every_daemon_works_after(0);
        scene
    }

    fn daemon(&self, address: &str) -> Victim {
        let words = ["--store", address, "work", "--jobs", SLOTS, "--lease", LEASE, "--quiet"];
        self.arena.spawn(&words)
    }

    /// Kills a daemon with -9 and starts another in its place.
    pub fn replace(&mut self, which: usize) {
        self.kills.push(self.daemons[which].kill().expect("it works until it is killed"));
        self.daemons[which] = self.daemon(&self.server.url());
    }

    /// Waits until the ledger has so many more lines, with work for everybody.
    pub fn grow(&mut self, lines: usize) {
        let enough = self.arena.lines() + lines;
        patience::until("the ledger grows", || {
            self.keep_submitting();
            (self.arena.lines() >= enough).then_some(())
        });
    }

    /// Waits until each daemon has begun a job after an instant, which takes seconds, and says how long it took.
    pub fn every_daemon_works_after(&mut self, instant: i64) {
        patience::no_longer_than("every daemon works", SOON, || {
            self.keep_submitting();
            for daemon in &mut self.daemons {
                let left = daemon.left();
                assert_eq!(left, None, "a daemon has left: {}", self.arena.read("stderr"));
            }
            let ledger = self.arena.ledger();
            let at_work = |daemon: &Victim| {
                let mut runs = ledger.executions.values();
                runs.any(|run| run.worker == daemon.number() && run.start > instant)
            };
            self.daemons.iter().all(at_work).then_some(())
        });
        if instant > 0 {
            note(&format!("every daemon works again after {} µs", now() - instant));
        }
    }

    /// Starts the next submission when the one before is done and the queue is not too far ahead.
    pub fn keep_submitting(&mut self) {
        if self.submission.as_mut().is_some_and(|last| last.left().is_none()) {
            return;
        }
        let begun = self.arena.ledger().order;
        let seen = self.acknowledged();
        if seen.iter().filter(|id| !begun.contains_key(*id)).count() < AHEAD {
            self.submission = Some(self.start_submission());
        }
    }

    fn start_submission(&mut self) -> Victim {
        self.batches += 1;
        let line = json!({
            "run": ledger::command(limits::WORK),
            "services": [limits::SERVICE],
            "group": format!("group-{}", self.batches % 3),
            // How often a job may die with its daemon is not what is tried here.
            "retry": {"max_attempts": 1000, "max_crashes": 1000, "jitter": false, "base_delay": 0.01},
        });
        let lines = format!("{line}\n").repeat(BATCH);
        let answer = format!("ids-{}", self.batches);
        self.arena.spawn_with(&["add", "--from", "-"], &lines, &answer)
    }

    /// Ids that somebody has seen. A line that was cut off is none.
    fn acknowledged(&self) -> BTreeSet<String> {
        let answers = (1..=self.batches).map(|batch| self.arena.read(&format!("ids-{batch}")));
        let whole = answers.flat_map(|said| {
            let lines = said.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n'));
            lines.map(str::to_owned).collect::<Vec<_>>()
        });
        whole.collect()
    }

    /// Everything ends by itself, nothing acknowledged is lost, nothing is done again, and no limit was exceeded.
    pub fn judge(&mut self) {
        patience::until("the last submitter is done", || {
            self.submission.as_mut().is_none_or(|last| last.left().is_some()).then_some(())
        });
        patience::until("everything has ended", || {
            let counts = &self.arena.run(&["status", "--json"]).json()["counts"];
            let live = ["queued", "leased", "running"].map(|state| counts[state].as_u64().unwrap());
            (live == [0; 3]).then_some(())
        });
        let arena = &self.arena;
        for state in ["failed", "cancelled", "quarantined"] {
            assert_eq!(arena.count(state), 0, "{state}");
        }
        let (ledger, history) = (arena.ledger(), arena.history());
        let completed: BTreeSet<String> = history.completed().into_keys().collect();
        let acknowledged = self.acknowledged();
        let lost: Vec<_> = acknowledged.difference(&completed).collect();
        assert!(lost.is_empty(), "lost: {lost:?}");
        assert_eq!(completed.len() as u64, arena.count("completed"));
        ledger.never_runs_a_job_twice_at_once(&self.kills);
        history.leaves_finished_jobs_alone(&ledger);
        history.grants(&ledger);
        limits::were_kept(arena, &self.server, &self.kills);
        let told = arena.read("stderr");
        assert!(!told.contains("panicked"), "{told}");
        let doctor = arena.run(&["doctor", "--json"]).json();
        let mut checks = doctor["checks"].as_array().unwrap().iter();
        assert!(checks.all(|check| check["verdict"] != "bad"), "{doctor}");
        note(&format!(
            "{} kills; {} ids seen; {} executions of {} jobs",
            self.kills.len(),
            acknowledged.len(),
            ledger.executions.len(),
            completed.len(),
        ));
    }
}

/// For whoever has to find out.
impl Drop for Scene {
    fn drop(&mut self) {
        if std::thread::panicking() {
            note(&self.arena.read("stderr"));
            let ledger = self.arena.ledger();
            for daemon in &self.daemons {
                let starts = ledger.executions.values().filter(|run| run.worker == daemon.number());
                let last = starts.map(|run| run.start).max();
                note(&format!("daemon {} began its last job at {last:?}", daemon.number()));
            }
            for words in [["status", "--json"], ["services", "--json"]] {
                note(&self.arena.run(&words).stdout);
            }
        }
    }
}
