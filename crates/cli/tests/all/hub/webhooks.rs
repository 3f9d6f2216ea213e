//! Webhooks with the real binary: what the command line says, and that what a receiver has to be told survives a
//! receiver that is away, a hub that is killed, and several hubs on one queue.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::scene::{Process, Scene, call, serve};
use crate::sandbox::Sandbox;

const FLAGS: [&str; 4] = ["--lease", "3s", "--reap-every", "1s"];

/// A receiver: a place that is known before anybody listens there.
struct Receiver {
    port: u16,
    sent: Arc<Mutex<Vec<Value>>>,
}

impl Receiver {
    fn away() -> Self {
        // The port is free again when the listener goes, and nobody else is given it so soon.
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        Self { port, sent: Arc::default() }
    }

    fn new() -> Self {
        let receiver = Self::away();
        receiver.listen();
        receiver
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}/hook", self.port)
    }

    fn listen(&self) {
        let listener = TcpListener::bind(("127.0.0.1", self.port)).unwrap();
        let sent = Arc::clone(&self.sent);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(mut stream) = stream else { return };
                let mut reader = BufReader::new(stream.try_clone().unwrap());
                let (mut line, mut length) = (String::new(), 0);
                while reader.read_line(&mut line).is_ok_and(|read| read > 2) {
                    if let Some((name, value)) = line.split_once(':')
                        && name.eq_ignore_ascii_case("content-length")
                    {
                        length = value.trim().parse().unwrap();
                    }
                    line.clear();
                }
                let mut body = vec![0; length];
                // A hub that was killed in the middle has told nothing.
                if reader.read_exact(&mut body).is_ok() && length > 0 {
                    sent.lock().unwrap().push(serde_json::from_slice(&body).unwrap());
                }
                let _ = stream.write_all(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n");
            }
        });
    }

    fn jobs(&self) -> Vec<String> {
        let sent = self.sent.lock().unwrap();
        let mut jobs: Vec<String> =
            sent.iter().map(|one| one["job"]["id"].as_str().unwrap().to_owned()).collect();
        jobs.sort();
        jobs
    }
}

/// A job that is done, through the hub at a port.
fn done(port: u16) -> String {
    let post = |path: &str, body: Value| call(port, "POST", path, Some(&body)).unwrap();
    let (status, job) = post("/api/jobs", json!({"type": "hand"}));
    assert_eq!(status, 201, "{job}");
    let id = job["id"].as_str().unwrap().to_owned();
    let (status, claimed) = post("/api/jobs/claim", json!({"worker_id": "w"}));
    assert_eq!((status, claimed["id"].as_str()), (200, Some(&*id)), "{claimed}");
    let result = json!({"worker_id": "w", "result": 1});
    let (status, answer) = post(&format!("/api/jobs/{id}/result"), result);
    assert_eq!(status, 200, "{answer}");
    id
}

fn deliveries(scene: &Scene) -> Vec<Value> {
    let (_, listed) = scene.get("/api/jobs?type=runcue.webhook&limit=500");
    listed.as_array().unwrap().clone()
}

fn all_delivered(scene: &Scene, count: usize) {
    scene.until("the end of all deliveries", |scene| {
        let all = deliveries(scene);
        all.len() == count && all.iter().all(|one| one["state"] == "completed")
    });
}

#[test]
fn a_webhook_is_added_listed_and_removed_on_the_command_line() {
    let sandbox = Sandbox::new();
    let words = ["--events", "failed,quarantined", "--task", "t", "--group", "g", "--json"];
    let add = ["webhook", "add", "https://example.org/hook"];
    let made = sandbox.run(&[&add[..], &words].concat()).json();
    let id = made["id"].as_str().unwrap();
    assert!(made["secret"].as_str().unwrap().starts_with("rcw_"));
    let listed = sandbox.run(&["webhook", "list", "--json"]).json();
    let mut expected = made.clone();
    expected.as_object_mut().unwrap().remove("secret");
    assert_eq!(listed, json!({"webhooks": [expected]}));
    let told = sandbox.run(&["webhook", "list"]).ok();
    for part in [id, "https://example.org/hook", "failed,quarantined", "task t", "group g"] {
        assert!(told.contains(part), "{told}");
    }
    let removed = sandbox.run(&["webhook", "remove", id, "--json"]).json();
    assert_eq!(removed, json!({"webhooks": []}));
    let refused = sandbox.run(&["webhook", "remove", id]).refused(1);
    assert!(refused.contains("webhook list"), "{refused}");
    let refused = sandbox.run(&["webhook", "add", "ftp://example.org"]).refused(2);
    assert!(refused.contains("url: a receiver is reached by http or https"), "{refused}");
    let refused = sandbox.run(&[&add[..], &["--events", "running"]].concat());
    assert!(refused.code == 2 && refused.stderr.contains("completed, failed"), "{refused:?}");
    let mut given = sandbox.command(&add);
    let given = given.env("RUNCUE_WEBHOOK_SECRET", "0123456789abcdef").output().unwrap();
    assert_eq!(String::from_utf8(given.stdout).unwrap().trim(), "0123456789abcdef");
}

