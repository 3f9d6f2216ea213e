//! The JSON shapes, as golden files. A change here is a change for every script that reads them.

use std::io::{BufRead, BufReader};
use std::process::Child;

use serde_json::Value;

use crate::sandbox::Sandbox;

/// Hides what differs from run to run: ids, instants, paths and versions.
fn redact(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(redact),
        Value::Object(map) => {
            for (name, value) in map.iter_mut() {
                let is_time =
                    name.ends_with("_at") || matches!(name.as_str(), "at" | "ts" | "until");
                let is_id = matches!(name.as_str(), "id" | "job" | "worker" | "leased_by");
                match value {
                    Value::Number(_) if is_time => *value = "[time]".into(),
                    Value::String(_) if is_id => *value = "[id]".into(),
                    Value::Number(_) if name == "took" => *value = "[span]".into(),
                    Value::Number(_) if name == "pid" => *value = "[pid]".into(),
                    Value::String(_) if name == "cwd" => *value = "[path]".into(),
                    Value::String(_) if name == "host" => *value = "[host]".into(),
                    Value::String(_) if matches!(name.as_str(), "token" | "secret") => {
                        *value = "[secret]".into();
                    }
                    Value::String(_) if name == "checksum" => *value = "[checksum]".into(),
                    Value::Array(ids) if matches!(name.as_str(), "depends_on" | "jobs") => {
                        for id in ids {
                            if id.is_string() {
                                *id = "[id]".into();
                            } else {
                                redact(id);
                            }
                        }
                    }
                    _ => redact(value),
                }
            }
        }
        _ => {}
    }
}

fn golden(mut value: Value) -> String {
    redact(&mut value);
    serde_json::to_string_pretty(&value).unwrap()
}

fn sandbox() -> (Sandbox, String) {
    let sandbox = Sandbox::new();
    let words = ["--rate", "60/min", "--max-concurrent", "5", "--circuit-threshold", "5"];
    let set: Vec<&str> = ["services", "set", "api"].iter().chain(&words).copied().collect();
    sandbox.run(&set).ok();
    let first = sandbox.add(&["--group", "g", "--in", "1h", "--", "echo", "hi"]);
    sandbox.add(&["--after", &first, "--service", "api", "--timeout", "5m", "--", "true"]);
    (sandbox, first)
}

#[test]
fn a_job_has_its_documented_shape() {
    let (sandbox, _) = sandbox();
    insta::assert_snapshot!("job", golden(sandbox.run(&["show", "@last", "--json"]).json()));
}

#[test]
fn a_list_has_its_documented_shape() {
    let (sandbox, _) = sandbox();
    let page = sandbox.run(&["list", "--limit", "1", "--json"]).json();
    let mut names: Vec<&str> = page.as_object().unwrap().keys().map(String::as_str).collect();
    names.sort_unstable();
    assert_eq!(names, ["jobs", "next_before"]);
    assert_eq!(page["jobs"].as_array().unwrap().len(), 1);
}

#[test]
fn status_groups_queues_and_services_have_their_documented_shapes() {
    let (sandbox, _) = sandbox();
    for verb in ["status", "groups", "queues", "services"] {
        insta::assert_snapshot!(verb, golden(sandbox.run(&[verb, "--json"]).json()));
    }
}

#[test]
fn schedules_have_their_documented_shape() {
    let sandbox = Sandbox::new();
    let words = ["--cron", "0 3 * * *", "--zone", "Europe/Berlin", "--missed", "once"];
    let add: Vec<&str> = ["schedule", "add", "nightly"].iter().chain(&words).copied().collect();
    let command = ["--overlap", "skip", "--group", "g", "--", "echo", "hi"];
    let added = sandbox.run(&[&add[..], &command, &[]].concat()).ok();
    assert!(added.contains("nightly"), "{added}");
    let mut shown = sandbox.run(&["schedules", "--json"]).json();
    let next = shown["schedules"][0]["next_at"].as_array().unwrap().clone();
    assert_eq!(next.len(), 3, "{shown}");
    for at in &next {
        // Three in the morning in Berlin is one or two in UTC.
        let hour = at.as_i64().unwrap() / 3_600_000 % 24;
        assert!(hour == 1 || hour == 2, "{shown}");
    }
    shown["schedules"][0]["next_at"] = "[times]".into();
    insta::assert_snapshot!("schedules", golden(shown));
}

#[test]
fn reasons_have_their_documented_shape() {
    let (sandbox, first) = sandbox();
    insta::assert_snapshot!("why_later", golden(sandbox.run(&["why", &first, "--json"]).json()));
    insta::assert_snapshot!("why_after", golden(sandbox.run(&["why", "@last", "--json"]).json()));
}

#[test]
fn events_have_their_documented_shape() {
    let (sandbox, first) = sandbox();
    sandbox.run(&["cancel", &first]).ok();
    let lines = sandbox.run(&["events", "--json"]).ok();
    let events = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    insta::assert_snapshot!("events", golden(Value::Array(events)));
}

/// The documents of a stream.
fn stream(text: &str) -> Value {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect::<Vec<Value>>().into()
}

#[test]
fn what_is_added_has_its_documented_shape() {
    let sandbox = Sandbox::new();
    let one = sandbox.run(&["add", "--json", "--", "true"]).json();
    let lines = "{\"task\": \"a\"}\n{\"run\": [\"true\"]}\n";
    let many = sandbox.run_with(&["add", "--from", "-", "--json"], lines).json();
    insta::assert_snapshot!("add", golden(Value::Array(vec![one, many])));
}

