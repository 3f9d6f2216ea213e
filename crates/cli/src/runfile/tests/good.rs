//! Files that are fine.

use std::time::Duration;

use runcue_core::{Missed, Overlap};
use serde_json::json;

use super::*;

const FULL: &str = r#"
name: nightly
store: sqlite:queue.db
queue: night
max_parallel: 4
services:
  openai: {rate_limit: 60, rate_window: 60, max_concurrent: 5, circuit_threshold: 5, circuit_timeout: 300}
  s3: {rate: [60/min, 1000/h], limits: [{rate_limit: 5}, 7/s], per_key: {max_concurrent: 1, rate: 10/s}}
  pairs: {rate: [60, 60]}
tasks:
  fetch:
    run: [curl, -s, "{target}", --version=1.10, no, 0755]
    timeout: 5m
    retry: {max_attempts: 4, max_crashes: 9, backoff: exponential, base_delay: 1, max_delay: 5m, jitter: false, retry_on: [timeout, 7, crash, reset]}
    services: {openai: 3, s3: "{params.bytes}"}
    key: "{params.customer}"
    env: {TOKEN: "t-{params.customer}", EMPTY: }
    cwd: /tmp
    priority: high
    group: web
    labels: {kind: net}
    requires: {cores: 2, ram_gb: 1.5, tags: [gpu]}
jobs:
  - id: a
    task: fetch
    target: https://example.org/
    params: {customer: ann, bytes: 2, nested: {deep: [1, no]}}
    in: 90
    labels: [x]
    project: p
  - id: b
    task: fetch
    target: 1.10
    params: {customer: bob, bytes: 1}
    depends_on: a
    priority: -5
    max_attempts: 1
    group: other
    queue: day
    timeout: 0.5
    dependency_timeout: 1h30m
    run_at: 2027-01-31T08:00:00Z
    expires_in: 2d
    idempotency_key: k-{id}
    services: openai
    cost: 7
    key: fixed
  - {id: c, run: "echo {params.x}", params: {x: 1}, depends_on: [a, b]}
"#;

#[test]
fn schedules_are_read_with_the_defaults_of_their_tasks() {
    let file = yaml(
        r#"
services: {api: {rate: 60/min}}
tasks:
  fetch: {run: [curl, "{target}"], services: api, timeout: 5m, group: web}
schedules:
  poll: {cron: "*/5 * * * *", task: fetch, target: x, overlap: skip, priority: high}
  nightly:
    cron: "0 3 * * *"
    zone: Europe/Berlin
    missed: once
    run: [./backup.sh, "{params.to}"]
    params: {to: s3}
"#,
    );
    assert!(file.jobs.is_empty(), "a file may do nothing but define schedules");
    let [poll, nightly] = &file.schedules[..] else { panic!("{:?}", file.schedules) };
    assert_eq!((poll.cron.as_str(), poll.zone.as_str()), ("*/5 * * * *", "UTC"));
    assert_eq!((poll.missed, poll.overlap), (Missed::Skip, Overlap::Skip));
    assert_eq!((poll.job.id.as_str(), poll.job.task.as_str()), ("poll", "fetch"));
    assert_eq!((poll.job.group.as_deref(), poll.job.priority), (Some("web"), 100));
    assert_eq!(poll.job.timeout, Some(Duration::from_secs(300)));
    assert_eq!(poll.job.services["api"], 1);
    assert_eq!((nightly.zone.as_str(), nightly.missed), ("Europe/Berlin", Missed::Once));
    assert_eq!(nightly.job.task, "run:nightly");
    assert!(file.tasks.contains_key("run:nightly"));
}

