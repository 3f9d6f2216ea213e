//! `runcue work`: workers on a queue, alone and together.

use std::io::{BufRead, BufReader};

use serde_json::{Value, json};

use crate::sandbox::Sandbox;

#[test]
fn a_drained_queue_has_run_everything_and_kept_what_it_wrote() {
    let sandbox = Sandbox::new();
    let id = sandbox.add(&["--env", "WORD=hi", "--", "sh", "-c", "echo $WORD; echo no >&2"]);
    sandbox.run(&["work", "--drain"]).ok();
    let job = sandbox.show(&id);
    assert_eq!((&job["state"], &job["attempt"]), (&json!("completed"), &json!(1)));
    assert_eq!(job["result"], json!({"stdout": "hi\n", "stderr": "no\n", "exit_code": 0}));
    assert_eq!(sandbox.run(&["logs", &id, "--stream", "stdout"]).ok(), "hi\n");
    assert_eq!(sandbox.run(&["logs", &id, "--stream", "stderr"]).ok(), "no\n");
    let line = sandbox.run(&["logs", &id, "--stream", "stderr", "--json"]).ok();
    let chunk: Value = serde_json::from_str(line.trim()).unwrap();
    assert_eq!((&chunk["stream"], &chunk["text"]), (&json!("stderr"), &json!("no\n")));
}

#[test]
fn a_command_knows_its_job_and_its_queue() {
    let sandbox = Sandbox::new();
    let script = "test \"$RUNCUE_ATTEMPT\" = 1 && runcue=$0; \"$runcue\" add --target $RUNCUE_JOB_ID -- true";
    let binary = env!("CARGO_BIN_EXE_runcue");
    let first = sandbox.add(&["--cwd", "/", "--", "sh", "-c", script, binary]);
    sandbox.run(&["work", "--drain"]).ok();
    let nested = sandbox.show("@last");
    assert_eq!((&nested["target"], &nested["state"]), (&json!(first), &json!("completed")));
}

#[test]
fn a_failing_command_is_tried_again_and_then_set_aside() {
    let sandbox = Sandbox::new();
    let id = sandbox.add(&["--max-attempts", "1", "--", "sh", "-c", "echo broken >&2; exit 3"]);
    let ended = sandbox.run(&["work", "--drain"]);
    assert_eq!(ended.code, 1, "{ended:?}");
    let job = sandbox.show(&id);
    assert_eq!(job["state"], "quarantined");
    assert_eq!(job["fail_history"][0]["reason"], "exit 3: broken");
    let told = sandbox.run(&["show", &id]).ok();
    assert!(told.contains("attempt 1, transient") && told.contains("exit 3: broken"), "{told}");
}

#[test]
fn a_job_of_a_stored_task_is_added_and_run_as_the_task_says() {
    let sandbox = Sandbox::new();
    sandbox.write(
        "jobs.yaml",
        "services: { api: { max_concurrent: 2 } }\n\
         tasks:\n  greet: { run: [printf, '%s-%s', '{target}', '{params.n}'], services: api, timeout: 9s, group: g }\n\
         jobs:\n  - { id: a, task: greet, target: x, params: { n: 1 } }\n",
    );
    sandbox.run(&["run", "jobs.yaml"]).ok();
    let id = sandbox.add(&["--task", "greet", "--target", "moon", "--param", "n=7"]);
    let job = sandbox.show(&id);
    assert_eq!((&job["timeout"], &job["group"]), (&json!(9.0), &json!("g")));
    assert_eq!(job["services"], json!([{"service": "api", "units": 1}]));
    sandbox.run(&["work", "--drain"]).ok();
    assert_eq!(sandbox.show(&id)["result"]["stdout"], "moon-7");
    let told = sandbox.run(&["add", "--task", "greeet"]).refused(2);
    assert!(told.contains("did you mean greet?"), "{told}");
}

#[test]
fn two_workers_on_one_file_run_every_job_once() {
    let sandbox = Sandbox::new();
    let line = r#"{"run": ["sh", "-c", "echo $RUNCUE_JOB_ID >> done"]}"#;
    let ids = sandbox.run_with(&["add", "--from", "-"], &format!("{line}\n").repeat(40)).ok();
    let workers = [(); 2].map(|()| sandbox.start(&["work", "--drain", "--jobs", "3"]));
    for mut worker in workers {
        assert!(worker.wait().unwrap().success());
    }
    let mut expected: Vec<&str> = ids.lines().collect();
    let done = sandbox.read("done");
    let mut done: Vec<&str> = done.lines().collect();
    expected.sort_unstable();
    done.sort_unstable();
    assert_eq!(done, expected);
}

