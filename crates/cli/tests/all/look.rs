//! Looking at the queue: status, list, show, events, watch and doctor, as a person reads them.

use std::io::Read;
use std::process::Stdio;

use serde_json::json;

use crate::sandbox::Sandbox;

#[test]
fn status_counts_jobs_and_says_what_to_do_when_nobody_works() {
    let sandbox = Sandbox::new();
    let first = sandbox.add(&["--", "true"]);
    sandbox.add(&["--after", &first, "--", "true"]);
    sandbox.add(&["--in", "1h", "--", "true"]);
    let told = sandbox.run(&["status"]).ok();
    assert!(told.contains("3 queued"), "{told}");
    assert!(told.contains("1 ready, 1 wait for a time, 1 wait for other jobs"), "{told}");
    assert!(told.contains("hint: ") && told.contains("`runcue work`"), "{told}");
    let status = sandbox.run(&["status", "--json"]).json();
    assert_eq!(
        (&status["ready"], &status["delayed"], &status["blocked"]),
        (&json!(1), &json!(1), &json!(1))
    );
    assert_eq!(status["durability"], "normal");
}

#[test]
fn looking_makes_no_queue() {
    let sandbox = Sandbox::new();
    for verb in ["status", "list", "groups", "services", "queues", "events", "watch"] {
        let told = sandbox.run(&[verb]).refused(1);
        assert!(told.contains("there is no queue at .runcue/queue.db"), "{verb}: {told}");
        assert!(told.contains("help: `runcue add"), "{verb}: {told}");
    }
    assert!(!sandbox.path().join(".runcue").exists());
}

#[test]
fn an_empty_list_says_so_beside_the_result() {
    let sandbox = Sandbox::new();
    sandbox.add(&["--", "true"]);
    let ended = sandbox.run(&["list", "--state", "failed"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (0, ""));
    assert_eq!(ended.stderr, "no such jobs\n");
    assert_eq!(sandbox.run(&["-q", "list", "--state", "failed"]).stderr, "");
}

#[test]
fn a_table_has_the_end_of_the_id_and_no_colour_in_a_pipe() {
    let sandbox = Sandbox::new();
    let id = sandbox.add(&["--group", "g", "--", "echo", "two words"]);
    let told = sandbox.run(&["list"]).ok();
    assert!(told.contains(&id[24..]) && !told.contains(&id), "{told}");
    assert!(told.contains("echo 'two words'"), "{told}");
    assert!(!told.contains('\u{1b}'), "{told}");
    let colourful = sandbox.run(&["list", "--color", "always"]).ok();
    assert!(colourful.contains('\u{1b}'), "{colourful}");
}

#[test]
fn a_shown_text_cannot_write_to_the_terminal() {
    let sandbox = Sandbox::new();
    sandbox.add(&["--target", "a\u{1b}]0;title\u{7}b", "--", "true"]);
    for words in [["list"].as_slice(), &["show", "@last"], &["watch"], &["events"]] {
        let told = sandbox.run(words).ok();
        assert!(!told.contains('\u{1b}') && !told.contains('\u{7}'), "{told:?}");
    }
}

#[test]
fn events_tell_what_happened_and_resume_after_a_number() {
    let sandbox = Sandbox::new();
    let id = sandbox.add(&["--", "true"]);
    sandbox.run(&["cancel", &id]).ok();
    let lines = sandbox.run(&["events", "--json"]).ok();
    let events: Vec<serde_json::Value> =
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let types: Vec<&str> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!(types, ["work_queued", "work_cancelled"]);
    assert!(events.iter().all(|event| event["job"] == id.as_str()));
    let seq = events[0]["seq"].to_string();
    let later = sandbox.run(&["events", "--after", &seq, "--json"]).ok();
    assert_eq!(later.lines().count(), 1);
    let told = sandbox.run(&["events", "--type", "queued"]).ok();
    assert_eq!(told.lines().count(), 1, "{told}");
}

#[test]
fn watch_without_a_terminal_prints_one_snapshot() {
    let sandbox = Sandbox::new();
    sandbox.run(&["services", "set", "api", "--rate", "60/min", "--max-concurrent", "5"]).ok();
    sandbox.add(&["--group", "nightly", "--", "true"]);
    let told = sandbox.run(&["watch"]).ok();
    for part in ["1 queued", "[░░░░░░░░░░]", "0/5 concurrent", "0/60 per min", "● OK", "nightly"]
    {
        assert!(told.contains(part), "{part}: {told}");
    }
    let seen = sandbox.run(&["watch", "--json"]).json();
    assert_eq!(seen["groups"][0]["name"], "nightly");
    assert_eq!(seen["services"][0]["name"], "api");
}

#[test]
fn doctor_finds_a_healthy_queue_fine_and_tells_of_work_that_nobody_does() {
    let sandbox = Sandbox::new();
    sandbox.run(&["services", "set", "api", "--max-concurrent", "1"]).ok();
    let report = sandbox.run(&["doctor", "--json"]).json();
    let verdict = |report: &serde_json::Value, name: &str| {
        let checks = report["checks"].as_array().unwrap();
        checks.iter().find(|check| check["name"] == name).unwrap()["verdict"].clone()
    };
    for name in
        ["version", "store", "durability", "data", "workers", "work", "leases", "permissions"]
    {
        assert_eq!(verdict(&report, name), "ok", "{name}");
    }
    sandbox.add(&["--", "true"]);
    let report = sandbox.run(&["doctor", "--json"]).json();
    assert_eq!(verdict(&report, "work"), "warning");
}

#[test]
fn doctor_without_a_queue_says_so_and_fails() {
    let sandbox = Sandbox::new();
    let ended = sandbox.run(&["doctor"]);
    assert_eq!(ended.code, 1);
    assert!(
        ended.stdout.contains("BAD") && ended.stdout.contains("there is no queue"),
        "{ended:?}"
    );
}

#[test]
fn a_reader_that_stops_reading_is_no_reason_to_complain() {
    let sandbox = Sandbox::new();
    let lines = "{\"run\": [\"true\"]}\n".repeat(2_000);
    sandbox.run_with(&["add", "--from", "-"], &lines).ok();
    let mut child = sandbox
        .command(&["list", "--limit", "2000", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = [0; 16];
    child.stdout.take().unwrap().read_exact(&mut first).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
    assert!(output.status.success());
}

#[test]
fn completions_are_printed_for_every_shell() {
    let sandbox = Sandbox::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = sandbox.run(&["completions", shell]).ok();
        assert!(script.contains("runcue"), "{shell}");
    }
}