#[test]
fn every_field_is_read() {
    let file = yaml(FULL);
    assert_eq!(file.name.as_deref(), Some("nightly"));
    assert_eq!(file.max_parallel, Some(4));
    let openai = &file.services["openai"];
    assert_eq!(openai.limits[0].to_string(), "60/min");
    assert_eq!(openai.circuit_timeout, Some(Duration::from_secs(300)));
    let s3 = &file.services["s3"];
    let limits: Vec<String> = s3.limits.iter().map(ToString::to_string).collect();
    assert_eq!(limits, ["60/min", "1000/h", "5/min", "7/s"]);
    let key = s3.per_key.as_ref().unwrap();
    assert_eq!((key.max_concurrent, key.limits.len()), (Some(1), 1));
    assert_eq!(file.services["pairs"].limits[0].to_string(), "60/min");

    let [a, b, c] = &file.jobs[..] else { panic!("three jobs") };
    assert_eq!(a.priority, 100);
    assert_eq!(a.group.as_deref(), Some("web"));
    assert_eq!(a.queue.as_deref(), Some("night"));
    assert_eq!(a.delay, Some(Duration::from_secs(90)));
    assert_eq!(a.labels, ["kind=net", "x"]);
    assert_eq!(a.timeout, Some(Duration::from_secs(300)));
    assert_eq!(a.key.as_deref(), Some("ann"));
    assert_eq!(a.services, [("openai".into(), 3), ("s3".into(), 2)].into());
    assert_eq!(a.params["nested"], json!({"deep": [1, "no"]}));
    assert_eq!(a.max_attempts, Some(4));
    assert_eq!(a.retry.as_ref().unwrap().max_crashes, Some(9));
    let retry = a.retry.as_ref().unwrap();
    assert_eq!(retry.jitter, Some(false));
    assert_eq!(
        retry.retry_on.as_deref().unwrap(),
        [RetryOn::Timeout, RetryOn::ExitCode(7), RetryOn::Crash, RetryOn::Word("reset".into())]
    );

    assert_eq!(b.target.as_deref(), Some("1.10"), "text as written");
    assert_eq!((b.priority, b.max_attempts), (-5, Some(1)));
    assert_eq!(b.queue.as_deref(), Some("day"));
    assert_eq!(b.timeout, Some(Duration::from_millis(500)));
    assert_eq!(b.dependency_timeout, Some(Duration::from_secs(5400)));
    assert_eq!(b.run_at.unwrap().to_string(), "2027-01-31T08:00:00Z");
    assert_eq!(b.idempotency_key.as_deref(), Some("k-b"));
    assert_eq!(b.services, [("openai".into(), 7)].into());
    assert_eq!(b.depends_on, ["a"]);
    assert_eq!(c.depends_on, ["a", "b"]);
    assert_eq!(c.task, "run:c");
}

#[test]
fn a_stored_task_gives_the_same_command_in_another_process() {
    let file = yaml(FULL);
    let job = &file.jobs[0];
    let stored = serde_json::to_string(&file.tasks["fetch"]).unwrap();
    let task: TaskDef = serde_json::from_str(&stored).unwrap();
    assert_eq!(task, file.tasks["fetch"]);
    let view = JobView {
        id: &job.id,
        task: &job.task,
        queue: None,
        group: None,
        target: job.target.as_deref(),
        attempt: 2,
        params: &job.params,
    };
    let run = task.invocation(&view).unwrap();
    assert_eq!(run.argv, ["curl", "-s", "https://example.org/", "--version=1.10", "no", "0755"]);
    assert_eq!(run.env["TOKEN"], "t-ann");
    assert_eq!(run.env["EMPTY"], "");
    assert_eq!(run.cwd.as_deref(), Some("/tmp"));
}

#[test]
fn values_never_become_arguments_of_their_own_nor_shell_code() {
    let file = yaml(
        "tasks:\n  list: {run: [echo, 'x {target}', '{params.v}']}\n  line: {run: 'echo {target} \"{attempt}\"'}\n\
         jobs:\n- {task: list, target: 'a b; c', params: {v: $HOME}}\n- {task: line, target: \"it's; $(x)\"}\n",
    );
    let argv = |index: usize| {
        let job = &file.jobs[index];
        let view = JobView {
            id: &job.id,
            task: &job.task,
            queue: None,
            group: None,
            target: job.target.as_deref(),
            attempt: 3,
            params: &job.params,
        };
        file.tasks[&job.task].invocation(&view).unwrap().argv
    };
    assert_eq!(argv(0), ["echo", "x a b; c", "$HOME"]);
    assert_eq!(argv(1), ["sh", "-c", "echo 'it'\\''s; $(x)' \"\"'3'\"\""]);
}

#[test]
fn the_three_notations_say_the_same() {
    let toml = r#"
[services.api]
rate = "5/s"
[tasks.t]
run = ["echo", "{target}", 1.10]
timeout = "5m"
services = "api"
[[jobs]]
id = "a"
task = "t"
target = "x"
[[jobs]]
task = "t"
target = "y"
depends_on = ["a"]
params = {n = 1, at = 2027-01-31}
"#;
    let json = r#"{"services": {"api": {"rate": "5/s"}},
      "tasks": {"t": {"run": ["echo", "{target}", 1.10], "timeout": "5m", "services": "api"}},
      "jobs": [{"id": "a", "task": "t", "target": "x"},
        {"task": "t", "target": "y", "depends_on": ["a"], "params": {"n": 1, "at": "2027-01-31"}}]}"#;
    let yaml = yaml(
        "services: {api: {rate: 5/s}}\ntasks:\n  t: {run: [echo, '{target}', 1.10], timeout: 5m, services: api}\n\
         jobs:\n- {id: a, task: t, target: x}\n- {task: t, target: y, depends_on: a, params: {n: 1, at: 2027-01-31}}\n",
    );
    assert_eq!(parse(toml, Format::Toml, "f").unwrap(), yaml);
    assert_eq!(parse(json, Format::Json, "f").unwrap(), yaml);
    assert_eq!(ids(&yaml), ["a", "t-1"]);
    for (text, format) in [(toml, Format::Toml), (json, Format::Json), (FULL, Format::Yaml)] {
        assert_eq!(Format::sniff(text), format);
    }
}

