//! Workers and submitters on one file, killed with -9 while they submit, claim, run and complete.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::json;

use super::arena::{Arena, Kill, Victim};
use super::dice::Dice;
use super::{ledger, patience, scaled};

const WORKERS: usize = 2;
const SLOTS: usize = 4;
const BATCH: usize = 8;
/// Submitters wait while so many jobs are ahead of the workers: the queue is to be busy, not endless.
const AHEAD: usize = 60;

#[test]
fn nothing_acknowledged_is_lost_or_stuck_or_done_twice_however_often_processes_are_killed() {
    let mut scene = Scene::new(Arena::new(), scaled(20));
    scene.play();
    scene.judge();
}

#[cfg(feature = "lmdb")]
#[test]
fn the_same_holds_on_lmdb_whose_lock_survives_its_holder() {
    let mut scene = Scene::new(Arena::on("lmdb:queue"), scaled(20));
    scene.play();
    scene.judge();
}

struct Scene {
    arena: Arena,
    dice: Dice,
    wanted: usize,
    workers: Vec<Victim>,
    submission: Option<Victim>,
    batches: usize,
    worker_kills: Vec<Kill>,
    submitter_kills: usize,
}

impl Scene {
    fn new(arena: Arena, wanted: usize) -> Self {
        Self {
            arena,
            dice: Dice::new(),
            wanted,
            workers: Vec::new(),
            submission: None,
            batches: 0,
            worker_kills: Vec::new(),
            submitter_kills: 0,
        }
    }

    fn kills(&self) -> usize {
        self.worker_kills.len() + self.submitter_kills
    }

    /// Kills until enough have died.
    fn play(&mut self) {
        self.workers = (0..WORKERS).map(|_| self.arena.worker(SLOTS)).collect();
        while self.kills() < self.wanted {
            self.keep_submitting();
            if self.dice.one_in(4) {
                self.kill_the_submitter();
            } else {
                self.kill_a_worker();
            }
        }
        patience::until("the last submitter is done", || {
            self.submission.as_mut().is_none_or(|last| last.left().is_some()).then_some(())
        });
    }

    /// One moment in three is a few microseconds after its start; the others come with some more lines of the
    /// ledger, which is when jobs begin and end.
    fn kill_a_worker(&mut self) {
        let which = usize::try_from(self.dice.below(WORKERS as u64)).unwrap();
        if self.dice.one_in(3) {
            let instant = Duration::from_micros(self.dice.below(120_000));
            std::thread::sleep(instant);
        } else {
            let enough = self.arena.lines() + usize::try_from(self.dice.below(12)).unwrap();
            patience::until("the ledger grows", || {
                self.keep_submitting();
                (self.arena.lines() >= enough).then_some(())
            });
        }
        self.worker_kills.extend(self.workers[which].kill());
        self.workers[which] = self.arena.worker(SLOTS);
    }

    fn kill_the_submitter(&mut self) {
        self.submission = Some(self.start_submission());
        let instant = Duration::from_micros(self.dice.below(60_000));
        std::thread::sleep(instant);
        if let Some(mut submission) = self.submission.take()
            && submission.kill().is_some()
        {
            self.submitter_kills += 1;
        }
    }

    /// Starts the next submission when the one before is done and the queue is not too far ahead.
    fn keep_submitting(&mut self) {
        if self.submission.as_mut().is_some_and(|last| last.left().is_none()) {
            return;
        }
        // A submission that was killed may be there or not; only what was acknowledged is sure to keep workers busy.
        let seen = self.acknowledged();
        let begun = self.arena.ledger().order;
        if seen.iter().filter(|id| !begun.contains_key(*id)).count() < AHEAD {
            self.submission = Some(self.start_submission());
        }
    }

    fn start_submission(&mut self) -> Victim {
        self.batches += 1;
        let batch = self.batches;
        let line = json!({
            "run": ledger::command(0.01),
            "group": format!("group-{}", batch % 3),
            "target": format!("batch-{batch}"),
            // How often a job may die with its worker is not what is tried here.
            "retry": {"max_attempts": 1000, "max_crashes": 1000, "jitter": false, "base_delay": 0.01},
        });
        let lines = format!("{line}\n").repeat(BATCH);
        let answer = format!("ids-{batch}");
        self.arena.spawn_with(&["add", "--from", "-"], &lines, &answer)
    }

    /// Ids that somebody has seen. A line that was cut off is none.
    fn acknowledged(&self) -> BTreeSet<String> {
        let mut ids = BTreeSet::new();
        for batch in 1..=self.batches {
            let said = self.arena.read(&format!("ids-{batch}"));
            ids.extend(
                said.split_inclusive('\n')
                    .filter_map(|id| id.strip_suffix('\n'))
                    .map(str::to_owned),
            );
        }
        ids
    }

    fn judge(&mut self) {
        for worker in &mut self.workers {
            self.worker_kills.extend(worker.kill());
        }
        self.arena.run(&["work", "--drain", "--jobs", "8", "--quiet"]).ok();
        let arena = &self.arena;
        for state in ["queued", "leased", "running", "failed", "cancelled", "quarantined"] {
            assert_eq!(arena.count(state), 0, "{state}");
        }
        let (ledger, history) = (arena.ledger(), arena.history());
        let completed: BTreeSet<String> = history.completed().into_keys().collect();
        let acknowledged = self.acknowledged();
        assert!(!acknowledged.is_empty());
        let lost: Vec<_> = acknowledged.difference(&completed).collect();
        assert!(lost.is_empty(), "lost: {lost:?}");
        assert_eq!(completed.len() as u64, arena.count("completed"));
        ledger.never_runs_a_job_twice_at_once(&self.worker_kills);
        history.leaves_finished_jobs_alone(&ledger);
        history.grants(&ledger);
        self.batches_are_whole();
        arena.is_untroubled();
        arena.deserted();
    }

    /// A submission that was killed is there as a whole or not at all.
    fn batches_are_whole(&self) {
        let mut sizes = std::collections::BTreeMap::<String, usize>::new();
        let mut before: Option<String> = None;
        loop {
            let mut words = vec!["list", "--json", "--limit", "1000"];
            words.extend(before.iter().flat_map(|before| ["--before", before.as_str()]));
            let page = self.arena.run(&words).json();
            for job in page["jobs"].as_array().unwrap() {
                *sizes.entry(job["target"].as_str().unwrap().to_owned()).or_default() += 1;
            }
            match page["next_before"].as_str() {
                Some(next) => before = Some(next.to_owned()),
                None => break,
            }
        }
        let torn: Vec<_> = sizes.iter().filter(|(_, size)| **size != BATCH).collect();
        assert!(torn.is_empty(), "torn submissions: {torn:?}");
    }
}

/// Figures for whoever reads along, or has to find out.
impl Drop for Scene {
    fn drop(&mut self) {
        if std::thread::panicking() {
            super::note(&self.arena.run(&["status"]).stdout);
            super::note(&self.arena.read("stderr"));
        }
        let ledger = self.arena.ledger();
        let unended = ledger.executions.values().filter(|one| one.end.is_none()).count();
        super::note(&format!(
            "{} kills of workers, {} of submitters; {} submissions, {} ids seen; {} executions, {unended} cut short; \
             the dead went on for {} µs at most, and were overtaken {} times",
            self.worker_kills.len(),
            self.submitter_kills,
            self.batches,
            self.acknowledged().len(),
            ledger.executions.len(),
            ledger.longest_afterlife(&self.worker_kills),
            ledger.overtaken(),
        ));
    }
}
