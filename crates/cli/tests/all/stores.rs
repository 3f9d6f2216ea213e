//! Every verb on every store that lasts, on a disk or on a server, and what is said of a store that cannot be opened.

use std::cell::RefCell;
use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::sandbox::{Ended, Sandbox};

/// Verbs that are not run on every store, with the reason.
const LEFT_OUT: [(&str, &str); 5] = [
    ("up", "goes on until it is stopped; hub/up.rs"),
    ("serve", "goes on until it is stopped; hub/"),
    ("worker", "knows a hub and no store; hub/agents.rs"),
    ("completions", "asks no store; look.rs"),
    ("help", "asks no store; trouble.rs"),
];

/// A sandbox that notes which verbs were run in it.
struct Noted<'a> {
    sandbox: &'a Sandbox,
    verbs: RefCell<BTreeSet<String>>,
}

impl Noted<'_> {
    fn run(&self, words: &[&str]) -> Ended {
        self.verbs.borrow_mut().insert(words[0].to_owned());
        self.sandbox.run(words)
    }

    fn add(&self, words: &[&str]) -> String {
        self.run(&[&["add"], words].concat()).ok().trim().to_owned()
    }

    fn state(&self, id: &str) -> String {
        self.run(&["show", id, "--json"]).json()["state"].as_str().unwrap().to_owned()
    }

    /// The verbs that the binary knows have all been run, but for those that are left out.
    fn is_complete(&self) {
        let help = self.sandbox.run(&["help"]).ok();
        let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1);
        let lines = listed.take_while(|line| !line.is_empty());
        // What begins further in goes on with the line before.
        let names = lines.filter(|line| !line.starts_with("   "));
        let known: BTreeSet<&str> =
            names.map(|line| line.split_whitespace().next().unwrap()).collect();
        assert!(known.contains("add") && known.contains("doctor"), "{help}");
        let run = self.verbs.borrow();
        for verb in known {
            let reason = LEFT_OUT.iter().find(|(name, _)| *name == verb);
            assert_ne!(
                run.contains(verb),
                reason.is_some(),
                "{verb}: run, or left out: {reason:?}"
            );
        }
    }
}

/// One of everything, with the same answers wherever the queue is kept.
fn every_verb(sandbox: &Sandbox, shown: &str) {
    let noted = Noted { sandbox, verbs: RefCell::default() };
    work_and_look(&noted, shown);
    define_and_choose(&noted);
    keep_and_copy(&noted);
    noted.is_complete();
}

fn work_and_look(noted: &Noted<'_>, shown: &str) {
    noted.run(&["services", "set", "api", "--max-concurrent", "2"]).ok();
    noted.run(&["queues", "set", "default", "--max-queued", "100"]).ok();
    let done = noted.add(&["--service", "api", "--group", "g", "--", "sh", "-c", "echo hi"]);
    let late = noted.add(&["--in", "1h", "--after", &done, "--", "true"]);
    let bad = noted.add(&["--max-attempts", "1", "--", "false"]);
    let add = ["schedule", "add", "tick", "--cron", "0 3 * * *", "--", "true"];
    noted.run(&add).ok();
    let why = noted.run(&["why", &late, "--json"]).json();
    assert_eq!(why["reasons"][0]["reason"], "prerequisites");
    assert_eq!(noted.run(&["pause", "g"]).ok(), "group g is paused\n");
    assert_eq!(noted.run(&["resume", "g"]).ok(), "group g is running\n");
    noted.run(&["cancel", &late]).ok();
    let ended = noted.run(&["work", "--drain"]);
    assert_eq!(ended.code, 1, "{ended:?}");
    let states = [&done, &late, &bad].map(|id| noted.state(id));
    assert_eq!(states, ["completed", "cancelled", "quarantined"]);
    assert_eq!(noted.run(&["logs", &done]).ok(), "hi\n");
    assert_eq!(noted.run(&["retry", &bad]).ok(), "retrying 1 job\n");
    let status = noted.run(&["status", "--json"]).json();
    assert_eq!(status["counts"]["queued"], 1);
    assert!(status["store"].as_str().unwrap().starts_with(shown), "{status}");
    let list = noted.run(&["list", "--state", "completed,cancelled", "--json"]).json();
    assert_eq!(list["jobs"].as_array().unwrap().len(), 2);
    let groups = noted.run(&["groups", "--json"]).json();
    assert_eq!(groups["groups"].as_array().unwrap().len(), 2);
    let schedules = noted.run(&["schedules", "--json"]).json();
    assert_eq!(schedules["schedules"][0]["name"], "tick");
    let events = noted.run(&["events", "--after", "0", "--json"]).ok();
    let numbers =
        events.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["seq"].clone());
    assert!(numbers.eq((1..=events.lines().count()).map(|n| json!(n))));
    let watched = noted.run(&["watch", "--json"]).json();
    assert_eq!(watched["services"][0]["name"], "api");
    let doctor = noted.run(&["doctor", "--json"]).json();
    let checks = doctor["checks"].as_array().unwrap();
    assert!(checks.iter().all(|check| check["verdict"] != "bad"), "{doctor}");
    let words = noted.run(&["__complete", "services", ""]).ok();
    assert!(words.is_empty() || words == "api\n", "within its time, or not at all: {words}");
    noted.sandbox.write(
        "jobs.yaml",
        "jobs:\n  - {id: a, run: [echo, a]}\n  - {id: b, run: [echo, b], depends_on: a}\n",
    );
    noted.run(&["run", "jobs.yaml"]).ok();
    let summary = noted.run(&["run", "jobs.yaml", "--dry-run", "--json"]).json();
    assert_eq!(summary["done"], 2, "{summary}");
}

