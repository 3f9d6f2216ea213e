//! What a hub says of its health while the server that its queue is on is away, frozen, and back.

use std::time::Instant;

use serde_json::{Value, json};

use super::scene::{Files, Scene};
use crate::fleet::server::Server;
use crate::sandbox::Sandbox;

/// Nobody who looks after a service waits longer for it to say how it is.
const PROMPT: std::time::Duration = std::time::Duration::from_secs(8);

fn health(scene: &Scene) -> (u16, Value) {
    let asked = Instant::now();
    let health = scene.get("/healthz");
    let took = asked.elapsed();
    assert!(took < PROMPT, "it took {took:?} to say {health:?}");
    health
}

/// It says that it is well, that the server is away and what is to be done, and that it is well again; work that waited is
/// done. Nobody has to start anything anew.
fn a_hub_says_that_its_server_is_away_and_back(mut server: Server, words: &[&str]) {
    let scene = Scene::on(Sandbox::on(&server.url()), &["--lease", "3s", "--reap-every", "1s"]);
    let _agent = scene.agent("n1", &["--heartbeat", "1s"]);
    let files = Files::offer("echo 1");
    let before = scene.job(&files.job(&json!({"n": 1})));
    scene.wait_for(&before, "completed");
    let (status, well) = health(&scene);
    assert_eq!((status, &well["status"]), (200, &json!("ok")), "{well}");

    server.kill();
    scene.until("it is said that the server is away", |scene| {
        let (status, health) = health(scene);
        let told = health["message"].as_str().unwrap_or_default();
        status == 503 && health["status"] == "away" && words.iter().all(|word| told.contains(word))
    });
    server.restart();
    scene.until("it is well again", |scene| {
        let (status, health) = health(scene);
        status == 200 && health["status"] == "ok"
    });
    let after = scene.job(&files.job(&json!({"n": 2})));
    scene.wait_for(&after, "completed");

    // A server that stands still ends no connection: only its silence says so.
    server.freeze();
    scene.until("it is said that the server is silent", |scene| {
        let (status, health) = health(scene);
        status == 503 && health["status"] == "away"
    });
    server.thaw();
    scene.until("it is well once more", |scene| health(scene).0 == 200);
    let last = scene.job(&files.job(&json!({"n": 3})));
    scene.wait_for(&last, "completed");
}

#[test]
fn a_hub_says_that_its_postgres_is_away_and_back() {
    let server = Server::postgres();
    let place = format!("127.0.0.1:{}", server.port());
    a_hub_says_that_its_server_is_away_and_back(server, &[&place]);
}

#[test]
fn a_hub_says_that_its_redis_is_away_and_back() {
    let server = Server::redis();
    let place = format!("127.0.0.1:{}", server.port());
    a_hub_says_that_its_server_is_away_and_back(server, &[&place]);
}
