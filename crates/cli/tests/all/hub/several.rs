//! Several hubs on one queue: agents, claims and event streams go through any of them, and one that is killed
//! under load costs nobody more than a new connection. On a file, on PostgreSQL and on Redis.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Value, json};

use super::scene::{Files, Process, Scene, call, serve};
use crate::sandbox::Sandbox;

/// Two hubs, and what they share.
struct Pair {
    scene: Scene,
    other: Process,
    port: u16,
}

impl Pair {
    fn on(sandbox: Sandbox) -> Self {
        let flags = ["--lease", "5s", "--reap-every", "1s"];
        let scene = Scene::on(sandbox, &flags);
        let flags: Vec<String> = flags.iter().map(|flag| (*flag).to_owned()).collect();
        let (other, port) = serve(&scene.sandbox, 0, &flags);
        Self { scene, other, port }
    }

    fn other_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    fn ask_other(&self, method: &str, path: &str, body: Option<&Value>) -> (u16, Value) {
        call(self.port, method, path, body).unwrap()
    }
}

/// Events of a hub with their numbers, as they come, after a number. The connection ends with the hub.
fn follow(port: u16, after: Option<u64>) -> Receiver<(u64, Value)> {
    follow_stream(port, "/api/events", after)
}

/// The same of any stream.
fn follow_stream(port: u16, path: &str, after: Option<u64>) -> Receiver<(u64, Value)> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let resume = after.map(|id| format!("Last-Event-ID: {id}\r\n")).unwrap_or_default();
    // The older protocol has no chunks, so that a line of the stream is a line of the answer.
    let head = format!("GET {path} HTTP/1.0\r\nHost: localhost\r\n{resume}\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    let (tell, events) = channel();
    std::thread::spawn(move || {
        let mut id = None;
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            if let Some(number) = line.strip_prefix("id:") {
                id = number.trim().parse().ok();
            }
            if let Some(data) = line.strip_prefix("data:")
                && let (Some(id), Ok(event)) = (id.take(), serde_json::from_str(data))
                && tell.send((id, event)).is_err()
            {
                return;
            }
        }
    });
    events
}

/// The next events, up to one that holds.
fn until(
    events: &Receiver<(u64, Value)>,
    what: &str,
    mut holds: impl FnMut(&Value) -> bool,
) -> Vec<(u64, Value)> {
    let mut seen = Vec::new();
    loop {
        match events.recv_timeout(Duration::from_secs(60)) {
            Ok(event) => {
                let last = holds(&event.1);
                seen.push(event);
                if last {
                    return seen;
                }
            }
            Err(error) => panic!("{what} did not come ({error}); the last was {:?}", seen.last()),
        }
    }
}

fn completions(events: &[(u64, Value)]) -> usize {
    events.iter().filter(|(_, event)| event["type"] == "work_completed").count()
}

/// One of two hubs is killed while agents and a reader use it.
fn one_is_killed_under_load(sandbox: Sandbox) {
    const JOBS: usize = 200;
    let Pair { scene, mut other, port } = Pair::on(sandbox);
    let ledger = scene.sandbox.path().join("ledger");
    let script = format!("echo \"$RUNCUE_JOB_ID\" >> {}; sleep 0.05; echo 1", ledger.display());
    let files = Files::offer(&script);
    let second = format!("http://127.0.0.1:{port}");
    let hubs = [second.as_str(), &scene.url()];
    let _agents: Vec<_> = (0..3)
        .map(|n| scene.agent_of(&hubs, &format!("n{n}"), &["--jobs", "2", "--heartbeat", "1s"]))
        .collect();
    let events = follow(port, Some(0));
    let body: Vec<Value> = (0..JOBS).map(|n| files.job(&json!({"n": n}))).collect();
    let (status, answer) = scene.post("/api/jobs/bulk", &Value::Array(body));
    assert_eq!(status, 201, "{answer}");

    let mut done = 0;
    let mut seen = until(&events, "some work", |event| {
        done += usize::from(event["type"] == "work_completed");
        done > 20
    });
    other.kill();
    seen.extend(events.iter());
    let done = completions(&seen);
    assert!(done < JOBS, "the hub was killed while there was work");

    // The reader comes back to the other hub with the last number it has seen.
    let last = seen.last().map(|(id, _)| *id);
    let events = follow(scene.port(), last);
    let mut left = JOBS - done;
    seen.extend(until(&events, "the rest", |event| {
        left -= usize::from(event["type"] == "work_completed");
        left == 0
    }));
    assert!(seen.windows(2).all(|pair| pair[0].0 < pair[1].0), "no event twice, none out of order");
    let mut runs: BTreeMap<String, usize> = BTreeMap::new();
    for line in scene.sandbox.read("ledger").lines() {
        *runs.entry(line.to_owned()).or_default() += 1;
    }
    assert_eq!(runs.len(), JOBS, "every acknowledged job ran");
    assert!(runs.values().all(|count| *count == 1), "what ran went on, and was reported elsewhere");
}

