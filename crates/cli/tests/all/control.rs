//! Changing what is there: retry, cancel, pause, resume, limits and caps.

use serde_json::json;

use crate::sandbox::Sandbox;

#[test]
fn a_cancelled_job_can_be_sent_round_again() {
    let sandbox = Sandbox::new();
    let id = sandbox.add(&["--", "true"]);
    assert_eq!(sandbox.run(&["cancel", &id]).ok(), "cancelled 1 job\n");
    assert_eq!(sandbox.state(&id), "cancelled");
    assert_eq!(sandbox.run(&["retry", &id[24..]]).ok(), "retrying 1 job\n");
    assert_eq!(sandbox.state(&id), "queued");
}

#[test]
fn a_dry_run_says_what_would_happen_and_changes_nothing() {
    let sandbox = Sandbox::new();
    let id = sandbox.add(&["--group", "g", "--", "true"]);
    sandbox.add(&["--", "true"]);
    let told = sandbox.run(&["cancel", "--group", "g", "--dry-run"]).ok();
    assert!(told.starts_with("would cancel 1 job\n"), "{told}");
    assert!(told.contains(&id[24..]), "{told}");
    assert_eq!(sandbox.state(&id), "queued");
    let told = sandbox.run(&["cancel", "--group", "g", "--dry-run", "--json"]).json();
    assert_eq!(told, json!({"count": 1, "dry_run": true}));
}

#[test]
fn a_choice_of_nothing_is_refused_instead_of_meaning_everything() {
    let sandbox = Sandbox::new();
    let id = sandbox.add(&["--", "true"]);
    sandbox.run(&["cancel"]).refused(2);
    sandbox.run(&["retry"]).refused(2);
    assert_eq!(sandbox.state(&id), "queued");
}

#[test]
fn dependents_of_a_cancelled_job_fail_or_are_cancelled_with_it() {
    let sandbox = Sandbox::new();
    for (cascade, state) in [(false, "failed"), (true, "cancelled")] {
        let first = sandbox.add(&["--", "true"]);
        let second = sandbox.add(&["--after", &first, "--", "true"]);
        let mut words = vec!["cancel", first.as_str()];
        words.extend(cascade.then_some("--cascade"));
        sandbox.run(&words).ok();
        assert_eq!(sandbox.state(&second), state);
    }
}

#[test]
fn bulk_retry_takes_what_failed_and_leaves_what_was_cancelled() {
    let sandbox = Sandbox::new();
    let first = sandbox.add(&["--group", "g", "--", "true"]);
    let second = sandbox.add(&["--group", "g", "--after", &first, "--", "true"]);
    sandbox.run(&["cancel", &first]).ok();
    assert_eq!(sandbox.state(&second), "failed");
    let told = sandbox.run(&["retry", "--failed", "--dry-run", "--json"]).json();
    assert_eq!(told["count"], 1);
    sandbox.run(&["retry", "--group", "g", "--cancelled"]).ok();
    assert_eq!([sandbox.state(&first), sandbox.state(&second)], ["queued", "queued"]);
}

#[test]
fn a_group_is_paused_and_resumed_and_why_names_it() {
    let sandbox = Sandbox::new();
    let id = sandbox.add(&["--group", "night ly", "--", "true"]);
    assert_eq!(sandbox.run(&["pause", "night ly"]).ok(), "group night ly is paused\n");
    assert_eq!(sandbox.run(&["pause", "night ly"]).ok(), "group night ly is already paused\n");
    let why = sandbox.run(&["why", &id, "--json"]).json();
    assert_eq!(why["reasons"][0]["reason"], "group_paused");
    let groups = sandbox.run(&["groups", "--json"]).json();
    assert_eq!(groups["groups"][0]["paused"], true);
    assert_eq!(sandbox.run(&["resume", "night ly"]).ok(), "group night ly is running\n");
}

#[test]
fn an_unknown_group_is_paused_only_on_request() {
    let sandbox = Sandbox::new();
    sandbox.add(&["--group", "nightly", "--", "true"]);
    let told = sandbox.run(&["pause", "nigthly"]).refused(2);
    assert!(told.contains("did you mean nightly?"), "{told}");
    sandbox.run(&["pause", "weekly", "--anyway"]).ok();
    let id = sandbox.add(&["--group", "weekly", "--", "true"]);
    let why = sandbox.run(&["why", &id, "--json"]).json();
    assert_eq!(why["reasons"][0]["reason"], "group_paused");
}

#[test]
fn limits_of_a_service_change_one_by_one_while_the_rest_stays() {
    let sandbox = Sandbox::new();
    let set = |words: &[&str]| {
        let words: Vec<&str> =
            ["services", "set", "api", "--json"].iter().chain(words).copied().collect();
        sandbox.run(&words).json()["services"][0].clone()
    };
    let service = set(&["--rate", "60/min", "--max-concurrent", "5", "--circuit-threshold", "4"]);
    assert_eq!(service["rates"], json!([{"rate_limit": 60, "rate_window": 60.0, "used": 0}]));
    assert_eq!((&service["max_concurrent"], &service["status"]), (&json!(5), &json!("ok")));
    let service = set(&["--pause", "--circuit-timeout", "5m"]);
    assert_eq!((&service["max_concurrent"], &service["status"]), (&json!(5), &json!("paused")));
    assert_eq!(
        (&service["circuit_threshold"], &service["circuit_timeout"]),
        (&json!(4), &json!(300.0))
    );
    let service = set(&["--resume", "--max-concurrent", "none", "--rate", "none"]);
    assert_eq!((&service["max_concurrent"], &service["rates"]), (&json!(null), &json!([])));
    sandbox.run(&["services", "set", "api", "--max-concurrent", "0"]).refused(2);
}

#[test]
fn a_paused_service_is_what_a_job_waits_for() {
    let sandbox = Sandbox::new();
    sandbox.run(&["services", "set", "api", "--pause"]).ok();
    let id = sandbox.add(&["--service", "api", "--", "true"]);
    let why = sandbox.run(&["why", &id, "--json"]).json();
    let reasons = why["reasons"].as_array().unwrap();
    assert!(reasons.iter().any(|r| r["service"] == "api" && r["block"] == "paused"), "{why}");
    let told = sandbox.run(&["why", &id]).ok();
    assert!(told.contains("runcue services set api --resume"), "{told}");
}