/// Pauses, caps and schedules, and jobs that are chosen by what they have in common.
fn define_and_choose(noted: &Noted<'_>) {
    let named = |verb: &str, list: &str| noted.run(&[verb, "--json"]).json()[list][0].clone();
    assert_eq!(named("queues", "queues")["max_queued"], 100);
    assert_eq!(named("services", "services")["name"], "api");
    for (flag, paused) in [("--pause", true), ("--resume", false)] {
        noted.run(&["queues", "set", "default", flag]).ok();
        assert_eq!(named("queues", "queues")["paused"], paused);
        noted.run(&["services", "set", "api", flag]).ok();
        assert_eq!(named("services", "services")["paused"], paused);
    }
    for (verb, paused) in [("pause", true), ("resume", false)] {
        noted.run(&["schedule", verb, "tick"]).ok();
        assert_eq!(named("schedules", "schedules")["paused"], paused);
    }
    noted.run(&["schedule", "remove", "tick"]).ok();
    assert_eq!(named("schedules", "schedules"), Value::Null);
    for _ in 0..2 {
        noted.add(&["--group", "many", "--", "true"]);
    }
    assert_eq!(noted.run(&["cancel", "--group", "many"]).ok(), "cancelled 2 jobs\n");
    noted.add(&["--max-attempts", "1", "--", "false"]);
    assert_eq!(noted.run(&["work", "--drain", "--quiet"]).code, 1);
    assert_eq!(noted.run(&["retry", "--failed"]).ok(), "retrying 2 jobs\n");
}

/// Tokens and webhooks are kept with the queue, and the whole of it can be copied.
fn keep_and_copy(noted: &Noted<'_>) {
    noted.run(&["token", "create", "ci", "--role", "work"]).ok();
    assert!(noted.run(&["token", "list"]).ok().contains("ci"));
    noted.run(&["token", "revoke", "ci"]).ok();
    let webhook = ["webhook", "add", "http://127.0.0.1:9/hook", "--json"];
    let webhook = noted.run(&webhook).json()["id"].as_str().unwrap().to_owned();
    assert!(noted.run(&["webhook", "list"]).ok().contains("127.0.0.1:9"));
    noted.run(&["webhook", "remove", &webhook]).ok();
    let told = noted.run(&["migrate"]).ok();
    assert!(told.contains("nothing to do"), "{told}");
    let jobs = noted.run(&["status", "--json"]).json()["counts"].clone();
    noted.run(&["backup", "copy.db"]).ok();
    let from = noted.sandbox.command(&[]);
    let from = from.get_envs().find(|(name, _)| *name == "RUNCUE_STORE").unwrap().1.unwrap();
    noted.run(&["move", from.to_str().unwrap(), "moved.db"]).ok();
    for copy in ["copy.db", "moved.db"] {
        let copied = noted.run(&["status", "--json", "--store", copy]).json();
        assert_eq!(copied["counts"], jobs, "{copy}");
    }
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

/// The tables of an older runcue, with the jobs that it left there.
#[cfg(feature = "postgres")]
#[test]
fn migrate_says_from_which_version_it_has_upgraded_a_postgres_to_which() {
    let migrations = [
        include_str!("../../../store-postgres/migrations/0001_queue.sql"),
        include_str!("../../../store-postgres/migrations/0002_sessions.sql"),
    ];
    let database = runcue_test_servers::postgres().unwrap();
    let versions =
        "CREATE TABLE runcue.schema_version (version integer PRIMARY KEY, at timestamptz)";
    database.sql(&format!("CREATE SCHEMA runcue; {versions}")).unwrap();
    for migration in migrations {
        database.sql(migration).unwrap();
    }
    database.sql("DELETE FROM runcue.turn; DELETE FROM runcue.board").unwrap();
    database.sql(include_str!("../../../store-postgres/tests/fixtures/schema-2.sql")).unwrap();
    let sandbox = Sandbox::on(&database.url());
    let told = sandbox.run(&["migrate"]).ok();
    let again = sandbox.run(&["migrate", "--json"]).json();
    let newest = again["schema"].as_u64().unwrap();
    assert!(newest > 2 && again["changed"] == false, "{again}");
    let expected = format!("upgraded the schema from version 2 to {newest}\n");
    assert!(told.ends_with(&expected) && told.starts_with("postgres://"), "{told}");
    let told = sandbox.run(&["migrate"]).ok();
    assert!(told.contains(&format!("nothing to do, the schema is of version {newest}")), "{told}");
    let status = sandbox.run(&["status", "--json"]).json();
    assert_eq!(status["counts"]["completed"], 20, "{status}");
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
