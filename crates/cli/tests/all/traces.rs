//! Traces from submission to attempt, as a collector sees them: real posts of OTLP in JSON.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::hub::scene::{Scene, call_with};
use crate::sandbox::Sandbox;

const THEIRS: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";

/// Takes what is posted to it.
struct Collector {
    url: String,
    bodies: Arc<Mutex<Vec<Value>>>,
}

impl Collector {
    fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let bodies = Arc::new(Mutex::new(Vec::new()));
        let taken = Arc::clone(&bodies);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(mut stream) = stream else { return };
                let mut reader = BufReader::new(stream.try_clone().unwrap());
                let mut head = String::new();
                while !head.ends_with("\r\n\r\n") && reader.read_line(&mut head).unwrap_or(0) > 0 {}
                let lower = head.to_ascii_lowercase();
                let length = lower.split("content-length: ").nth(1).and_then(|s| s.lines().next());
                let mut body = vec![0; length.and_then(|text| text.parse().ok()).unwrap_or(0)];
                reader.read_exact(&mut body).unwrap();
                assert!(lower.starts_with("post /v1/traces "), "{head}");
                taken.lock().unwrap().push(serde_json::from_slice(&body).unwrap());
                let answer = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}";
                // A client that hung up has had enough.
                let _ = stream.write_all(answer.as_bytes());
            }
        });
        Self { url, bodies }
    }

    /// Every span of every post, whoever sent it.
    fn spans(&self) -> Vec<Span> {
        let mut spans = Vec::new();
        for body in &*self.bodies.lock().unwrap() {
            for part in body["resourceSpans"].as_array().unwrap() {
                let service = attribute(&part["resource"], "service.name");
                for scope in part["scopeSpans"].as_array().unwrap() {
                    let of = |span: &Value| Span(span.clone(), service.clone());
                    spans.extend(scope["spans"].as_array().unwrap().iter().map(of));
                }
            }
        }
        spans
    }

    /// The spans of that name, by attempt.
    fn named(&self, name: &str) -> Vec<Span> {
        let mut spans = self.spans();
        spans.retain(|span| span.0["name"] == name);
        spans.sort_by_key(|span| span.attribute("runcue.attempt").as_str().map(str::to_owned));
        spans
    }
}

/// A span, and the service that sent it.
#[derive(Debug)]
struct Span(Value, Value);

impl Span {
    fn trace(&self) -> &str {
        self.0["traceId"].as_str().unwrap()
    }

    fn id(&self) -> &str {
        self.0["spanId"].as_str().unwrap()
    }

    fn parent(&self) -> Option<&str> {
        self.0["parentSpanId"].as_str()
    }

    fn attribute(&self, name: &str) -> Value {
        attribute(&self.0, name)
    }

    /// What is handed on to what happens below it.
    fn traceparent(&self) -> String {
        format!("00-{}-{}-01", self.trace(), self.id())
    }
}

fn attribute(of: &Value, name: &str) -> Value {
    let all = of["attributes"].as_array().unwrap();
    let one = all.iter().find(|attribute| attribute["key"] == name);
    one.map_or(Value::Null, |one| {
        let value = one["value"].as_object().unwrap();
        value.values().next().unwrap().clone()
    })
}

/// One job that fails once, one that fails for good, one that is fine.
const FILE: &str = "\
tasks:
  flaky:
    run: 'echo \"$TRACEPARENT\" >> flaky; test \"$RUNCUE_ATTEMPT\" -gt 1'
    max_attempts: 2
    retry: { base_delay: 0s, jitter: false }
  bad: { run: 'echo broken >&2; exit 3', max_attempts: 1 }
  fine: { run: 'echo \"$TRACEPARENT\" >> fine' }
jobs:
  - { id: a, task: flaky }
  - { id: b, task: bad, group: g }
  - { id: c, task: fine }
";

