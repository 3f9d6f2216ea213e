//! Jobs that applications put down in their own transactions, with the programs that people use: a plain worker
//! takes them in and runs them, and `doctor` names those that were refused.

use std::process::{Child, Command};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::sandbox::Sandbox;

/// A worker that is stopped with the test.
struct Worker(Child);

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits until a worker has made a file.
#[track_caller]
fn made(sandbox: &Sandbox, name: &str) {
    let begun = Instant::now();
    while !sandbox.path().join(name).exists() {
        assert!(begun.elapsed() < Duration::from_secs(30), "{name} was not made");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The params of a command that makes a file.
fn params(sandbox: &Sandbox, name: &str) -> String {
    json!({ "run": ["touch", name], "cwd": sandbox.path() }).to_string()
}

/// The same on every store: `put` puts a job down in a transaction and ends that one way or the other, and
/// `refused` puts one down that nobody can run.
fn a_plain_worker_runs_it(
    sandbox: &Sandbox,
    put: impl Fn(&str, &str) -> String,
    refused: impl Fn(),
) {
    sandbox.run(&["services", "set", "api", "--max-concurrent", "2"]).ok();
    let early = put(&params(sandbox, "early"), "COMMIT");
    sandbox.run(&["work", "--drain"]).ok();
    assert_eq!(sandbox.state(&early), "completed", "a drain takes in what waits");
    let worker = Worker(sandbox.start(&["work"]));
    put(&params(sandbox, "undone"), "ROLLBACK");
    let first = put(&params(sandbox, "first"), "COMMIT");
    made(sandbox, "first");
    refused();
    let second = put(&params(sandbox, "second"), "COMMIT");
    made(sandbox, "second");
    drop(worker);
    for id in [&first, &second] {
        assert_eq!(sandbox.show(id)["task"], "command");
    }
    assert!(!sandbox.path().join("undone").exists(), "it was rolled back");
    let doctor = sandbox.run(&["doctor", "--json"]).json();
    let checks = doctor["checks"].as_array().unwrap();
    let inbox = checks.iter().find(|check| check["name"] == "inbox").unwrap();
    assert_eq!(inbox["verdict"], "warning");
    let detail = inbox["detail"].as_str().unwrap();
    assert!(detail.starts_with("1 job from applications refused"), "{detail}");
    assert!(detail.contains("nowhere"), "{detail}");
}

#[test]
fn a_job_from_the_sqlite3_shell_is_run_by_a_plain_worker() {
    let sandbox = Sandbox::on("sqlite:queue.db");
    let shell = |sql: &str| {
        let mut command = Command::new("sqlite3");
        command.args(["-cmd", ".timeout 10000", "queue.db", sql]).current_dir(sandbox.path());
        let answer = command.output().unwrap();
        assert!(answer.status.success(), "{}", String::from_utf8_lossy(&answer.stderr));
        String::from_utf8(answer.stdout).unwrap().trim().to_owned()
    };
    let put = |params: &str, end: &str| {
        shell(&format!(
            "BEGIN; INSERT INTO inbox (body) VALUES (json_object('task', 'command', 'params', \
             json('{params}'))) RETURNING id; {end}"
        ))
    };
    let bad = r#"{"task": "command", "services": [{"service": "nowhere", "units": 1}]}"#;
    let refused = || drop(shell(&format!("INSERT INTO inbox (body) VALUES ('{bad}')")));
    a_plain_worker_runs_it(&sandbox, put, refused);
}

#[cfg(feature = "postgres")]
#[test]
fn a_job_from_psql_is_run_by_a_plain_worker() {
    let database = runcue_test_servers::postgres().unwrap();
    let sandbox = Sandbox::on(&database.url());
    let put = |params: &str, end: &str| {
        let sql = format!("BEGIN; SELECT runcue.enqueue('command', '{params}'); {end}");
        database.sql(&sql).unwrap().trim().replace('-', "")
    };
    let options = r#"{"services": [{"service": "nowhere", "units": 1}]}"#;
    let sql = format!("SELECT runcue.enqueue('command', options => '{options}')");
    a_plain_worker_runs_it(&sandbox, put, || drop(database.sql(&sql).unwrap()));
}
