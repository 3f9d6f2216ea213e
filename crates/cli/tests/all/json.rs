//! The JSON shapes, as golden files. A change here is a change for every script that reads them.

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
                    Value::String(_) if name == "cwd" => *value = "[path]".into(),
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