#[test]
fn a_run_is_one_trace_with_a_span_per_attempt() {
    let collector = Collector::new();
    let sandbox = Sandbox::new()
        .with_env(ENDPOINT, &collector.url)
        .with_env("OTEL_SERVICE_NAME", "nightly")
        .with_env("TRACEPARENT", THEIRS);
    sandbox.write("jobs.yaml", FILE);
    let ended = sandbox.run(&["run", "jobs.yaml"]);
    assert_eq!(ended.code, 1, "{ended:?}");
    assert_eq!(collector.spans().len(), 5, "{:?}", collector.spans());
    assert!(collector.spans().iter().all(|span| span.trace() == TRACE && span.1 == "nightly"));

    let submit = collector.named("submit").remove(0);
    assert_eq!((submit.parent(), &submit.0["kind"]), (Some("00f067aa0ba902b7"), &json!(4)));
    assert_eq!(submit.attribute("runcue.jobs"), "3");

    let flaky = collector.named("run flaky");
    let attempts: Vec<Value> = flaky.iter().map(|span| span.attribute("runcue.attempt")).collect();
    assert_eq!(attempts, ["1", "2"]);
    assert!(flaky.iter().all(|span| span.parent() == Some(submit.id()) && span.0["kind"] == 5));
    assert_eq!(flaky[0].0["status"], json!({"code": 2, "message": "exit 1"}));
    assert_eq!(flaky[1].0["status"], Value::Null);
    assert_eq!(flaky[1].attribute("runcue.outcome"), "completed");
    let seen: Vec<String> = sandbox.read("flaky").lines().map(str::to_owned).collect();
    assert_eq!(seen, [flaky[0].traceparent(), flaky[1].traceparent()]);

    let bad = collector.named("run bad").remove(0);
    assert_eq!(bad.0["status"], json!({"code": 2, "message": "exit 3: broken"}));
    assert_eq!(bad.attribute("runcue.group"), "g");
    assert_eq!(bad.attribute("runcue.job.id").as_str().unwrap().len(), 32);
    let fine = collector.named("run fine").remove(0);
    assert_eq!(sandbox.read("fine").trim(), fine.traceparent());
    let nanos = |name: &str| fine.0[name].as_str().unwrap().parse::<u64>().unwrap();
    assert!(nanos("startTimeUnixNano") <= nanos("endTimeUnixNano"));
}

#[test]
fn what_is_added_here_and_run_there_is_one_trace() {
    let collector = Collector::new();
    let sandbox = Sandbox::new().with_env(ENDPOINT, &collector.url);
    let id = sandbox.add(&["--", "sh", "-c", "echo $TRACEPARENT > seen"]);
    let submit = collector.named("submit command").remove(0);
    assert_eq!(submit.parent(), None);
    assert_eq!(sandbox.show(&id)["traceparent"], submit.traceparent());
    sandbox.run(&["work", "--drain"]).ok();
    let run = collector.named("run command").remove(0);
    assert_eq!((run.trace(), run.parent()), (submit.trace(), Some(submit.id())));
    assert_eq!(sandbox.read("seen").trim(), run.traceparent());
}

#[test]
fn a_job_of_a_hub_and_its_attempts_at_an_agent_are_one_trace() {
    let collector = Collector::new();
    let mut scene = Scene::on(Sandbox::new().with_env(ENDPOINT, &collector.url), &[]);
    scene.sandbox.write("greet.sh", "#!/bin/sh\necho $TRACEPARENT\ntest $RUNCUE_ATTEMPT -gt 1\n");
    let program = scene.sandbox.path().join("greet.sh");
    make_executable(&program);
    let header = format!("traceparent: {THEIRS}\r\n");
    let body = json!({"type": "greet", "max_attempts": 2, "group": "g",
        "retry": {"base_delay": 0, "jitter": false}});
    let sent = call_with(scene.port(), "POST", "/api/jobs", &header, Some(&body)).unwrap();
    assert_eq!(sent.0, 201, "{sent:?}");
    let many = json!([{"type": "other"}, {"type": "other"}]);
    let bulk = call_with(scene.port(), "POST", "/api/jobs/bulk", &header, Some(&many)).unwrap();
    assert_eq!(bulk.0, 201, "{bulk:?}");
    let flag = format!("greet={}", program.display());
    let mut agent = scene.agent("w1", &["--program", &flag, "--type", "greet"]);
    let job = scene.wait_for(sent.1["id"].as_str().unwrap(), "completed");
    for process in [&mut agent, &mut scene.hub] {
        process.signal("-TERM");
        process.ended();
    }

    let submit = collector.named("submit greet").remove(0);
    assert_eq!((submit.trace(), submit.parent()), (TRACE, Some("00f067aa0ba902b7")));
    assert_eq!(job["traceparent"], submit.traceparent());
    let bulk = collector.named("submit").remove(0);
    assert_eq!((bulk.trace(), bulk.attribute("runcue.jobs")), (TRACE, json!("2")));
    let runs = collector.named("run greet");
    assert_eq!(runs.len(), 2);
    assert!(runs.iter().all(|run| run.trace() == TRACE && run.parent() == Some(submit.id())));
    assert!(runs.iter().all(|run| run.attribute("runcue.worker") == "w1"));
    assert_eq!(runs[0].0["status"], json!({"code": 2, "message": "exit 1"}));
    assert_eq!(runs[1].attribute("runcue.outcome"), "completed");
    let printed = job["result"]["stdout"].as_str().unwrap();
    assert_eq!(printed.trim(), runs[1].traceparent());
}

