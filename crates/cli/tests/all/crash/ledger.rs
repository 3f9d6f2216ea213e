//! What really ran. Every job appends a line when it begins and one when it ends; one short write to a file opened for
//! appending is never torn and never lost. The clock is bash's own, because starting `date` would take longer than
//! the job.

use std::collections::{BTreeMap, HashMap};

use serde_json::{Value, json};

use super::arena::Kill;

/// The command of a job that writes the ledger, working for so many seconds in between.
pub fn command(seconds: f64) -> Value {
    json!(["bash", "-c", script(&format!("sleep {seconds}"))])
}

/// The same with any work in between.
pub fn script(work: &str) -> String {
    let note = |word: &str| {
        format!(
            "printf '{word} %s %s %s %s\\n' $RUNCUE_JOB_ID $RUNCUE_ATTEMPT ${{EPOCHREALTIME/[^0-9]/}} ${{VICTIM:-0}} >> ledger"
        )
    };
    format!("{}; {work}; {}", note("start"), note("end"))
}

/// One execution of a job.
#[derive(Clone, Copy, Debug)]
pub struct Execution {
    /// In microseconds since the epoch.
    pub start: i64,
    /// If it got that far.
    pub end: Option<i64>,
    /// Who started it, by the number of the victim; 0 for one that nobody was to kill. Not by its pid: a shell whose
    /// worker is killed at once no longer knows whose child it was.
    pub worker: u32,
}

/// Every execution, by job and attempt.
#[derive(Debug, Default)]
pub struct Ledger {
    pub executions: BTreeMap<(String, u32), Execution>,
    /// The attempts of each job in the order in which they began.
    pub order: HashMap<String, Vec<u32>>,
    /// The jobs in the order in which their executions began.
    pub starts: Vec<String>,
}

impl Ledger {
    /// Reads it. The same attempt begun twice, or ended twice or before it began, is a failure by itself. A last line
    /// without an end is one that is being written: whoever reads along may see the front of it first.
    #[track_caller]
    pub fn read(text: &str) -> Self {
        let mut ledger = Self::default();
        let whole = text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n'));
        for line in whole {
            let words: Vec<&str> = line.split(' ').collect();
            let [what, id, attempt, at, worker] = words[..] else { panic!("torn: {line:?}") };
            let attempt: u32 = attempt.parse().unwrap();
            let (at, worker) = (at.parse().unwrap(), worker.parse().unwrap());
            let key = (id.to_owned(), attempt);
            if what == "start" {
                let new = Execution { start: at, end: None, worker };
                let known = ledger.executions.insert(key, new);
                assert!(known.is_none(), "attempt {attempt} of {id} began twice");
                ledger.order.entry(id.to_owned()).or_default().push(attempt);
                ledger.starts.push(id.to_owned());
            } else {
                let begun = ledger.executions.get_mut(&key).unwrap();
                assert!(begun.end.replace(at).is_none(), "attempt {attempt} of {id} ended twice");
            }
        }
        ledger
    }

    /// Attempts of a job go up, and the next begins only when the one before has ended or its worker was killed.
    #[track_caller]
    pub fn never_runs_a_job_twice_at_once(&self, kills: &[Kill]) {
        for (id, attempts) in &self.order {
            for pair in attempts.windows(2) {
                assert!(pair[0] < pair[1], "attempts of {id} began as {attempts:?}");
                let before = self.executions[&(id.clone(), pair[0])];
                let after = self.executions[&(id.clone(), pair[1])];
                let over = before.over(kills);
                assert!(
                    over.is_some_and(|over| over <= after.start),
                    "{id} runs twice at once: {before:?} {after:?}"
                );
            }
        }
    }

    /// The most executions at any one moment.
    pub fn most_at_once(&self, kills: &[Kill]) -> usize {
        let mut edges = Vec::new();
        for execution in self.executions.values() {
            let over = execution.over(kills).unwrap_or(i64::MAX);
            if over > execution.start {
                edges.extend([(execution.start, 1), (over, -1)]);
            }
        }
        // At the same instant an end comes before a start.
        edges.sort_unstable();
        let mut at_once = 0_i64;
        let most = edges.iter().map(|(_, change)| {
            at_once += change;
            at_once
        });
        most.max().unwrap_or(0).try_into().unwrap()
    }

    /// How many attempts began while the one before, whose worker was dead, was still writing.
    pub fn overtaken(&self) -> usize {
        let pairs = self.order.iter().flat_map(|(id, attempts)| {
            attempts
                .windows(2)
                .map(move |pair| [pair[0], pair[1]].map(|n| self.executions[&(id.clone(), n)]))
        });
        pairs.filter(|[before, after]| before.end.is_some_and(|end| end > after.start)).count()
    }

    /// How long executions went on at most after their worker was killed, in microseconds: the guard's work, as far
    /// as the ledger can see it.
    pub fn longest_afterlife(&self, kills: &[Kill]) -> i64 {
        let lives = self.executions.values();
        let after = lives.filter_map(|one| Some(one.end? - one.killed(kills)?));
        after.max().unwrap_or(0).max(0)
    }
}

impl Execution {
    /// When its worker was killed, if that was while it ran or later.
    fn killed(&self, kills: &[Kill]) -> Option<i64> {
        let mine = kills.iter().filter(|kill| kill.victim == self.worker);
        mine.map(|kill| kill.at).max()
    }

    /// When it was over: at its end or at the death of its worker, whichever came first. For the moment that the
    /// guard needs to kill what a dead worker started nobody is to blame; it is measured apart.
    fn over(&self, kills: &[Kill]) -> Option<i64> {
        self.end.into_iter().chain(self.killed(kills)).min()
    }
}

/// Whether any half-open window of this length holds more than `limit` of these instants. Answers the first that
/// does.
pub fn crowded(mut instants: Vec<i64>, window: i64, limit: usize) -> Option<(i64, i64)> {
    instants.sort_unstable();
    let pairs = instants.iter().zip(instants.iter().skip(limit));
    pairs.map(|(first, over)| (*first, *over)).find(|(first, over)| over - first < window)
}

#[test]
fn a_crowded_window_is_seen_and_a_full_one_is_fine() {
    assert_eq!(crowded(vec![0, 10, 5, 12], 10, 2), Some((5, 12)));
    assert_eq!(crowded(vec![0, 5, 10, 15], 10, 2), None);
}

const OVERLAP: &str =
    "start a 1 10 7\nstart b 1 12 8\nstart a 2 20 8\nend a 1 25 7\nend b 1 30 8\n";

#[test]
fn an_execution_is_over_when_its_worker_was_killed() {
    let ledger = Ledger::read(OVERLAP);
    let kills = [Kill { victim: 7, at: 15 }];
    assert_eq!((ledger.most_at_once(&[]), ledger.most_at_once(&kills)), (3, 2));
    assert_eq!((ledger.longest_afterlife(&kills), ledger.overtaken()), (10, 1));
    ledger.never_runs_a_job_twice_at_once(&kills);
}

#[test]
#[should_panic(expected = "a runs twice at once")]
fn an_overlap_is_seen_when_nobody_was_killed() {
    Ledger::read(OVERLAP).never_runs_a_job_twice_at_once(&[]);
}

#[test]
#[should_panic(expected = "attempt 1 of a began twice")]
fn an_attempt_that_begins_twice_is_seen() {
    Ledger::read("start a 1 10 7\nstart a 1 12 8\n");
}
