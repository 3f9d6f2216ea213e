//! `runcue run`: files of jobs, run to completion and run again.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::sandbox::Sandbox;

/// Three jobs that leave a line each in `done`; the last waits for the first two.
const FILE: &str = "\
name: three
max_parallel: 2
tasks:
  note: { run: 'echo {id} >> done' }
jobs:
  - { id: a, task: note }
  - { id: b, task: note }
  - { id: c, task: note, depends_on: [a, b] }
";

fn lines(sandbox: &Sandbox, name: &str) -> Vec<String> {
    let mut lines: Vec<String> = sandbox.read(name).lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

/// A pipe in the file system; whoever reads it waits for a writer, and then for all writers to end.
fn make_fifo(sandbox: &Sandbox, name: &str) {
    let status = Command::new("mkfifo").arg(sandbox.path().join(name)).status().unwrap();
    assert!(status.success());
}

fn signal(child: &Child, name: &str) {
    let status = Command::new("kill").args([name, &child.id().to_string()]).status().unwrap();
    assert!(status.success());
}

/// Reads lines until one has the text.
fn read_until(reader: &mut impl BufRead, text: &str) -> String {
    let mut seen = String::new();
    loop {
        let mut line = String::new();
        assert!(reader.read_line(&mut line).unwrap() > 0, "{text:?} never came:\n{seen}");
        seen.push_str(&line);
        if line.contains(text) {
            return line;
        }
    }
}

#[test]
fn a_file_is_run_to_completion_in_the_order_of_its_dependencies() {
    let sandbox = Sandbox::new();
    sandbox.write("jobs.yaml", FILE);
    let told = sandbox.run(&["run", "jobs.yaml"]).ok();
    assert!(told.contains("3 of 3 jobs completed"), "{told}");
    assert_eq!(sandbox.read("done").lines().last(), Some("c"));
    assert_eq!(lines(&sandbox, "done"), ["a", "b", "c"]);
}

#[test]
fn run_again_completed_jobs_are_skipped_and_new_ones_are_done() {
    let sandbox = Sandbox::new();
    sandbox.write("jobs.yaml", FILE);
    sandbox.run(&["run", "jobs.yaml"]).ok();
    sandbox.run(&["run", "jobs.yaml"]).ok();
    assert_eq!(lines(&sandbox, "done"), ["a", "b", "c"]);
    sandbox.write("jobs.yaml", &format!("{FILE}  - {{ id: d, task: note }}\n"));
    let ended = sandbox.run(&["run", "jobs.yaml"]);
    assert!(ended.stderr.contains("1 new, 3 completed before"), "{}", ended.stderr);
    assert_eq!(lines(&sandbox, "done"), ["a", "b", "c", "d"]);
}

#[test]
fn commands_run_in_the_directory_of_the_file() {
    let sandbox = Sandbox::new();
    std::fs::create_dir(sandbox.path().join("sub")).unwrap();
    sandbox.write("sub/jobs.yaml", FILE);
    sandbox.run(&["run", "sub/jobs.yaml"]).ok();
    assert_eq!(lines(&sandbox, "sub/done"), ["a", "b", "c"]);
}

#[test]
fn a_failed_job_fails_the_run_and_says_how_to_see_why() {
    let sandbox = Sandbox::new();
    sandbox.write(
        "jobs.yaml",
        "jobs:\n  - { id: bad, run: 'echo no luck >&2; exit 3', max_attempts: 1 }\n  \
         - { id: after, run: 'true', depends_on: bad }\n",
    );
    let ended = sandbox.run(&["run", "jobs.yaml"]);
    assert_eq!(ended.code, 1, "{ended:?}");
    assert!(ended.stdout.contains("0 of 2 jobs completed, 2 failed"), "{}", ended.stdout);
    assert!(ended.stdout.contains("quarantined bad: exit 3: no luck"), "{}", ended.stdout);
    assert!(ended.stdout.contains("runcue logs "), "{}", ended.stdout);
    assert!(ended.stdout.contains("go on: runcue run jobs.yaml"), "{}", ended.stdout);
}

#[test]
fn a_failed_job_is_tried_again_as_the_file_says_now_and_so_is_what_waited_for_it() {
    let sandbox = Sandbox::new();
    let file = |command: &str| {
        format!(
            "jobs:\n  - {{ id: bad, run: '{command}', max_attempts: 1 }}\n  \
             - {{ id: after, run: 'echo after >> done', depends_on: bad }}\n  \
             - {{ id: other, run: 'echo other >> done' }}\n"
        )
    };
    sandbox.write("jobs.yaml", &file("exit 3"));
    assert_eq!(sandbox.run(&["run", "jobs.yaml"]).code, 1);
    assert_eq!(sandbox.run(&["run", "jobs.yaml"]).code, 1, "tried again, and failed again");
    sandbox.write("jobs.yaml", &file("echo bad >> done"));
    sandbox.run(&["run", "jobs.yaml"]).ok();
    assert_eq!(lines(&sandbox, "done"), ["after", "bad", "other"]);
}

#[test]
fn a_changed_job_is_shown_and_done_again_only_on_request_with_what_depends_on_it() {
    let sandbox = Sandbox::new();
    sandbox.write("jobs.yaml", FILE);
    sandbox.run(&["run", "jobs.yaml"]).ok();
    let changed = FILE.replace("{ id: a, task: note }", "{ id: a, task: note, target: other }");
    sandbox.write("jobs.yaml", &changed);
    for _ in 0..2 {
        let ended = sandbox.run(&["run", "jobs.yaml"]);
        assert!(ended.stderr.contains("1 job changed since the last run: a"), "{}", ended.stderr);
        assert!(ended.stderr.contains("--redo changed"), "{}", ended.stderr);
        ended.ok();
        assert_eq!(lines(&sandbox, "done"), ["a", "b", "c"]);
    }
    sandbox.run(&["run", "jobs.yaml", "--redo", "changed"]).ok();
    assert_eq!(lines(&sandbox, "done"), ["a", "a", "b", "c", "c"]);
    let ended = sandbox.run(&["run", "jobs.yaml"]);
    assert!(!ended.stderr.contains("changed"), "{}", ended.stderr);
    ended.ok();
    assert_eq!(lines(&sandbox, "done"), ["a", "a", "b", "c", "c"]);
}

#[test]
fn everything_can_be_done_again() {
    let sandbox = Sandbox::new();
    sandbox.write("jobs.yaml", FILE);
    sandbox.run(&["run", "jobs.yaml"]).ok();
    sandbox.run(&["run", "jobs.yaml", "--redo", "all"]).ok();
    assert_eq!(lines(&sandbox, "done"), ["a", "a", "b", "b", "c", "c"]);
}

#[test]
fn a_bad_file_is_wrong_usage_and_makes_no_queue() {
    let sandbox = Sandbox::new();
    sandbox.write("jobs.yaml", "jobs:\n  - { id: a, tsak: x }\n");
    let told = sandbox.run(&["run", "jobs.yaml"]).refused(2);
    assert!(told.contains("jobs.yaml") && told.contains("tsak"), "{told}");
    sandbox.run(&["run", "nowhere.yaml"]).refused(2);
    assert!(!sandbox.path().join(".runcue").exists());
}

#[test]
fn a_dry_run_says_what_would_be_done_and_makes_nothing() {
    let sandbox = Sandbox::new();
    sandbox.write("jobs.yaml", FILE);
    let told = sandbox.run(&["run", "jobs.yaml", "--dry-run"]).ok();
    assert_eq!(told, "three: 3 jobs: 3 new\n");
    assert!(!sandbox.path().join(".runcue").exists());
    sandbox.run(&["run", "jobs.yaml"]).ok();
    let plan = sandbox.run(&["run", "jobs.yaml", "--dry-run", "--json"]).json();
    assert_eq!((&plan["done"], &plan["submit"]), (&json!(3), &json!(0)));
}

#[test]
fn as_json_a_run_is_its_events_and_a_summary() {
    let sandbox = Sandbox::new();
    sandbox.write("jobs.yaml", FILE);
    let told = sandbox.run(&["run", "jobs.yaml", "--json"]).ok();
    let documents: Vec<Value> =
        told.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let (summary, events) = documents.split_last().unwrap();
    assert_eq!((&summary["type"], &summary["completed"]), (&json!("summary"), &json!(3)));
    let completed = events.iter().filter(|event| event["type"] == "work_completed");
    assert_eq!(completed.count(), 3);
}

#[test]
fn the_limits_of_the_file_hold() {
    let sandbox = Sandbox::new();
    sandbox.write(
        "jobs.yaml",
        "max_parallel: 4\nservices: { one: { max_concurrent: 1 } }\n\
         tasks: { t: { run: 'mkdir lock && rmdir lock', services: one, retry: { max_attempts: 1 } } }\n\
         jobs:\n  - { id: t, task: t, for_each: { from: 1, to: 20 } }\n",
    );
    sandbox.run(&["run", "jobs.yaml"]).ok();
}

#[test]
fn two_files_with_the_same_task_do_not_change_each_others_waiting_jobs() {
    let sandbox = Sandbox::new();
    sandbox.write("one.yaml", &FILE.replace("name: three\n", ""));
    sandbox.write("two.yaml", &FILE.replace("name: three\n", "").replace("done", "other"));
    sandbox.run(&["run", "one.yaml"]).ok();
    sandbox.add(&["--task", "note"]);
    let told = sandbox.run(&["run", "two.yaml"]).refused(2);
    assert!(told.contains("task note belongs to") && told.contains("one.yaml"), "{told}");
}

#[test]
fn after_the_first_ctrl_c_running_jobs_finish_and_the_next_run_does_the_rest() {
    let sandbox = Sandbox::new();
    make_fifo(&sandbox, "gate");
    sandbox.write(
        "jobs.yaml",
        "jobs:\n  - { id: a, run: 'cat gate >> done' }\n  - { id: b, run: 'echo b >> done' }\n",
    );
    let mut child = sandbox.start(&["run", "jobs.yaml", "--jobs", "1", "--json"]);
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    read_until(&mut stdout, "work_started");
    signal(&child, "-INT");
    read_until(&mut stderr, "stopping: waiting up to 30 s for 1 running job");
    std::fs::write(sandbox.path().join("gate"), "a\n").unwrap();
    let summary = read_until(&mut stdout, "summary");
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let summary: Value = serde_json::from_str(&summary).unwrap();
    assert_eq!((&summary["completed"], &summary["unfinished"]), (&json!(1), &json!(1)));
    assert_eq!(sandbox.read("done"), "a\n");
    sandbox.run(&["run", "jobs.yaml"]).ok();
    assert_eq!(sandbox.read("done"), "a\nb\n");
}

#[test]
fn after_the_second_ctrl_c_running_jobs_are_stopped_and_handed_back_uncounted() {
    let sandbox = Sandbox::new();
    make_fifo(&sandbox, "gate");
    sandbox.write("jobs.yaml", "jobs:\n  - { id: a, run: 'cat gate >> done' }\n");
    let mut child = sandbox.start(&["run", "jobs.yaml", "--json"]);
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    read_until(&mut stdout, "work_started");
    signal(&child, "-INT");
    read_until(&mut stderr, "stopping:");
    signal(&child, "-INT");
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let job = sandbox.show("@last");
    assert_eq!((&job["state"], &job["crashes"]), (&json!("queued"), &json!(0)));
    assert_eq!(job["fail_history"], json!([]));
}

#[test]
fn killed_with_kill_9_its_commands_die_and_the_next_run_goes_on() {
    let sandbox = Sandbox::new();
    make_fifo(&sandbox, "alive");
    sandbox.write(
        "jobs.yaml",
        "max_parallel: 1\njobs:\n  - { id: a, run: 'echo a >> done' }\n  \
         - id: b\n    depends_on: a\n    \
           run: 'if test {attempt} -eq 1; then exec 3> alive; while :; do sleep 1; done; fi; echo b >> done'\n",
    );
    let mut child = sandbox.start(&["run", "jobs.yaml", "--json"]);
    // Opening waits for the command, reading to the end waits for its death.
    let mut alive = std::fs::File::open(sandbox.path().join("alive")).unwrap();
    signal(&child, "-KILL");
    child.wait().unwrap();
    alive.read_to_end(&mut Vec::new()).unwrap();
    sandbox.run(&["run", "jobs.yaml"]).ok();
    assert_eq!(sandbox.read("done"), "a\nb\n");
    assert_eq!(sandbox.show("@last")["crashes"], 1);
}

#[test]
fn a_paused_group_is_named_when_nothing_moves() {
    let sandbox = Sandbox::new();
    sandbox.write("jobs.yaml", "jobs:\n  - { id: a, run: 'true', group: g }\n");
    sandbox.add(&["--", "true"]);
    sandbox.run(&["pause", "g", "--anyway"]).ok();
    let mut child = sandbox.start(&["run", "jobs.yaml"]);
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    read_until(&mut stdout, "waiting: a: group g is paused");
    sandbox.run(&["resume", "g"]).ok();
    assert!(child.wait().unwrap().success());
}

#[test]
fn the_examples_run() {
    let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");
    for name in ["sweep.yaml", "backup.toml"] {
        let sandbox = Sandbox::new();
        std::fs::copy(format!("{examples}/{name}"), sandbox.path().join(name)).unwrap();
        let output = sandbox.command(&["run", name]).stdin(Stdio::null()).output().unwrap();
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

/// Deletes everything that retention would have deleted in a year.
fn prune(sandbox: &Sandbox) {
    prune_after(sandbox, 365);
}

fn prune_after(sandbox: &Sandbox, days: u64) {
    use runcue_store::Store;
    let path = sandbox.path().join(".runcue/queue.db");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let options = runcue_store_sqlite::Options::new(path);
        let store = runcue_store_sqlite::SqliteStore::open(options).unwrap();
        let latest = store.events(0, 1).await.unwrap()[0].at;
        let later = latest.plus(std::time::Duration::from_secs(days * 24 * 3600));
        assert!(!store.prune(later, Default::default(), false).await.unwrap().is_empty());
        store.close().await.unwrap();
    });
}

#[test]
fn a_file_whose_jobs_are_no_longer_kept_says_so_before_it_does_them_again() {
    let sandbox = Sandbox::new();
    sandbox.write("jobs.yaml", FILE);
    let ended = sandbox.run(&["run", "jobs.yaml"]);
    assert!(!ended.stderr.contains("no longer kept"), "{}", ended.stderr);
    prune(&sandbox);
    let told = sandbox.run(&["run", "jobs.yaml", "--dry-run"]).stderr;
    assert!(told.contains("no longer kept"), "{told}");
    let told = sandbox.run(&["events", "--after", "2", "--json"]).ok();
    assert!(told.contains("\"events_missed\"") && told.contains("events 3 to"), "{told}");
    let told = sandbox.run(&["run", "jobs.yaml"]).stderr;
    assert!(told.contains("what became of its jobs is no longer kept"), "{told}");
    assert!(told.contains("`retention` in the config file keeps jobs longer"), "{told}");
    assert_eq!(lines(&sandbox, "done"), ["a", "a", "b", "b", "c", "c"]);
    let told = sandbox.run(&["run", "jobs.yaml"]).stderr;
    assert!(!told.contains("no longer kept"), "{told}");
}

#[test]
fn a_file_of_which_a_part_is_no_longer_kept_names_that_part_before_it_does_it_again() {
    let sandbox = Sandbox::new();
    let file = "tasks:\n  good: {run: [\"true\"]}\n  bad: {run: [\"false\"], retry: {max_attempts: 1}}\n\
                jobs:\n  - {id: fine, task: good}\n  - {id: poor, task: bad}\n";
    sandbox.write("jobs.yaml", file);
    sandbox.run(&["run", "jobs.yaml"]);
    sandbox.write("jobs.yaml", &format!("{file}  - {{id: more, task: good}}\n"));
    let told = sandbox.run(&["run", "jobs.yaml", "--dry-run"]).stderr;
    assert!(!told.contains("no longer kept"), "nothing is old enough to have been deleted: {told}");
    // Ten days on, completed jobs are deleted and failed ones are kept.
    prune_after(&sandbox, 10);
    let ago = 10_i64 * 24 * 3_600_000_000;
    let path = sandbox.path().join(".runcue/queue.db");
    let aged = format!("UPDATE job SET created_at = created_at - {ago}");
    assert!(std::process::Command::new("sqlite3").arg(path).arg(aged).status().unwrap().success());
    let told = sandbox.run(&["run", "jobs.yaml", "--dry-run"]).stderr;
    assert!(told.contains("2 jobs not known here") && told.contains("fine, more"), "{told}");
    let told = sandbox.run(&["run", "jobs.yaml"]).stderr;
    assert!(told.contains("they are done now"), "{told}");
    let told = sandbox.run(&["run", "jobs.yaml"]).stderr;
    assert!(!told.contains("no longer kept"), "{told}");
}