/// What is done through one hub is seen, claimed, reported and cancelled through the other.
fn any_hub_will_do(sandbox: Sandbox) {
    let pair = Pair::on(sandbox);
    let scene = &pair.scene;
    let events = follow(pair.port, Some(0));
    let told =
        [scene.port(), pair.port].map(|port| follow_stream(port, "/api/jobs/events", Some(0)));

    // A claim that waits at one hub takes a job that is submitted to the other.
    let worker = json!({"worker_id": "w1", "cores": 1, "ram_gb": 1, "tags": [], "types": ["hand"]});
    let (status, answer) = pair.ask_other("POST", "/api/workers/register", Some(&worker));
    assert!(status < 300, "{answer}");
    let port = pair.port;
    let claim = std::thread::spawn(move || {
        let wanted = json!({"worker_id": "w1", "types": ["hand"], "wait": 30});
        call(port, "POST", "/api/jobs/claim", Some(&wanted)).unwrap()
    });
    let id = scene.job(&json!({"type": "hand", "params": {"x": 1}}));
    let (status, claimed) = claim.join().unwrap();
    assert_eq!(status, 200, "{claimed}");
    assert!(claimed.to_string().contains(&id), "{claimed}");

    // Both tell of the claim when it was made, and by whom; nobody has begun yet.
    for events in &told {
        let seen =
            until(events, "the claim in each hub's stream", |event| event["state"] == "leased");
        let claim = &seen.last().unwrap().1;
        assert_eq!((&claim["id"], &claim["status"]), (&json!(id), &json!("assigned")), "{claim}");
        assert_eq!(claim["worker_id"], "w1", "{claim}");
        assert_eq!(seen.len(), 2, "submitted, then claimed: {seen:?}");
    }

    // Reported to the hub that did not hand it out.
    let beat = json!({"worker_id": "w1"});
    let (status, answer) = scene.post(&format!("/api/jobs/{id}/heartbeat"), &beat);
    assert_eq!(status, 204, "{answer}");
    let result = json!({"worker_id": "w1", "result": {"y": 2}});
    let (status, answer) = scene.post(&format!("/api/jobs/{id}/result"), &result);
    assert_eq!(status, 200, "{answer}");
    let (_, job) = pair.ask_other("GET", &format!("/api/jobs/{id}"), None);
    assert_eq!((&job["state"], &job["result"]), (&json!("completed"), &json!({"y": 2})));
    for port in [scene.port(), pair.port] {
        let (_, listed) = call(port, "GET", "/api/jobs?type=hand", None).unwrap();
        assert_eq!(listed[0]["worker_id"], "w1", "who ran it, in lists as well: {listed}");
    }
    until(&events, "the completion in the other hub's stream", |event| {
        event["type"] == "work_completed" && event["job"] == id.as_str()
    });

    // An agent of one hub is told of a cancel that the other was asked for.
    let files = Files::offer("sleep 1000");
    let _agent = scene.agent_of(&[&pair.other_url()], "n1", &["--heartbeat", "1s"]);
    let long = scene.job(&files.job(&json!({})));
    scene.wait_for(&long, "running");
    let (_, workers) = scene.get("/api/workers");
    assert!(workers.to_string().contains("n1"), "{workers}");
    let (status, answer) = scene.post(&format!("/api/jobs/{long}/cancel"), &json!({}));
    assert!(status < 300, "{answer}");
    scene.wait_for(&long, "cancelled");

    // What a machine pushes to one is shown by the other.
    let measured = json!({"name": "One", "cpu": 12.5, "mem_used_gb": 1, "mem_total_gb": 2});
    let (status, answer) = scene.post("/api/ingest/machine-1", &measured);
    assert_eq!(status, 204, "{answer}");
    let mut node = Value::Null;
    scene.until("the machine in the other hub's fleet", |_| {
        let (_, fleet) = pair.ask_other("GET", "/api/fleet", None);
        let nodes = fleet.as_array().cloned().unwrap_or_default();
        let found = nodes.into_iter().find(|one| one["node"] == "machine-1");
        node = found.unwrap_or_default();
        !node.is_null()
    });
    assert_eq!((&node["name"], &node["online"]), (&json!("One"), &json!(true)), "{node}");
    assert_eq!(node["latest"]["cpu"], 12.5, "{node}");

    // A service that is changed through one limits what is claimed through the other.
    let full = json!({"max_concurrent": 0});
    let (status, answer) = call(scene.port(), "PUT", "/api/services/gpu", Some(&full)).unwrap();
    assert!(status < 300, "{answer}");
    let kept = scene.job(&json!({"type": "hand", "services": ["gpu"]}));
    let wanted = json!({"worker_id": "w1", "types": ["hand"]});
    let (status, answer) = pair.ask_other("POST", "/api/jobs/claim", Some(&wanted));
    assert_eq!(status, 204, "{answer}");
    assert_eq!(scene.show(&kept)["status"], "pending");
}

#[test]
fn one_of_two_hubs_on_a_file_is_killed_under_load_and_nobody_notices() {
    one_is_killed_under_load(Sandbox::new());
}

#[test]
fn any_hub_on_a_file_will_do() {
    any_hub_will_do(Sandbox::new());
}

#[cfg(feature = "postgres")]
#[test]
fn one_of_two_hubs_on_postgres_is_killed_under_load_and_nobody_notices() {
    let database = runcue_test_servers::postgres().unwrap();
    one_is_killed_under_load(Sandbox::on(&database.url()));
}

#[cfg(feature = "postgres")]
#[test]
fn any_hub_on_postgres_will_do() {
    let database = runcue_test_servers::postgres().unwrap();
    any_hub_will_do(Sandbox::on(&database.url()));
}

#[cfg(feature = "redis")]
#[test]
fn one_of_two_hubs_on_redis_is_killed_under_load_and_nobody_notices() {
    let prefix = runcue_test_servers::redis().unwrap();
    one_is_killed_under_load(Sandbox::on(&prefix.url()));
}

#[cfg(feature = "redis")]
#[test]
fn any_hub_on_redis_will_do() {
    let prefix = runcue_test_servers::redis().unwrap();
    any_hub_will_do(Sandbox::on(&prefix.url()));
}
