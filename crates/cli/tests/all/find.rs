//! Finding jobs: shortened ids, `@last`, filters and pages.

use serde_json::{Value, json};

use crate::sandbox::Sandbox;

#[test]
fn a_job_is_found_by_its_end_by_its_beginning_and_as_the_last() {
    let sandbox = Sandbox::new();
    let id = sandbox.add(&["--", "true"]);
    for name in [&id[24..], &id[28..], &id[..16], "@last", &id.to_uppercase()] {
        assert_eq!(sandbox.show(name)["id"], id.as_str(), "{name}");
    }
}

#[test]
fn an_ambiguous_id_lists_what_it_could_mean() {
    let sandbox = Sandbox::new();
    let ids: Vec<String> = (1..=2).map(|n| format!("abcd{n:028}")).collect();
    let lines: String =
        ids.iter().map(|id| format!("{{\"id\": \"{id}\", \"run\": [\"true\"]}}\n")).collect();
    sandbox.run_with(&["add", "--from", "-"], &lines).ok();
    let told = sandbox.run(&["show", "abcd"]).refused(2);
    assert!(ids.iter().all(|id| told.contains(id)), "{told}");
    assert!(told.contains("help: give more digits"), "{told}");
    assert_eq!(sandbox.show("0002")["id"], ids[1].as_str());
}

#[test]
fn a_job_is_found_by_its_beginning_however_many_are_newer() {
    let sandbox = Sandbox::new();
    let old = format!("3fa9{:028}", 7);
    let line = |id: &str| format!("{{\"id\": \"{id}\", \"run\": [\"true\"]}}\n");
    sandbox.run_with(&["add", "--from", "-"], &line(&old)).ok();
    let newer = runcue_cli::job_ref::SEARCHED + 1;
    let lines: String = (0..newer).map(|n| line(&format!("abcd{n:028}"))).collect();
    sandbox.run_with(&["add", "--from", "-"], &lines).ok();
    assert_eq!(sandbox.show("3fa9")["id"], old.as_str());
    let told = sandbox.run(&["show", "abcd"]).refused(2);
    assert!(
        told.contains("abcd means many jobs") && told.contains(&format!("abcd{:028}", 0)),
        "{told}"
    );
    sandbox.run(&["show", "3faa"]).refused(1);
}

#[test]
fn a_job_that_is_not_there_is_not_found_and_a_bad_name_is_wrong_usage() {
    let sandbox = Sandbox::new();
    sandbox.add(&["--", "true"]);
    sandbox.run(&["show", &"f".repeat(32)]).refused(1);
    sandbox.run(&["show", "ffff"]).refused(1);
    sandbox.run(&["show", "xyz!"]).refused(2);
    sandbox.run(&["show", "abc"]).refused(2);
}

#[test]
fn pages_follow_each_other_without_gap_or_overlap() {
    let sandbox = Sandbox::new();
    let lines = "{\"run\": [\"true\"]}\n".repeat(5);
    let ids = sandbox.run_with(&["add", "--from", "-"], &lines).ok();
    let mut expected: Vec<&str> = ids.lines().collect();
    expected.reverse();
    let mut seen: Vec<String> = Vec::new();
    let mut before: Option<String> = None;
    loop {
        let mut words = vec!["list", "--json", "--limit", "2"];
        if let Some(before) = &before {
            words.extend(["--before", before]);
        }
        let page = sandbox.run(&words).json();
        let jobs = page["jobs"].as_array().unwrap();
        seen.extend(jobs.iter().map(|job| job["id"].as_str().unwrap().to_owned()));
        match &page["next_before"] {
            Value::String(next) => before = Some(next.clone()),
            _ => break,
        }
    }
    assert_eq!(seen, expected);
}

#[test]
fn a_list_is_filtered_by_state_group_task_and_queue() {
    let sandbox = Sandbox::new();
    let a = sandbox.add(&["--group", "g", "--", "true"]);
    let b = sandbox.add(&["--queue", "q", "--label", "l", "--", "true"]);
    sandbox.run(&["cancel", &a]).ok();
    let ids = |words: &[&str]| -> Vec<String> {
        let words: Vec<&str> = ["list", "--json"].iter().chain(words).copied().collect();
        let page = sandbox.run(&words).json();
        let jobs = page["jobs"].as_array().unwrap().clone();
        jobs.iter().map(|job| job["id"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(ids(&["--state", "cancelled,failed"]), [a.as_str()]);
    assert_eq!(ids(&["--group", "g"]), [a.as_str()]);
    assert_eq!(ids(&["--queue", "q"]), [b.as_str()]);
    assert_eq!(ids(&["--label", "l"]), [b.as_str()]);
    assert_eq!(ids(&["--task", "command", "--state", "queued"]), [b.as_str()]);
    assert_eq!(ids(&["--task", "other"]), Vec::<String>::new());
}

#[test]
fn a_misspelt_state_or_group_is_answered_with_the_nearest() {
    let sandbox = Sandbox::new();
    sandbox.add(&["--group", "nightly", "--", "true"]);
    let told = sandbox.run(&["list", "--state", "runing"]).refused(2);
    assert!(told.contains("did you mean running?"), "{told}");
    let told = sandbox.run(&["list", "--group", "nigthly"]).refused(2);
    assert!(told.contains("help: did you mean nightly?"), "{told}");
}

#[test]
fn completion_offers_ids_groups_and_services_that_fit_what_was_typed() {
    let sandbox = Sandbox::new();
    let id = sandbox.add(&["--group", "nightly", "--", "true"]);
    assert_eq!(sandbox.run(&["__complete", "ids", &id[24..28]]).ok().trim(), &id[24..]);
    assert_eq!(sandbox.run(&["__complete", "ids", &id[..20]]).ok().trim(), id);
    assert_eq!(sandbox.run(&["__complete", "groups", "ni"]).ok().trim(), "nightly");
    assert_eq!(sandbox.run(&["__complete", "groups", "x"]).ok(), "");
}

#[test]
fn completion_without_a_queue_offers_nothing_and_complains_of_nothing() {
    let sandbox = Sandbox::new();
    let ended = sandbox.run(&["__complete", "ids"]);
    assert_eq!((ended.code, ended.stdout.as_str(), ended.stderr.as_str()), (0, "", ""));
    assert!(!sandbox.path().join(".runcue").exists());
}

#[test]
fn why_says_what_a_job_waits_for_and_until_when() {
    let sandbox = Sandbox::new();
    let first = sandbox.add(&["--in", "1h", "--", "true"]);
    let second = sandbox.add(&["--after", &first, "--", "true"]);
    let told = sandbox.run(&["why", &first]).ok();
    assert!(told.contains("run_at has not come, in 1 h") || told.contains("in 59 min"), "{told}");
    let why = sandbox.run(&["why", &second, "--json"]).json();
    assert_eq!(why["reasons"][0]["reason"], "prerequisites");
    assert_eq!(why["reasons"][0]["jobs"], json!([first]));
}