#[test]
fn a_whole_list_has_its_documented_shape() {
    let (sandbox, _) = sandbox();
    insta::assert_snapshot!("list", golden(sandbox.run(&["list", "--json"]).json()));
}

#[test]
fn what_is_done_to_jobs_and_groups_has_its_documented_shape() {
    let (sandbox, first) = sandbox();
    let steps: [&[&str]; 6] = [
        &["cancel", &first, "--dry-run"],
        &["cancel", &first],
        &["retry", &first],
        &["pause", "g"],
        &["pause", "g"],
        &["resume", "g"],
    ];
    let told = |words: &&[&str]| {
        let said = sandbox.run(&[words, &["--json"][..]].concat()).json();
        serde_json::json!({"words": words.first(), "document": said})
    };
    let mut told = Value::Array(steps.iter().map(told).collect());
    redact(&mut told);
    insta::assert_snapshot!("actions", golden(told));
}

#[test]
fn what_a_worker_says_and_a_job_wrote_has_its_documented_shape() {
    let sandbox = Sandbox::new();
    let id = sandbox.add(&["--", "echo", "out"]);
    let worked = sandbox.run(&["work", "--drain", "--json"]).ok();
    insta::assert_snapshot!("work", golden(stream(&worked)));
    let logs = sandbox.run(&["logs", &id, "--json"]).ok();
    insta::assert_snapshot!("logs", golden(stream(&logs)));
}

#[test]
fn a_run_and_its_rehearsal_have_their_documented_shapes() {
    let sandbox = Sandbox::new();
    let file =
        "name: one\ntasks:\n  note: { run: 'echo {id}' }\njobs:\n  - { id: a, task: note }\n";
    sandbox.write("jobs.yaml", file);
    let rehearsal = sandbox.run(&["run", "jobs.yaml", "--dry-run", "--json"]).json();
    insta::assert_snapshot!("run_dry_run", golden(rehearsal));
    let ran = sandbox.run(&["run", "jobs.yaml", "--json"]).ok();
    insta::assert_snapshot!("run", golden(stream(&ran)));
}

#[test]
fn what_the_screen_shows_has_its_documented_shape() {
    let (sandbox, _) = sandbox();
    insta::assert_snapshot!("watch", golden(sandbox.run(&["watch", "--json"]).json()));
}

#[test]
fn every_check_of_the_doctor_has_its_documented_shape() {
    let sandbox = Sandbox::new();
    sandbox.add(&["--", "true"]);
    let mut found = sandbox.run(&["doctor", "--json"]).json();
    for check in found["checks"].as_array_mut().unwrap() {
        // What it found is in words, about this machine.
        let verdict = check["verdict"].as_str().unwrap();
        assert!(matches!(verdict, "ok" | "warning" | "bad"), "{verdict}");
        assert!(
            check["detail"].is_string() && (check["help"].is_string() || check["help"].is_null())
        );
        for said in ["verdict", "detail", "help"] {
            check[said] = "[words]".into();
        }
    }
    insta::assert_snapshot!("doctor", golden(found));
}

#[test]
fn copies_of_a_queue_have_their_documented_shapes() {
    let (sandbox, _) = sandbox();
    let from = "sqlite:.runcue/queue.db";
    for (name, words) in [
        ("move", &["move", from, "sqlite:moved.db"][..]),
        ("backup", &["backup", "copy.db"]),
        ("migrate", &["migrate"]),
    ] {
        insta::assert_snapshot!(name, golden(sandbox.run(&[words, &["--json"]].concat()).json()));
    }
}

#[test]
fn tokens_and_webhooks_have_their_documented_shapes() {
    let sandbox = Sandbox::new();
    let url = "https://example.org/hook";
    let steps: [&[&str]; 7] = [
        &["token", "create", "ci", "--role", "submit"],
        &["token", "list"],
        &["token", "revoke", "ci"],
        &["webhook", "add", url],
        &["webhook", "add", url, "--events", "failed", "--task", "t", "--group", "g"],
        &["webhook", "list"],
        &["webhook", "remove"],
    ];
    let mut told = Vec::new();
    for words in steps {
        let mut words = words.to_vec();
        let listed = sandbox.run(&["webhook", "list", "--json"]);
        let listed: Value = serde_json::from_str(&listed.stdout).unwrap_or_default();
        if words.last() == Some(&"remove") {
            words.push(listed["webhooks"][0]["id"].as_str().unwrap());
        }
        let said = sandbox.run(&[&words, &["--json"][..]].concat()).json();
        told.push(serde_json::json!({"verb": words[..2].join(" "), "document": said}));
    }
    insta::assert_snapshot!("tokens_and_webhooks", golden(Value::Array(told)));
}

#[test]
fn a_hub_says_where_it_listens_in_its_documented_shape() {
    let sandbox = Sandbox::new();
    let mut hub = Running(sandbox.start(&["serve", "--json", "--listen", "127.0.0.1:0"]));
    let mut line = String::new();
    BufReader::new(hub.0.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let mut told: Value = serde_json::from_str(&line).unwrap();
    let url = told["url"].as_str().unwrap();
    assert!(url.starts_with("http://127.0.0.1:"), "{url}");
    told["url"] = "[url]".into();
    insta::assert_snapshot!("serve", golden(told));
}

/// A process that is killed when it is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
