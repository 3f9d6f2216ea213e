//! Every verb on every store that lasts, on a disk or on a server, and what is said of a store that cannot be opened.

use serde_json::{Value, json};

use crate::sandbox::Sandbox;

/// One of everything, with the same answers wherever the queue is kept.
fn every_verb(sandbox: &Sandbox, shown: &str) {
    sandbox.run(&["services", "set", "api", "--max-concurrent", "2"]).ok();
    sandbox.run(&["queues", "set", "default", "--max-queued", "100"]).ok();
    let done = sandbox.add(&["--service", "api", "--group", "g", "--", "sh", "-c", "echo hi"]);
    let late = sandbox.add(&["--in", "1h", "--after", &done, "--", "true"]);
    let bad = sandbox.add(&["--max-attempts", "1", "--", "false"]);
    let add = ["schedule", "add", "tick", "--cron", "0 3 * * *", "--", "true"];
    sandbox.run(&add).ok();
    let why = sandbox.run(&["why", &late, "--json"]).json();
    assert_eq!(why["reasons"][0]["reason"], "prerequisites");
    assert_eq!(sandbox.run(&["pause", "g"]).ok(), "group g is paused\n");
    assert_eq!(sandbox.run(&["resume", "g"]).ok(), "group g is running\n");
    sandbox.run(&["cancel", &late]).ok();
    let ended = sandbox.run(&["work", "--drain"]);
    assert_eq!(ended.code, 1, "{ended:?}");
    let states = [&done, &late, &bad].map(|id| sandbox.state(id));
    assert_eq!(states, ["completed", "cancelled", "quarantined"]);
    assert_eq!(sandbox.run(&["logs", &done]).ok(), "hi\n");
    assert_eq!(sandbox.run(&["retry", &bad]).ok(), "retrying 1 job\n");
    let status = sandbox.run(&["status", "--json"]).json();
    assert_eq!(status["counts"]["queued"], 1);
    assert!(status["store"].as_str().unwrap().starts_with(shown), "{status}");
    let list = sandbox.run(&["list", "--state", "completed,cancelled", "--json"]).json();
    assert_eq!(list["jobs"].as_array().unwrap().len(), 2);
    let groups = sandbox.run(&["groups", "--json"]).json();
    assert_eq!(groups["groups"].as_array().unwrap().len(), 2);
    let schedules = sandbox.run(&["schedules", "--json"]).json();
    assert_eq!(schedules["schedules"][0]["name"], "tick");
    let events = sandbox.run(&["events", "--after", "0", "--json"]).ok();
    let numbers =
        events.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["seq"].clone());
    assert!(numbers.eq((1..=events.lines().count()).map(|n| json!(n))));
    let watched = sandbox.run(&["watch", "--json"]).json();
    assert_eq!(watched["services"][0]["name"], "api");
    let doctor = sandbox.run(&["doctor", "--json"]).json();
    let checks = doctor["checks"].as_array().unwrap();
    assert!(checks.iter().all(|check| check["verdict"] != "bad"), "{doctor}");
    let words = sandbox.run(&["__complete", "services", ""]).ok();
    assert!(words.is_empty() || words == "api\n", "within its time, or not at all: {words}");
    sandbox.write(
        "jobs.yaml",
        "jobs:\n  - {id: a, run: [echo, a]}\n  - {id: b, run: [echo, b], depends_on: a}\n",
    );
    sandbox.run(&["run", "jobs.yaml"]).ok();
    let summary = sandbox.run(&["run", "jobs.yaml", "--dry-run", "--json"]).json();
    assert_eq!(summary["done"], 2, "{summary}");
}

#[test]
fn every_verb_works_on_sqlite() {
    every_verb(&Sandbox::on("sqlite:place/queue.db?durability=full"), "sqlite:place/queue.db");
}

#[cfg(feature = "lmdb")]
#[test]
fn every_verb_works_on_lmdb() {
    every_verb(&Sandbox::on("lmdb:place/queue?durability=full&size=64MiB"), "lmdb:place/queue");
}

#[cfg(feature = "postgres")]
#[test]
fn every_verb_works_on_postgres() {
    let database = runcue_test_servers::postgres().unwrap();
    every_verb(&Sandbox::on(&database.url()), "postgres://");
}

/// Connections are lent for one transaction at a time, so nothing can be listened to.
#[cfg(feature = "postgres")]
#[test]
fn every_verb_works_on_postgres_behind_a_pooler() {
    let server = runcue_test_servers::Postgres::settings().start().unwrap();
    let pooler = runcue_test_servers::Pooler::to(&server).unwrap();
    let url = format!("{}?pooler=on", pooler.url(&server.url()));
    every_verb(&Sandbox::on(&url), "postgres://");
}

#[cfg(feature = "redis")]
#[test]
fn every_verb_works_on_redis() {
    let prefix = runcue_test_servers::redis().unwrap();
    every_verb(&Sandbox::on(&prefix.url()), "redis://");
}

#[cfg(feature = "lmdb")]
#[test]
fn several_processes_work_on_one_lmdb_directory_and_nested_commands_reach_it() {
    let sandbox = Sandbox::on("lmdb:queue");
    let binary = env!("CARGO_BIN_EXE_runcue");
    let script = "\"$0\" add --target $RUNCUE_JOB_ID -- true";
    for _ in 0..12 {
        sandbox.add(&["--cwd", "/", "--", "sh", "-c", script, binary]);
    }
    let workers: Vec<_> =
        (0..3).map(|_| sandbox.start(&["work", "--drain", "--jobs", "2"])).collect();
    for worker in workers {
        let ended = worker.wait_with_output().unwrap();
        assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    }
    sandbox.run(&["work", "--drain"]).ok();
    let status = sandbox.run(&["status", "--json"]).json();
    assert_eq!(status["counts"]["completed"], 24, "{status}");
}

#[cfg(feature = "lmdb")]
#[test]
fn a_relative_lmdb_store_of_a_run_file_stands_beside_the_file() {
    let sandbox = Sandbox::new();
    std::fs::create_dir(sandbox.path().join("below")).unwrap();
    sandbox.write("below/jobs.yaml", "store: lmdb:q\njobs:\n  - {id: a, run: [echo, a]}\n");
    sandbox.run(&["run", "below/jobs.yaml"]).ok();
    assert!(sandbox.path().join("below/q/data.mdb").exists());
}

#[test]
fn a_run_in_memory_leaves_nothing_behind() {
    let sandbox = Sandbox::on("memory:");
    sandbox.write("jobs.yaml", "jobs:\n  - {id: a, run: [echo, a]}\n");
    sandbox.run(&["run", "jobs.yaml"]).ok();
    assert!(!sandbox.path().join(".runcue").exists());
}

#[test]
fn a_verb_that_only_looks_makes_no_queue() {
    for store in [
        "sqlite:q/queue.db",
        #[cfg(feature = "lmdb")]
        "lmdb:q",
    ] {
        let sandbox = Sandbox::on(store);
        let told = sandbox.run(&["status"]).refused(1);
        assert!(told.contains("there is no queue at q"), "{told}");
        assert!(!sandbox.path().join("q").exists());
    }
}

#[test]
fn a_store_that_is_no_store_is_refused_with_those_that_are() {
    let sandbox = Sandbox::new();
    let told = sandbox.run(&["--store", "lmbd:q", "status"]).refused(2);
    assert!(told.contains("did you mean lmdb:?") && told.contains("sqlite:"), "{told}");
}
