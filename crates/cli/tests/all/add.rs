//! Putting jobs in the queue.

use serde_json::json;

use crate::sandbox::Sandbox;

#[test]
fn add_prints_only_the_id() {
    let sandbox = Sandbox::new();
    let ended = sandbox.run(&["add", "--", "echo", "hi"]);
    assert_eq!(ended.stderr, "");
    let id = ended.ok();
    assert_eq!(id.trim().len(), 32);
    assert_eq!(id.lines().count(), 1);
}

#[test]
fn a_command_keeps_its_arguments_its_directory_and_its_variables() {
    let sandbox = Sandbox::new();
    let id = sandbox.add(&["--env", "A=b=c", "--", "printf", "%s", "two words", "--json"]);
    let job = sandbox.show(&id);
    assert_eq!(job["task"], "command");
    assert_eq!(job["params"]["run"], json!(["printf", "%s", "two words", "--json"]));
    assert_eq!(job["params"]["env"], json!({"A": "b=c"}));
    let here = sandbox.path().canonicalize().unwrap();
    assert_eq!(job["params"]["cwd"], here.to_str().unwrap());
}

#[test]
fn every_flag_of_add_arrives_at_the_job() {
    let sandbox = Sandbox::new();
    sandbox.run(&["services", "set", "api", "--max-concurrent", "2"]).ok();
    let first = sandbox.add(&["--", "true"]);
    let id = sandbox.add(&[
        "--group",
        "g",
        "--priority",
        "high",
        "--after",
        &first[24..],
        "--service",
        "api=3",
        "--queue",
        "q",
        "--key",
        "k",
        "--idempotency-key",
        "x",
        "--in",
        "5m",
        "--timeout",
        "10m",
        "--max-attempts",
        "7",
        "--label",
        "a",
        "--label",
        "b",
        "--project",
        "p",
        "--expires-in",
        "1h",
        "--dependency-timeout",
        "30",
        "--target",
        "t",
        "--",
        "true",
    ]);
    let job = sandbox.show(&id);
    assert_eq!(job["group"], "g");
    assert_eq!(job["priority"], 100);
    assert_eq!(job["depends_on"], json!([first]));
    assert_eq!(job["services"], json!([{"service": "api", "units": 3}]));
    assert_eq!((&job["queue"], &job["key"]), (&json!("q"), &json!("k")));
    assert_eq!(job["idempotency_key"], "x");
    assert_eq!((&job["timeout"], &job["dependency_timeout"]), (&json!(600.0), &json!(30.0)));
    assert_eq!(job["max_attempts"], 7);
    assert_eq!(job["labels"], json!(["a", "b"]));
    assert_eq!((&job["project"], &job["target"]), (&json!("p"), &json!("t")));
    let created = job["created_at"].as_i64().unwrap();
    let delay = job["run_at"].as_i64().unwrap() - created;
    assert!((299_000..=300_000).contains(&delay), "{delay}");
    let expiry = job["expires_at"].as_i64().unwrap() - created;
    assert!((3_599_000..=3_600_000).contains(&expiry), "{expiry}");
}

#[test]
fn the_same_idempotency_key_answers_the_job_that_is_there() {
    let sandbox = Sandbox::new();
    let first = sandbox.add(&["--idempotency-key", "x", "--", "true"]);
    let again = sandbox.run(&["add", "--json", "--idempotency-key", "x", "--", "true"]).json();
    assert_eq!(again, json!({"id": first, "new": false}));
}

#[test]
fn lines_of_json_are_added_together_with_references_between_them() {
    let sandbox = Sandbox::new();
    let first = "0".repeat(31) + "1";
    let lines = format!(
        "{{\"id\": \"{first}\", \"run\": [\"true\"]}}\n\n\
         {{\"task\": \"t\", \"depends_on\": [\"{first}\"], \"params\": {{\"n\": 1}}}}\n"
    );
    let ids = sandbox.run_with(&["add", "--from", "-"], &lines).ok();
    let ids: Vec<&str> = ids.lines().collect();
    assert_eq!((ids.len(), ids[0]), (2, first.as_str()));
    let second = sandbox.show(ids[1]);
    assert_eq!(second["depends_on"], json!([first]));
    assert_eq!(second["params"], json!({"n": 1}));
    assert_eq!(second["prerequisites"][0]["state"], "queued");
}

#[test]
fn one_bad_line_refuses_them_all_and_is_named() {
    let sandbox = Sandbox::new();
    let lines = "{\"run\": [\"true\"]}\n{\"run\": [\"true\"], \"grup\": \"g\"}\n";
    let told = sandbox.run_with(&["add", "--from", "-"], lines).refused(2);
    assert!(told.contains("line 2: there is no field grup"), "{told}");
    assert!(told.contains("help: did you mean group?"), "{told}");
    let lines = "{\"run\": [\"true\"]}\n{\"task\": \"t\", \"services\": [\"nope\"]}\n";
    sandbox.run_with(&["add", "--from", "-"], lines).refused(1);
    assert_eq!(sandbox.run(&["list", "--json"]).json()["jobs"], json!([]));
}

#[test]
fn a_misspelt_service_or_task_is_answered_with_the_nearest() {
    let sandbox = Sandbox::new();
    sandbox.run(&["services", "set", "openai", "--rate", "60/min"]).ok();
    let told = sandbox.run(&["add", "--service", "opnai", "--", "true"]).refused(2);
    assert!(told.contains("help: did you mean openai?"), "{told}");
    let told = sandbox.run(&["add", "--task", "resize"]).refused(2);
    assert!(told.contains("there is no task resize"), "{told}");
}

#[test]
fn a_full_queue_refuses_or_drops_as_its_rule_says() {
    let sandbox = Sandbox::new();
    sandbox.run(&["queues", "set", "default", "--max-queued", "1"]).ok();
    let first = sandbox.add(&["--", "true"]);
    let told = sandbox.run(&["add", "--", "true"]).refused(1);
    assert!(told.contains("queue default is full: 1 of 1"), "{told}");
    assert!(told.contains("runcue queues set default --max-queued 2"), "{told}");
    sandbox.run(&["queues", "set", "default", "--on-full", "drop_oldest"]).ok();
    sandbox.add(&["--", "true"]);
    assert_eq!(sandbox.state(&first), "cancelled");
}