#[test]
fn what_cannot_run_is_left_and_told_of() {
    let sandbox = Sandbox::new();
    let id = sandbox.add(&["--group", "g", "--", "true"]);
    sandbox.add(&["--", "true"]);
    let lines = "{\"task\": \"only-python-knows\"}\n";
    sandbox.run_with(&["add", "--from", "-"], lines).ok();
    sandbox.run(&["pause", "g"]).ok();
    let ended = sandbox.run(&["work", "--drain"]);
    assert!(ended.stderr.contains("2 jobs left that cannot run here and now"), "{}", ended.stderr);
    ended.ok();
    assert_eq!(sandbox.state(&id), "queued");
}

#[test]
fn a_running_job_is_cancelled_from_another_terminal() {
    let sandbox = Sandbox::new();
    let id = sandbox.add(&["--", "sleep", "600"]);
    let mut worker = sandbox.start(&["work", "--drain", "--json"]);
    let mut stdout = BufReader::new(worker.stdout.take().unwrap());
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    assert!(line.contains("work_started"), "{line}");
    sandbox.run(&["cancel", &id]).ok();
    assert!(worker.wait().unwrap().success());
    assert_eq!(sandbox.state(&id), "cancelled");
}

#[test]
fn logs_follow_a_job_to_its_end() {
    let sandbox = Sandbox::new();
    let id = sandbox.add(&["--", "sh", "-c", "echo one; echo two"]);
    let follower = sandbox.start(&["logs", &id, "--follow"]);
    sandbox.run(&["work", "--drain"]).ok();
    let output = follower.wait_with_output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "one\ntwo\n");
}

#[test]
fn a_worker_learns_tasks_that_are_stored_while_it_runs() {
    let sandbox = Sandbox::new();
    let mut worker = sandbox.start(&["work", "--json"]);
    let mut stdout = BufReader::new(worker.stdout.take().unwrap());
    let mut stderr = BufReader::new(worker.stderr.take().unwrap());
    let mut line = String::new();
    stderr.read_line(&mut line).unwrap();
    assert!(line.contains("working on"), "{line}");
    sandbox.write(
        "jobs.yaml",
        "tasks: { t: { run: 'echo hi' } }\njobs:\n  - { id: a, task: t, in: 1h }\n",
    );
    let mut runner = sandbox.start(&["run", "jobs.yaml", "--json"]);
    let mut queued = String::new();
    BufReader::new(runner.stdout.take().unwrap()).read_line(&mut queued).unwrap();
    assert!(queued.contains("work_queued"), "{queued}");
    runner.kill().unwrap();
    runner.wait().unwrap();
    let id = sandbox.add(&["--task", "t"]);
    loop {
        let mut line = String::new();
        assert!(stdout.read_line(&mut line).unwrap() > 0, "the worker left");
        if line.contains("work_completed") && line.contains(&id) {
            break;
        }
    }
    let kill = std::process::Command::new("kill").arg(worker.id().to_string()).status();
    assert!(kill.unwrap().success());
    assert_eq!(worker.wait().unwrap().code(), Some(0), "asked by a service manager, it ends fine");
}

#[test]
fn a_live_worker_is_seen_and_the_hint_is_gone() {
    let sandbox = Sandbox::new();
    sandbox.add(&["--in", "1h", "--", "true"]);
    let mut worker = sandbox.start(&["work", "--name", "bench-7", "--jobs", "3"]);
    let mut stderr = BufReader::new(worker.stderr.take().unwrap());
    stderr.read_line(&mut String::new()).unwrap();
    let status = sandbox.run(&["status", "--json"]).json();
    let seen = &status["workers"][0];
    assert_eq!(
        (&seen["name"], &seen["slots"], &seen["alive"]),
        (&json!("bench-7"), &json!(3), &json!(true))
    );
    assert_eq!(status["hint"], Value::Null);
    worker.kill().unwrap();
    worker.wait().unwrap();
    // Its guard holds its lock too, until nothing that it started is left.
    let workers = || sandbox.run(&["status", "--json"]).json()["workers"].clone();
    assert!((0..500).any(|_| workers() == json!([])), "its lock is gone with it");
}
