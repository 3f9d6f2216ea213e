//! Schedules: defining, listing and changing them, and that a worker fires them.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::sandbox::Sandbox;

fn schedules(sandbox: &Sandbox) -> Vec<Value> {
    let shown = sandbox.run(&["schedules", "--json"]).json();
    shown["schedules"].as_array().unwrap().clone()
}

/// Waits until a file has so many lines.
fn wait_for_lines(sandbox: &Sandbox, name: &str, lines: usize) {
    let begin = Instant::now();
    while sandbox.read(name).lines().count() < lines {
        assert!(begin.elapsed() < Duration::from_secs(60), "{name}: {:?}", sandbox.read(name));
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_schedule_is_defined_listed_paused_resumed_and_removed() {
    let sandbox = Sandbox::new();
    let add = ["schedule", "add", "tick", "--cron", "*/5 * * * *", "--", "echo", "two words"];
    let told = sandbox.run(&add).ok();
    assert!(told.contains("tick") && told.contains("*/5 * * * *"), "{told}");
    let table = sandbox.run(&["schedules"]).ok();
    assert!(table.contains("SCHEDULE") && table.contains("never"), "{table}");
    let one = schedules(&sandbox).remove(0);
    assert_eq!(one["params"]["run"], serde_json::json!(["echo", "two words"]));
    assert_eq!(one["next_at"][0].as_i64().unwrap() % 300_000, 0);
    sandbox.run(&["schedule", "pause", "tick"]).ok();
    let one = schedules(&sandbox).remove(0);
    assert_eq!(
        (one["paused"].clone(), one["next_at"].clone()),
        (true.into(), Value::Array(vec![]))
    );
    sandbox.run(&["schedule", "resume", "tick"]).ok();
    assert_eq!(schedules(&sandbox)[0]["paused"], false);
    let told = sandbox.run(&["schedule", "remove", "tick"]).ok();
    assert_eq!(told, "schedule tick is removed; its jobs stay\n");
    assert!(schedules(&sandbox).is_empty());
}

#[test]
fn what_cannot_be_scheduled_is_refused_with_the_fix() {
    let sandbox = Sandbox::new();
    let add = |words: &[&str]| {
        let words: Vec<&str> = ["schedule", "add", "tick"].iter().chain(words).copied().collect();
        sandbox.run(&words)
    };
    let told = add(&["--cron", "often", "--", "true"]).refused(2);
    assert!(told.contains("often") && told.contains("*/5 * * * *"), "{told}");
    let told = add(&["--cron", "@daily", "--zone", "Berlin", "--", "true"]).refused(2);
    assert!(told.contains("Europe/Berlin"), "{told}");
    let told = add(&["--cron", "@daily"]).refused(2);
    assert!(told.contains("-- COMMAND"), "{told}");
    assert!(!sandbox.path().join(".runcue").exists(), "no queue is made by a refused schedule");
    add(&["--cron", "@daily", "--", "true"]).ok();
    let told = sandbox.run(&["schedule", "pause", "tock"]).refused(2);
    assert!(told.contains("there is no schedule tock") && told.contains("tick"), "{told}");
}

#[test]
fn workers_fire_each_second_once_however_many_there_are() {
    let sandbox = Sandbox::new();
    let script = "echo $RUNCUE_JOB_ID >> fired";
    let command = ["--cron", "* * * * * *", "--", "sh", "-c", script];
    let words: Vec<&str> = ["schedule", "add", "tick"].iter().chain(&command).copied().collect();
    sandbox.run(&words).ok();
    let mut workers: Vec<_> = (0..3).map(|_| sandbox.start(&["work", "--jobs", "2"])).collect();
    wait_for_lines(&sandbox, "fired", 3);
    sandbox.run(&["schedule", "pause", "tick"]).ok();
    let info = schedules(&sandbox).remove(0);
    let fired = info["fired"].as_u64().unwrap();
    wait_for_lines(&sandbox, "fired", usize::try_from(fired).unwrap());
    for worker in &mut workers {
        worker.kill().unwrap();
        worker.wait().unwrap();
    }
    let jobs = sandbox.run(&["list", "--limit", "1000", "--json"]).json();
    let jobs = jobs["jobs"].as_array().unwrap();
    assert_eq!(jobs.len() as u64, fired, "one job for each firing");
    let mut instants: Vec<i64> = jobs.iter().map(|job| job["run_at"].as_i64().unwrap()).collect();
    instants.sort_unstable();
    instants.dedup();
    assert_eq!(instants.len() as u64, fired, "no second has two");
    assert!(instants.iter().all(|at| at % 1000 == 0));
}

#[test]
fn a_run_file_defines_schedules_and_keeps_a_pause() {
    let sandbox = Sandbox::new();
    let file = r#"
tasks:
  note: {run: "echo {params.word} >> noted"}
schedules:
  often: {cron: "* * * * * *", task: note, params: {word: tick}}
  nightly: {cron: "0 3 * * *", zone: Europe/Berlin, run: [./backup.sh]}
jobs:
  - {id: first, task: note, params: {word: first}}
"#;
    sandbox.write("jobs.yaml", file);
    let ended = sandbox.run(&["run", "jobs.yaml"]);
    assert!(ended.stderr.contains("2 schedules defined"), "{}", ended.stderr);
    ended.ok();
    assert!(sandbox.read("noted").contains("first\n"));
    let names: Vec<Value> = schedules(&sandbox).iter().map(|one| one["name"].clone()).collect();
    assert_eq!(names, ["nightly", "often"]);
    sandbox.run(&["schedule", "pause", "nightly"]).ok();
    sandbox.run(&["run", "jobs.yaml"]).ok();
    assert_eq!(schedules(&sandbox)[0]["paused"], true, "a pause that a person set stays");
    let mut worker = sandbox.start(&["work"]);
    wait_for_lines(&sandbox, "noted", 3);
    worker.kill().unwrap();
    worker.wait().unwrap();
    assert!(sandbox.read("noted").contains("tick\n"));
}