#[test]
fn what_a_receiver_that_is_away_has_to_be_told_outlives_a_killed_hub() {
    let receiver = Receiver::away();
    let mut scene = Scene::new(&FLAGS);
    scene.sandbox.run(&["webhook", "add", &receiver.url()]).ok();
    let ids = vec![done(scene.port()), done(scene.port())];
    scene.until("failed tries", |scene| {
        let all = deliveries(scene);
        all.len() == 2 && all.iter().all(|one| one["fail_history"] != json!([]))
    });
    scene.hub.kill();
    receiver.listen();
    scene.restart();
    all_delivered(&scene, 2);
    assert_eq!(receiver.jobs(), ids, "each once");
}

#[test]
fn what_ended_while_no_hub_was_there_is_told_when_one_is() {
    let receiver = Receiver::new();
    let mut scene = Scene::new(&FLAGS);
    scene.sandbox.run(&["webhook", "add", &receiver.url()]).ok();
    scene.hub.kill();
    let id = scene.sandbox.add(&["--", "true"]);
    scene.sandbox.run(&["work", "--drain"]).ok();
    assert_eq!(scene.sandbox.state(&id), "completed");
    assert_eq!(receiver.jobs().len(), 0);
    scene.restart();
    all_delivered(&scene, 1);
    assert_eq!(receiver.jobs(), [id]);
}

/// Two hubs read the same events, and each is told once.
fn two_hubs_tell_once(sandbox: Sandbox) {
    const JOBS: usize = 30;
    let receiver = Receiver::new();
    let scene = Scene::on(sandbox, &FLAGS);
    let (_other, port) = serve(&scene.sandbox, 0, &FLAGS.map(str::to_owned));
    scene.sandbox.run(&["webhook", "add", &receiver.url()]).ok();
    let both = [scene.port(), port];
    let mut ids: Vec<String> = (0..JOBS).map(|n| done(both[n % 2])).collect();
    all_delivered(&scene, JOBS);
    ids.sort();
    assert_eq!(receiver.jobs(), ids);
}

#[test]
fn two_hubs_on_a_file_tell_a_receiver_of_each_event_once() {
    two_hubs_tell_once(Sandbox::new());
}

#[cfg(feature = "postgres")]
#[test]
fn two_hubs_on_postgres_tell_a_receiver_of_each_event_once() {
    let database = runcue_test_servers::postgres().unwrap();
    two_hubs_tell_once(Sandbox::on(&database.url()));
}

#[cfg(feature = "redis")]
#[test]
fn two_hubs_on_redis_tell_a_receiver_of_each_event_once() {
    let prefix = runcue_test_servers::redis().unwrap();
    two_hubs_tell_once(Sandbox::on(&prefix.url()));
}

/// The receiver of the documentation.
fn documented() -> String {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/hub.md");
    let text = std::fs::read_to_string(page).unwrap();
    let (_, rest) = text.split_once("```python\n").unwrap();
    rest.split_once("```").unwrap().0.to_owned()
}

#[test]
fn the_documented_receiver_takes_what_is_genuine_and_nothing_else() {
    let receiver = Receiver::away();
    let scene = Scene::new(&FLAGS);
    let made = scene.sandbox.run(&["webhook", "add", &receiver.url(), "--json"]).json();
    scene.sandbox.write("receiver.py", &documented());
    let mut python = Command::new("python3");
    let path = scene.sandbox.path().join("receiver.py");
    python.arg(path).env("SECRET", made["secret"].as_str().unwrap());
    python.env("PORT", receiver.port.to_string()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut python = Process(python.spawn().unwrap());
    let id = done(scene.port());
    let mut line = String::new();
    BufReader::new(python.0.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line.trim(), format!("completed {id}"));
    all_delivered(&scene, 1);
    let mut forged = TcpStream::connect(("127.0.0.1", receiver.port)).unwrap();
    let head = "POST /hook HTTP/1.0\r\nContent-Length: 2\r\nruncue-timestamp: 1\r\n\
                runcue-signature: v1=00\r\n\r\n{}";
    forged.write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    forged.read_to_string(&mut answer).unwrap();
    assert!(answer.contains(" 401 "), "{answer}");
}

#[test]
fn webhooks_move_with_a_queue_and_tell_of_what_happens_there() {
    let receiver = Receiver::new();
    let sandbox = Sandbox::new();
    sandbox.run(&["webhook", "add", &receiver.url()]).ok();
    let before = sandbox.add(&["--", "true"]);
    sandbox.run(&["work", "--drain"]).ok();
    assert_eq!(sandbox.state(&before), "completed");
    sandbox.run(&["move", "sqlite:.runcue/queue.db", "sqlite:moved.db"]).ok();
    let moved = sandbox.run(&["--store", "sqlite:moved.db", "webhook", "list", "--json"]).json();
    assert_eq!(moved["webhooks"].as_array().unwrap().len(), 1);
    let mut there = vec!["--store".to_owned(), "sqlite:moved.db".to_owned()];
    there.extend(FLAGS.map(str::to_owned));
    let (_hub, port) = serve(&sandbox, 0, &there);
    let id = done(port);
    let until = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while receiver.jobs().is_empty() && std::time::Instant::now() < until {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert_eq!(receiver.jobs(), [id]);
}
