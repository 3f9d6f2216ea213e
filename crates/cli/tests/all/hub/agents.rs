//! What an agent does with a job: fetches its solver, runs it, tells how it goes and how it ended.

use serde_json::json;

use super::scene::{Files, Scene};

#[test]
fn a_solver_is_fetched_verified_and_run_with_its_params() {
    let scene = Scene::new(&[]);
    let files = Files::offer(
        "echo \"::runcue progress 50 half\"; echo noise >&2; echo \"::runcue result $2\"",
    );
    let _agent = scene.agent("n1", &[]);
    let id = scene.job(&files.job(&json!({"size": 3})));
    let job = scene.wait_for(&id, "completed");
    assert_eq!(job["result"], json!({"size": 3}));
    assert_eq!(job["attempts"], 1);
    let (_, logs) = scene.get(&format!("/api/jobs/{id}/logs"));
    assert!(logs.to_string().contains("noise"), "{logs}");
    let (_, workers) = scene.get("/api/workers");
    assert_eq!((&workers[0]["worker_id"], &workers[0]["alive"]), (&json!("n1"), &json!(true)));
}

#[test]
fn what_a_solver_writes_is_its_result_if_it_is_json() {
    let scene = Scene::new(&[]);
    let files = Files::offer("echo '{\"answer\": 42}'");
    let _agent = scene.agent("n1", &[]);
    let id = scene.job(&files.job(&json!({})));
    assert_eq!(scene.wait_for(&id, "completed")["result"], json!({"answer": 42}));
}

#[test]
fn a_solver_is_downloaded_once_by_all_agents_of_a_machine() {
    let scene = Scene::new(&[]);
    let files = Files::offer("echo 1");
    let _agents: Vec<_> = (0..3).map(|n| scene.agent(&format!("n{n}"), &["--jobs", "3"])).collect();
    let ids: Vec<String> = (0..20).map(|n| scene.job(&files.job(&json!({"n": n})))).collect();
    for id in &ids {
        scene.wait_for(id, "completed");
    }
    assert_eq!(files.downloads(), 1);
}

#[test]
fn a_solver_that_is_not_what_was_promised_is_never_run() {
    let scene = Scene::new(&[]);
    let ran = scene.sandbox.path().join("ran");
    let files = Files::offer(&format!("touch {}", ran.display()));
    let _agent = scene.agent("n1", &[]);
    let mut body = files.job(&json!({}));
    body["solver_checksum"] = json!("0".repeat(64));
    let id = scene.job(&body);
    let job = scene.wait_for(&id, "failed");
    assert!(job["fail_reason"].as_str().unwrap().contains("solver_checksum_mismatch"), "{job}");
    assert!(!ran.exists());
}

#[test]
fn a_solver_from_a_host_that_nobody_allowed_is_not_fetched() {
    let scene = Scene::new(&[]);
    let _agent = scene.agent("n1", &[]);
    let body = json!({"type": "solve", "solver_url": "http://files.invalid/solver", "solver_checksum": "0".repeat(64)});
    let job = scene.wait_for(&scene.job(&body), "failed");
    assert!(job["fail_reason"].as_str().unwrap().contains("--allow-http-host"), "{job}");
}

#[test]
fn a_solver_that_fails_is_tried_again_and_its_last_words_are_kept() {
    let scene = Scene::new(&[]);
    let files = Files::offer("echo first >&2; echo the reason >&2; exit 3");
    let _agent = scene.agent("n1", &[]);
    let mut body = files.job(&json!({}));
    body["max_attempts"] = json!(2);
    let id = scene.job(&body);
    let job = scene.wait_for(&id, "quarantined");
    assert_eq!((&job["attempts"], &job["fail_reason"]), (&json!(2), &json!("exit 3: the reason")));
}

#[test]
fn a_cancelled_job_and_all_its_processes_are_stopped() {
    let scene = Scene::new(&[]);
    let pid = scene.sandbox.path().join("pid");
    let script = format!("sleep 1000 & echo $! > {}; wait", pid.display());
    let files = Files::offer(&script);
    let _agent = scene.agent("n1", &["--heartbeat", "1s"]);
    let id = scene.job(&files.job(&json!({})));
    scene.until("the child's pid", |_| !scene.sandbox.read("pid").trim().is_empty());
    scene.wait_for(&id, "running");
    scene.post(&format!("/api/jobs/{id}/cancel"), &json!({}));
    scene.wait_for(&id, "cancelled");
    let child = scene.sandbox.read("pid");
    let alive = || std::path::Path::new("/proc").join(child.trim()).exists();
    scene.until("the end of the child", |_| !alive());
}

#[test]
fn a_job_that_runs_too_long_is_stopped_and_says_so() {
    let scene = Scene::new(&[]);
    let files = Files::offer("sleep 1000");
    let _agent = scene.agent("n1", &[]);
    let mut body = files.job(&json!({}));
    (body["max_runtime_ms"], body["max_attempts"]) = (json!(300), json!(1));
    let id = scene.job(&body);
    let job = scene.wait_for(&id, "quarantined");
    assert!(job["fail_reason"].as_str().unwrap().contains("max_runtime_exceeded"), "{job}");
}

