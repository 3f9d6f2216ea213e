//! Submitting: what is refused and how, many at once, and a queue that is full.

use reqwest::Method;
use serde_json::json;

use crate::server::{Server, answer};

#[tokio::test]
async fn a_hundred_thousand_jobs_go_in_with_one_call_as_lines() {
    let hub = Server::open().await;
    let lines = "{\"type\":\"a\"}\n".repeat(100_000);
    let request = hub.request(Method::POST, "/api/jobs/bulk");
    let request = request.header("content-type", "application/x-ndjson").body(lines);
    let answered = answer(request.send().await.unwrap()).await;
    assert_eq!(answered.status, 201);
    assert_eq!(answered.body["jobs"].as_array().unwrap().len(), 100_000);
    assert_eq!(hub.get("/api/status").await.body["counts"]["queued"], 100_000);
}

#[tokio::test]
async fn a_bulk_submission_is_all_or_none_and_names_the_job() {
    let hub = Server::open().await;
    let jobs = json!([{"type": "a"}, {"type": "b", "services": ["nowhere"]}]);
    let refused = hub.post("/api/jobs/bulk", jobs).await;
    assert_eq!(refused.status, 422);
    assert!(refused.body["error"]["message"].as_str().unwrap().contains("job 1"));
    let lines = "{\"type\":\"a\"}\n{\"typ\":\"b\"}\n";
    let request = hub.request(Method::POST, "/api/jobs/bulk");
    let request = request.header("content-type", "application/x-ndjson").body(lines);
    let refused = answer(request.send().await.unwrap()).await;
    assert!(refused.body["error"]["message"].as_str().unwrap().starts_with("line 2"));
    assert_eq!(hub.get("/api/jobs").await.body, json!([]));
}

#[tokio::test]
async fn jobs_of_one_submission_may_wait_for_each_other() {
    let hub = Server::open().await;
    let first = "0192d3f0a1b27c3d8e4f5a6b7c8d9e0f";
    let jobs = json!([{"type": "b", "depends_on": [first]}, {"type": "a", "id": first}]);
    let ids = hub.post("/api/jobs/bulk", jobs).await.body;
    let waiting = ids["jobs"][0]["id"].as_str().unwrap();
    let job = hub.get(&format!("/api/jobs/{waiting}")).await.body;
    assert_eq!(job["why"][0]["reason"], "prerequisites");
    assert_eq!(job["prerequisites"][0]["id"], first);
    let parent = hub.get(&format!("/api/jobs/{first}")).await.body;
    assert_eq!(parent["dependents"][0]["id"], waiting);
}

#[tokio::test]
async fn an_idempotency_key_answers_with_the_job_that_is_there() {
    let hub = Server::open().await;
    let body = json!({"type": "a", "idempotency_key": "k"});
    let first = hub.post("/api/jobs", body.clone()).await;
    let second = hub.post("/api/jobs", body).await;
    assert_eq!((first.status.as_u16(), second.status.as_u16()), (201, 200));
    assert_eq!(first.body["id"], second.body["id"]);
    assert_eq!(second.body["new"], false);
}

#[tokio::test]
async fn a_full_queue_answers_429_and_says_when_to_come_back() {
    let hub = Server::open().await;
    let cap = json!({"max_queued": 1, "on_full": "block"});
    assert_eq!(hub.send(Method::PUT, "/api/queues/default", cap).await.status, 200);
    hub.job("a").await;
    let full = hub.post("/api/jobs", json!({"type": "a"})).await;
    assert_eq!((full.status.as_u16(), full.code()), (429, "queue_full"));
    assert!(full.headers.contains_key("retry-after"));
}

#[tokio::test]
async fn bad_bodies_are_refused_with_the_place() {
    let hub = Server::open().await;
    let text = |body: &'static str, kind: &'static str| {
        let request = hub.request(Method::POST, "/api/jobs").header("content-type", kind);
        async move { answer(request.body(body).send().await.unwrap()).await }
    };
    let broken = text("{\"type\":", "application/json").await;
    assert_eq!((broken.status.as_u16(), broken.code()), (400, "bad_request"));
    let form = text("type=a", "application/x-www-form-urlencoded").await;
    assert_eq!((form.status.as_u16(), form.code()), (415, "unsupported_media_type"));
    let unknown = hub.post("/api/jobs", json!({"type": "a", "prority": 1})).await;
    assert!(unknown.body["error"]["message"].as_str().unwrap().contains("`prority`"));
    let nameless = hub.post("/api/jobs", json!({"params": {}})).await;
    assert!(nameless.body["error"]["message"].as_str().unwrap().contains("`type`"));
    let large = json!({"type": "a", "params": "x".repeat(2 * 1024 * 1024)});
    let large = hub.post("/api/jobs", large).await;
    assert!(large.body["error"]["message"].as_str().unwrap().contains("params"));
    let huge = json!({"type": "a", "params": "x".repeat(5 * 1024 * 1024)});
    assert_eq!(hub.post("/api/jobs", huge).await.code(), "too_large");
    assert_eq!(hub.get("/api/jobs/not-an-id").await.status, 404);
    assert_eq!(hub.send(Method::PUT, "/api/jobs", json!({})).await.code(), "method_not_allowed");
}