fn make_executable(path: &std::path::Path) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn a_collector_that_is_away_disturbs_nobody_and_is_told_of_once() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let sandbox = Sandbox::new().with_env(ENDPOINT, &format!("http://{free}"));
    sandbox.write("jobs.yaml", "jobs:\n  - { id: a, run: 'true' }\n  - { id: b, run: 'true' }\n");
    let ended = sandbox.run(&["run", "jobs.yaml"]);
    assert_eq!(ended.code, 0, "{ended:?}");
    let told = ended.stderr.matches("traces cannot be delivered").count();
    assert_eq!(told, 1, "{}", ended.stderr);
    assert!(ended.stdout.contains("2 of 2 jobs completed"), "{}", ended.stdout);
}

#[test]
fn without_an_endpoint_nothing_is_made_and_what_comes_is_passed_on() {
    let sandbox = Sandbox::new();
    let id = sandbox.add(&["--", "sh", "-c", "echo ${TRACEPARENT-none} > plain"]);
    assert_eq!(sandbox.show(&id)["traceparent"], Value::Null);
    let traced =
        |words: &[&str]| sandbox.command(words).env("TRACEPARENT", THEIRS).output().unwrap();
    let added = traced(&["add", "--", "sh", "-c", "echo $TRACEPARENT > passed"]);
    let id = String::from_utf8(added.stdout).unwrap();
    assert_eq!(sandbox.show(id.trim())["traceparent"], THEIRS);
    // The trace that a worker was started in is not that of its jobs.
    assert!(traced(&["work", "--drain"]).status.success());
    assert_eq!(sandbox.read("plain").trim(), "none");
    assert_eq!(sandbox.read("passed").trim(), THEIRS);
    let odd = sandbox.command(&["add", "--", "true"]).env("TRACEPARENT", "odd").output().unwrap();
    let id = String::from_utf8(odd.stdout).unwrap();
    assert_eq!(sandbox.show(id.trim())["traceparent"], Value::Null);
}

#[test]
fn an_agent_that_makes_no_spans_passes_on_the_trace_of_the_job_and_not_its_own() {
    let scene = Scene::on(Sandbox::new().with_env("TRACEPARENT", THEIRS), &[]);
    let command = |trace: Value| {
        let run = ["sh", "-c", "echo ${TRACEPARENT-none}"];
        scene.job(&json!({"type": "command", "params": {"run": run}, "traceparent": trace}))
    };
    let other = THEIRS.replace("4bf9", "aaaa");
    let (with, without) = (command(json!(other)), command(Value::Null));
    let _agent = scene.agent("w1", &["--allow-commands"]);
    let printed = |id: &str| scene.wait_for(id, "completed")["result"]["stdout"].clone();
    assert_eq!(printed(&with), format!("{other}\n"));
    assert_eq!(printed(&without), "none\n");
}

#[test]
fn a_malformed_header_is_ignored_and_a_malformed_field_is_refused() {
    let scene = Scene::new(&[]);
    let body = json!({"type": "t"});
    let post = |headers: &str, body: &Value| {
        call_with(scene.port(), "POST", "/api/jobs", headers, Some(body)).unwrap()
    };
    let good = format!("traceparent: {THEIRS}\r\n");
    for headers in ["traceparent: odd\r\n".to_owned(), good.to_uppercase(), good.repeat(2)] {
        let (status, answer) = post(&headers, &body);
        assert_eq!(status, 201, "{answer}");
        let id = answer["id"].as_str().unwrap();
        assert_eq!(scene.show(id)["traceparent"], Value::Null, "{headers}");
    }
    let (_, answer) =
        post(&good, &json!({"type": "t", "traceparent": THEIRS.replace("-01", "-00")}));
    let id = answer["id"].as_str().unwrap();
    assert_eq!(scene.show(id)["traceparent"], THEIRS.replace("-01", "-00"));
    let (status, answer) = post("", &json!({"type": "t", "traceparent": "odd"}));
    assert_eq!(status, 422, "{answer}");
    let told = answer["error"]["message"].as_str().unwrap();
    assert!(told.contains("traceparent must be") && told.contains("odd"), "{told}");

    let sandbox = Sandbox::new();
    let line = r#"{"run": ["true"], "traceparent": "odd"}"#;
    let told = sandbox.run_with(&["add", "--from", "-"], line).refused(2);
    assert!(told.contains("line 1: traceparent must be"), "{told}");
}

#[test]
fn a_protocol_that_is_not_ours_is_told_of_and_spans_go_on_as_json() {
    let collector = Collector::new();
    let sandbox = Sandbox::new().with_env(ENDPOINT, &collector.url);
    let mut command = sandbox.command(&["add", "--", "true"]);
    let ended = command.env("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf").output().unwrap();
    let told = String::from_utf8(ended.stderr).unwrap();
    assert!(told.contains("http/json") && told.contains("4318"), "{told}");
    assert_eq!(collector.spans().len(), 1);
}
