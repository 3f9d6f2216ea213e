//! `runcue run FILE`, killed in the middle again and again.

use std::fmt::Write;

use super::arena::Arena;
use super::dice::Dice;
use super::{ledger, patience, scaled};

#[test]
fn a_run_that_is_killed_and_started_again_goes_on_and_does_nothing_twice() {
    let arena = Arena::new();
    let mut dice = Dice::new();
    let jobs = scaled(60);
    let script = serde_json::to_string(&ledger::script("sleep 0.02")).unwrap();
    let mut file =
        format!("tasks:\n  t: {{ run: [bash, -c, {script}], max_attempts: 100 }}\njobs:\n");
    for n in 0..jobs {
        // Chains of three, so that jobs also wait for each other when everything dies.
        let after = if n % 3 == 0 { String::new() } else { format!(", depends_on: j{}", n - 1) };
        writeln!(file, "  - {{ id: j{n}, task: t{after} }}").unwrap();
    }
    arena.write("jobs.yaml", &file);
    let words = ["run", "jobs.yaml", "--jobs", "4", "--quiet"];
    let mut kills = Vec::new();
    for n in 0..scaled(5) {
        let mut run = arena.spawn(&words);
        if n > 0 && dice.one_in(3) {
            std::thread::sleep(std::time::Duration::from_micros(dice.below(200_000)));
        } else {
            let enough = arena.lines() + usize::try_from(dice.below(20)).unwrap();
            patience::until("the run goes on or ends", || {
                (arena.lines() >= enough || run.left().is_some()).then_some(())
            });
        }
        kills.extend(run.kill());
    }
    // A job that died with three workers is set aside, and found to be so only after the next run has made its plan;
    // the run after that tries it again, as the documentation says.
    let ended = (0..3).map(|_| arena.run(&words)).find(|ended| ended.code == 0);
    assert!(ended.is_some(), "{}", arena.run(&["status"]).stdout);
    assert_eq!(arena.count("completed"), jobs as u64);
    let (ledger, history) = (arena.ledger(), arena.history());
    assert_eq!(history.completed().len(), jobs);
    assert_eq!(ledger.order.len(), jobs, "every job had its effect");
    ledger.never_runs_a_job_twice_at_once(&kills);
    history.leaves_finished_jobs_alone(&ledger);
    history.grants(&ledger);
    let executions = ledger.executions.len();
    assert_eq!(arena.run(&words).code, 0);
    assert_eq!(arena.ledger().executions.len(), executions, "once more, and nothing is left to do");
    super::note(&format!("{} kills, {jobs} jobs, {executions} executions", kills.len()));
}
