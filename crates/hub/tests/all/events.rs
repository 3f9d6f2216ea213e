//! Event streams: the documented one, everything, resuming, and what they show to whom.

use std::sync::Arc;

use reqwest::Method;
use runcue_hub::{HubConfig, Role, StaticToken};
use runcue_store::MemoryStore;
use serde_json::json;

use crate::server::{Server, read_until};

#[tokio::test]
async fn the_documented_stream_tells_of_a_jobs_life() {
    let hub = Server::open().await;
    let stream = hub.request(Method::GET, "/api/jobs/events").send().await.unwrap();
    assert_eq!(stream.headers()["content-type"], "text/event-stream");
    let id = hub.job("a").await;
    hub.claim("w").await;
    hub.post(&format!("/api/jobs/{id}/heartbeat"), json!({"worker_id": "w"})).await;
    hub.post(&format!("/api/jobs/{id}/result"), json!({"worker_id": "w", "result": 1})).await;
    let seen = read_until(stream, "job:completed").await;
    assert!(seen.contains("event: job:created") && seen.contains("event: job:assigned"));
    assert!(seen.contains(&id));
}

/// What a stream has told of a job: the word and the status of each.
fn told<'a>(seen: &'a str, id: &str) -> Vec<(&'a str, String)> {
    let frames = seen.split("\n\n").filter(|frame| frame.contains(id));
    let read = |frame: &'a str| {
        let line = |name: &str| frame.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        let data: serde_json::Value = serde_json::from_str(line("data: ")).unwrap();
        (line("event: "), data["status"].as_str().unwrap().to_owned())
    };
    frames.map(read).collect()
}

#[tokio::test]
async fn a_claim_is_told_when_it_is_made_and_not_only_with_the_first_heartbeat() {
    let hub = Server::open().await;
    for path in ["/api/jobs/events", "/api/jobs/events?after=0"] {
        let stream = hub.request(Method::GET, path).send().await.unwrap();
        let id = hub.job("a").await;
        hub.claim("w").await;
        let text = format!("\"id\":\"{id}\",\"type\":\"a\",\"status\":\"assigned\"");
        let seen = read_until(stream, &text).await;
        let expected = [("job:created", "pending"), ("job:assigned", "assigned")];
        assert_eq!(told(&seen, &id), expected.map(|(word, status)| (word, status.to_owned())));
        let claim = seen.split("\n\n").find(|frame| frame.contains(&text)).unwrap();
        assert!(claim.contains("\"worker_id\":\"w\""), "{claim}");
        assert!(claim.contains("id: "), "a reader resumes after it like after any other");
        hub.post(&format!("/api/jobs/{id}/result"), json!({"worker_id": "w", "result": 1})).await;
    }
}

#[tokio::test]
async fn a_claim_is_told_before_whatever_comes_of_it() {
    let hub = Server::open().await;
    let stream = hub.request(Method::GET, "/api/jobs/events").send().await.unwrap();
    let mut ids = Vec::new();
    for n in 0..40 {
        let id = hub.job("a").await;
        hub.claim("w").await;
        if n % 2 == 0 {
            hub.post(&format!("/api/jobs/{id}/heartbeat"), json!({"worker_id": "w"})).await;
        }
        let result = json!({"worker_id": "w", "result": 1});
        hub.post(&format!("/api/jobs/{id}/result"), result).await;
        ids.push(id);
    }
    let last = hub.job("last").await;
    let seen = read_until(stream, &last).await;
    for (n, id) in ids.iter().enumerate() {
        let mut expected = vec![("job:created", "pending"), ("job:assigned", "assigned")];
        if n % 2 == 0 {
            expected.push(("job:assigned", "running"));
        }
        expected.push(("job:completed", "completed"));
        let expected: Vec<_> =
            expected.iter().map(|(word, status)| (*word, (*status).to_owned())).collect();
        assert_eq!(told(&seen, id), expected);
    }
}

#[tokio::test]
async fn a_claim_at_one_hub_is_told_by_another_with_the_name_of_its_worker() {
    let store: Arc<dyn runcue_store::Store> = Arc::new(MemoryStore::new());
    let one = Server::on(Arc::clone(&store), HubConfig::default()).await;
    let two = Server::on(Arc::clone(&store), HubConfig::default()).await;
    // One that never registered, one that has, and one that comes to a stream which begins in the past.
    one.post("/api/workers/register", json!({"worker_id": "known"})).await;
    for (worker, path) in [
        ("stranger", "/api/jobs/events"),
        ("known", "/api/jobs/events"),
        ("late", "/api/jobs/events?after=0"),
    ] {
        let stream = two.request(Method::GET, path).send().await.unwrap();
        let id = one.job("a").await;
        one.claim(worker).await;
        let seen = read_until(stream, &format!("\"worker_id\":\"{worker}\"")).await;
        let expected = [("job:created", "pending"), ("job:assigned", "assigned")];
        assert_eq!(told(&seen, &id), expected.map(|(word, status)| (word, status.to_owned())));
    }
    let all = two.request(Method::GET, "/api/events?after=0").send().await.unwrap();
    let seen = read_until(all, "\"worker_id\":\"late\"").await;
    assert_eq!(seen.matches("event: work_leased").count(), 3, "{seen}");
    assert!(!seen.contains("work_started"), "nobody has begun");
}

#[tokio::test]
async fn a_reader_resumes_after_the_last_event_it_saw() {
    let hub = Server::open().await;
    for _ in 0..5 {
        hub.job("a").await;
    }
    let last = hub.get("/api/status").await.body["last_event"].as_u64().unwrap();
    let resumed = hub.request(Method::GET, "/api/events").header("Last-Event-ID", last - 2);
    let seen = read_until(resumed.send().await.unwrap(), &format!("id: {last}\n")).await;
    assert!(!seen.contains(&format!("id: {}\n", last - 2)));
    assert!(seen.contains(&format!("id: {}\n", last - 1)));
    let after = hub.request(Method::GET, "/api/events?after=0").send().await.unwrap();
    let seen = read_until(after, &format!("id: {last}\n")).await;
    assert_eq!(seen.matches("event: work_queued").count(), 5);
    let bad = hub.request(Method::GET, "/api/events").header("Last-Event-ID", "x").send().await;
    assert_eq!(bad.unwrap().status(), 422);
}

#[tokio::test]
async fn without_a_token_the_stream_carries_no_payload() {
    let token = StaticToken { name: "t".into(), role: Role::Admin, secret: "secret".into() };
    let hub = Server::with(HubConfig { tokens: vec![token], ..HubConfig::default() }).await;
    let admin = hub.as_token("secret");
    let bare = hub.request(Method::GET, "/api/jobs/events").send().await.unwrap();
    assert_eq!(bare.status(), 200);
    let full = admin.request(Method::GET, "/api/jobs/events").send().await.unwrap();
    let body = json!({"type": "a", "max_attempts": 1, "group": "hidden-group"});
    let id = admin.post("/api/jobs", body).await.body["id"].as_str().unwrap().to_owned();
    admin.claim("hidden-worker").await;
    let fail = json!({"worker_id": "hidden-worker", "reason": "hidden reason"});
    admin.post(&format!("/api/jobs/{id}/fail"), fail).await;
    let bare = read_until(bare, "job:quarantined").await;
    assert!(bare.contains(&id) && !bare.contains("hidden"), "{bare}");
    let full = read_until(full, "job:quarantined").await;
    assert!(full.contains("hidden reason") && full.contains("hidden-worker"), "{full}");
    let all = hub.request(Method::GET, "/api/events").send().await.unwrap();
    assert_eq!(all.status(), 401);
}
