//! Hubs and agents that are killed, and what is left when they are back: nothing acknowledged is lost, and nothing
//! runs twice because the hub was away.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::scene::{Files, Scene};
use crate::sandbox::Sandbox;

/// How often each job has begun, by the lines it wrote.
fn runs(scene: &Scene) -> BTreeMap<String, usize> {
    let mut runs = BTreeMap::new();
    for line in scene.sandbox.read("ledger").lines() {
        *runs.entry(line.trim().to_owned()).or_default() += 1;
    }
    runs
}

fn ledger(scene: &Scene, rest: &str) -> Files {
    let path = scene.sandbox.path().join("ledger");
    Files::offer(&format!("echo \"$RUNCUE_JOB_ID\" >> {}; {rest}", path.display()))
}

#[test]
fn a_job_goes_on_while_the_hub_is_away_and_its_result_is_delivered_when_it_is_back() {
    let mut scene = Scene::new(&["--lease", "6s", "--reap-every", "1s"]);
    let gate = scene.sandbox.path().join("gate");
    let wait = format!("while [ ! -e {} ]; do sleep 0.05; done; echo 7", gate.display());
    let files = ledger(&scene, &wait);
    let _agent = scene.agent("n1", &["--heartbeat", "1s"]);
    let id = scene.job(&files.job(&json!({})));
    scene.wait_for(&id, "running");
    scene.hub.kill();
    // It ends while nobody is there to be told, and longer than its lease ago.
    std::fs::write(&gate, "").unwrap();
    std::thread::sleep(std::time::Duration::from_secs(8));
    scene.restart();
    let job = scene.wait_for(&id, "completed");
    assert_eq!((&job["result"], &job["attempts"]), (&json!(7), &json!(1)));
    assert_eq!(runs(&scene), BTreeMap::from([(id, 1)]));
}

#[test]
fn what_a_machine_measured_while_the_hub_was_away_is_delivered_when_it_is_back() {
    let sandbox = Sandbox::new().with_env("PUSH_INTERVAL_MS", "100");
    let mut scene = Scene::on(sandbox, &[]);
    let _agent = scene.agent("n1", &[]);
    let measured = |scene: &Scene| -> Vec<i64> {
        let (_, fleet) = scene.get("/api/fleet");
        let history = fleet[0]["history"].as_array().cloned().unwrap_or_default();
        history.iter().filter_map(|one| one["at"].as_i64()).collect()
    };
    scene.until("a first measurement", |scene| !measured(scene).is_empty());
    scene.hub.kill();
    let gone = millis_now();
    scene.until("a few measurements that nobody takes in", |_| millis_now() > gone + 1_000);
    let back = millis_now();
    scene.restart();
    scene.until("what was measured meanwhile", |scene| {
        let meanwhile = |at: &i64| (gone..back).contains(at);
        measured(scene).iter().filter(|at| meanwhile(at)).count() > 3
    });
}

fn millis_now() -> i64 {
    let since = std::time::UNIX_EPOCH.elapsed().unwrap();
    i64::try_from(since.as_millis()).unwrap()
}

#[test]
fn a_killed_agent_leaves_nothing_behind_and_its_job_runs_elsewhere() {
    let scene = Scene::new(&["--lease", "3s", "--reap-every", "1s"]);
    let pid = scene.sandbox.path().join("pid");
    let script = format!(
        "if [ -e {0} ]; then echo 2; else sleep 1000 & echo $! > {0}; wait; fi",
        pid.display()
    );
    let files = Files::offer(&script);
    let mut agent = scene.agent("n1", &["--heartbeat", "1s"]);
    let id = scene.job(&files.job(&json!({})));
    scene.until("the child's pid", |_| !scene.sandbox.read("pid").trim().is_empty());
    scene.wait_for(&id, "running");
    agent.kill();
    let child = scene.sandbox.read("pid");
    scene.until("the end of the child", |_| {
        !std::path::Path::new("/proc").join(child.trim()).exists()
    });
    let _other = scene.agent("n2", &[]);
    let job = scene.wait_for(&id, "completed");
    assert_eq!((&job["result"], &job["crashes"]), (&json!(2), &json!(1)));
}

#[test]
fn agents_are_killed_under_load_and_every_job_is_done() {
    let (agents, killed, jobs) =
        if std::env::var_os("RUNCUE_LONG").is_some() { (50, 20, 10_000) } else { (10, 4, 400) };
    let scene = Scene::new(&["--lease", "4s", "--reap-every", "1s"]);
    let files = ledger(&scene, "echo 1");
    let mut fleet: Vec<_> = (0..agents)
        .map(|n| scene.agent(&format!("n{n}"), &["--jobs", "2", "--heartbeat", "1s"]))
        .collect();
    let body: Vec<Value> = (0..jobs).map(|n| files.job(&json!({"n": n}))).collect();
    let mut ids = Vec::new();
    for part in body.chunks(1_000) {
        let (status, answer) = scene.post("/api/jobs/bulk", &Value::Array(part.to_vec()));
        assert_eq!(status, 201, "{answer}");
        let acknowledged = answer["jobs"].as_array().unwrap().iter();
        ids.extend(acknowledged.map(|job| job["id"].as_str().unwrap().to_owned()));
    }
    for (n, agent) in fleet.iter_mut().take(killed).enumerate() {
        let done = (n + 1) * jobs / (2 * killed + 2);
        scene.until("progress", |scene| completed(scene) >= done as u64);
        agent.kill();
    }
    scene.until("the end of all jobs", |scene| completed(scene) == jobs as u64);
    let runs = runs(&scene);
    assert_eq!(runs.len(), ids.len(), "every acknowledged job ran");
    // A killed agent may have held more jobs than it has slots: it frees one before the end of its job is delivered. What is
    // promised is that no job runs again whose worker was not lost.
    for (id, count) in runs.iter().filter(|(_, count)| **count > 1) {
        let crashes = scene.get(&format!("/api/jobs/{id}")).1["crashes"].as_u64().unwrap_or(0);
        assert!(
            *count as u64 <= 1 + crashes,
            "{id} ran {count} times and was lost {crashes} times"
        );
    }
}

fn completed(scene: &Scene) -> u64 {
    scene.get("/api/status").1["counts"]["completed"].as_u64().unwrap_or(0)
}