#[test]
fn sigterm_lets_a_job_finish_and_hands_back_what_does_not() {
    let scene = Scene::new(&[]);
    let quick = Files::offer("sleep 1; echo 1");
    let slow = Files::offer("sleep 1000");
    let mut agent = scene.agent("n1", &["--jobs", "2", "--grace", "3s"]);
    let done = scene.job(&quick.job(&json!({})));
    let back = scene.job(&slow.job(&json!({})));
    scene.wait_for(&done, "running");
    scene.wait_for(&back, "running");
    agent.signal("-TERM");
    assert_eq!(agent.ended(), 0);
    assert_eq!(scene.show(&done)["state"], "completed");
    let job = scene.show(&back);
    assert_eq!((&job["state"], &job["attempts"]), (&json!("queued"), &json!(0)), "{job}");
    let (_, workers) = scene.get("/api/workers");
    assert_eq!(workers, json!([]), "it said goodbye");
}

#[test]
fn requirements_decide_which_agent_runs_a_job() {
    let scene = Scene::new(&[]);
    let files = Files::offer("echo \"\\\"$NODE_ID\\\"\"");
    let _plain = scene.agent("plain", &["--cores", "2"]);
    let _gpu = scene.agent("gpu", &["--cores", "2", "--tag", "gpu"]);
    for _ in 0..5 {
        let mut body = files.job(&json!({}));
        body["requires"] = json!({"tags": ["gpu"]});
        let id = scene.job(&body);
        assert_eq!(scene.wait_for(&id, "completed")["result"], "gpu");
    }
}

#[test]
fn commands_are_run_only_by_agents_that_allow_it() {
    let scene = Scene::new(&[]);
    let id = scene.sandbox.add(&["--max-attempts", "1", "--", "echo", "hello"]);
    let mut strict = scene.agent("strict", &[]);
    let job = scene.wait_for(&id, "failed");
    assert!(job["fail_reason"].as_str().unwrap().contains("--program"), "{job}");
    strict.kill();
    let _agent = scene.agent("free", &["--allow-commands"]);
    let id = scene.sandbox.add(&["--", "echo", "hello"]);
    let job = scene.wait_for(&id, "completed");
    assert_eq!(job["result"]["stdout"], "hello\n");
}

#[test]
fn the_documented_worker_in_bash_does_its_work() {
    let scene = Scene::new(&[]);
    let id = scene.job(&json!({"type": "any", "params": {"a": 1}}));
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/worker.sh");
    let ended = std::process::Command::new("bash")
        .arg(script)
        .envs([
            ("HUB_URL", scene.url().as_str()),
            ("NODE_ID", "bash"),
            ("ONCE", "1"),
            ("WAIT", "0"),
        ])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{said}");
    let job = scene.wait_for(&id, "completed");
    assert_eq!(job["result"], "{\"a\":1}", "{said}");
}

#[test]
fn a_hub_that_can_be_reached_from_elsewhere_wants_a_token() {
    let sandbox = crate::sandbox::Sandbox::new();
    let refused = sandbox.run(&["serve", "--listen", "0.0.0.0:0"]).refused(1);
    assert!(refused.contains("RUNCUE_TOKEN"), "{refused}");
    let bad = sandbox.run(&["serve", "--listen", "nowhere"]).refused(2);
    assert!(bad.contains("127.0.0.1:3000"), "{bad}");
}

#[test]
fn a_token_made_on_the_command_line_is_known_to_a_running_hub_until_it_is_revoked() {
    let scene = Scene::new(&[]);
    assert_eq!(scene.get("/api/jobs").0, 200, "nobody needs a token while there is none");
    let made = scene.sandbox.run(&["token", "create", "boss", "--json"]).json();
    assert_eq!(made["role"], "admin");
    scene.until("the closed door", |scene| scene.get("/api/jobs").0 == 401);
    let listed = scene.sandbox.run(&["token", "list", "--json"]).json();
    assert_eq!(listed["tokens"][0]["name"], "boss");
    scene.sandbox.run(&["token", "revoke", "boss"]).ok();
    scene.until("the open door", |scene| scene.get("/api/jobs").0 == 200);
    let refused = scene.sandbox.run(&["token", "revoke", "boss"]).refused(1);
    assert!(refused.contains("token list"), "{refused}");
}

#[test]
fn a_hub_takes_as_many_connections_as_the_system_allows() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    // The hub inherits it.
    setrlimit(Resource::Nofile, Rlimit { current: Some(200), maximum }).unwrap();
    let scene = Scene::new(&[]);
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", scene.hub.0.id())).unwrap();
    let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    let words: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(words[3], words[4], "{line}");
}