#[test]
fn a_list_becomes_jobs_and_its_name_stands_for_all_of_them() {
    let file = yaml(
        "tasks: {t: {run: [echo, '{item}', '{params.out}']}, all: {run: [echo, done]}}\n\
         jobs:\n\
         - {id: fetch, task: t, for_each: [a, 1.10, no], params: {out: 'o/{item}'}}\n\
         - {id: 'parse-i{item}', task: t, for_each: [a, 1.10], depends_on: 'fetch-{item}', params: {out: x}}\n\
         - {id: sum, task: all, depends_on: [parse, fetch-no]}\n",
    );
    assert_eq!(ids(&file), ["fetch-a", "fetch-1.10", "fetch-no", "parse-ia", "parse-i1.10", "sum"]);
    assert_eq!(file.jobs[1].params, json!({"item": "1.10", "out": "o/1.10"}));
    assert_eq!(file.jobs[4].depends_on, ["fetch-1.10"]);
    assert_eq!(file.jobs[5].depends_on, ["fetch-no", "parse-ia", "parse-i1.10"]);
    assert_eq!(file.jobs[4].entry, 1);
}

#[test]
fn a_grid_is_every_combination_in_the_order_written() {
    let file = yaml(
        "tasks: {train: {run: [train, '--lr={lr}', '{params.seed}']}}\n\
         jobs: [{task: train, grid: {lr: [0.1, 1e-3], seed: {from: 1, to: 5, step: 2}}}]\n",
    );
    assert_eq!(
        ids(&file),
        [
            "train-0.1-1",
            "train-0.1-3",
            "train-0.1-5",
            "train-1e-3-1",
            "train-1e-3-3",
            "train-1e-3-5"
        ]
    );
    assert_eq!(file.jobs[3].params, json!({"lr": 0.001, "seed": 1}));
}

#[test]
fn files_become_jobs_in_sorted_order() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("data")).unwrap();
    for name in ["b.csv", "a.csv", "c.txt"] {
        std::fs::write(dir.path().join("data").join(name), "").unwrap();
    }
    let path = dir.path().join("run.yaml");
    let text = "tasks: {t: {run: [wc, '{item}', '{stem}']}}\n\
                jobs: [{id: 'count-{name}', task: t, glob: data/*.csv}]\n";
    std::fs::write(&path, text).unwrap();
    let file = load(&path).unwrap();
    assert_eq!(ids(&file), ["count-a.csv", "count-b.csv"]);
    assert_eq!(file.jobs[0].params, json!({"item": "data/a.csv", "name": "a.csv", "stem": "a"}));
}

#[test]
fn a_fingerprint_changes_with_what_a_job_does_and_with_nothing_else() {
    let print = |run: &str, rest: &str| {
        let text = format!(
            "services: {{s: {{}}}}\ntasks: {{t: {{run: {run}}}}}\njobs: [{{id: a, task: t, {rest}}}]"
        );
        yaml(&text).jobs[0].fingerprint()
    };
    let base = print("[echo, hi]", "params: {x: 1, y: 2}");
    assert_eq!(base.len(), 32);
    assert_eq!(base, print("[echo, 'hi']", "params: {y: 2, x: 1}, priority: 9, timeout: 5"));
    for (run, rest) in [
        ("[echo, ho]", "params: {x: 1, y: 2}"),
        ("echo hi", "params: {x: 1, y: 2}"),
        ("[echo, hi]", "params: {x: 1, y: 3}"),
        ("[echo, hi]", "params: {x: 1, y: 2}, target: z"),
        ("[echo, hi]", "params: {x: 1, y: 2}, services: s"),
        ("[echo, hi]", "params: {x: 1, y: 2}, services: {s: 2}"),
    ] {
        assert_ne!(base, print(run, rest), "{run} {rest}");
    }
    // Pinned: a later release must find the jobs of an earlier one unchanged.
    assert_eq!(print("[echo, '{target}']", "target: x"), "f87beb6e3605852bb8211794a99cab84");
}

#[test]
fn the_examples_are_fine() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let mut names: Vec<_> = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| Format::of(path).is_some())
        .collect();
    names.sort();
    assert!(names.len() >= 3);
    for path in names {
        let file = load(&path).unwrap_or_else(|error| panic!("{error}"));
        assert!(!file.jobs.is_empty());
    }
}
