//! Acting on many jobs: by filter, with a rehearsal, and never on everything by accident.

use serde_json::{Value, json};

use crate::server::Server;

async fn quarantined(hub: &Server, kind: &str) -> String {
    let body = json!({"type": kind, "max_attempts": 1});
    let id = hub.post("/api/jobs", body).await.body["id"].as_str().unwrap().to_owned();
    hub.post("/api/jobs/claim", json!({"worker_id": "w", "types": [kind]})).await;
    let fail = json!({"worker_id": "w", "reason": "x"});
    hub.post(&format!("/api/jobs/{id}/fail"), fail).await;
    id
}

#[tokio::test]
async fn an_action_without_a_filter_is_refused() {
    let hub = Server::open().await;
    hub.job("a").await;
    let refused = hub.post("/api/jobs/cancel", json!({})).await;
    assert_eq!(refused.status, 422);
    assert!(refused.body["error"]["help"].as_str().unwrap().contains("all"));
    let wanted = hub.post("/api/jobs/cancel", json!({"all": true})).await;
    assert_eq!(wanted.body["count"], 1);
}

#[tokio::test]
async fn a_rehearsal_counts_what_would_be_done_and_does_nothing() {
    let hub = Server::open().await;
    let jobs: Vec<Value> = (0..30)
        .map(|n| json!({"type": if n < 10 { "a" } else { "b" }, "group": format!("g{}", n % 3)}))
        .collect();
    hub.post("/api/jobs/bulk", Value::Array(jobs)).await;
    for (filter, count) in [
        (json!({"type": "a"}), 10),
        (json!({"group": "g0"}), 10),
        (json!({"status": "pending"}), 30),
        (json!({"type": "b", "group": "g1"}), 7),
    ] {
        let body = json!({"filter": filter, "dry_run": true});
        let counted = hub.post("/api/jobs/cancel", body).await.body;
        assert_eq!(counted, json!({"count": count, "dry_run": true}), "{filter}");
    }
    let done = hub.post("/api/jobs/cancel", json!({"filter": {"type": "a"}})).await.body;
    assert_eq!(done, json!({"count": 10, "dry_run": false}));
    assert_eq!(hub.get("/api/status").await.body["counts"]["queued"], 20);
}

#[tokio::test]
async fn quarantined_jobs_are_replayed_one_by_one_or_all() {
    let hub = Server::open().await;
    let first = quarantined(&hub, "a").await;
    quarantined(&hub, "b").await;
    quarantined(&hub, "c").await;
    assert_eq!(
        hub.post(&format!("/api/jobs/{first}/retry"), json!({})).await.body["status"],
        "pending"
    );
    let again = hub.post(&format!("/api/jobs/{first}/retry"), json!({})).await;
    assert_eq!(again.code(), "conflict");
    let rehearsed = hub.post("/api/quarantine/replay", json!({"all": true, "dry_run": true})).await;
    assert_eq!(rehearsed.body["count"], 2);
    assert_eq!(hub.post("/api/quarantine/replay", json!({"all": true})).await.body["count"], 2);
    assert_eq!(hub.get("/api/quarantine").await.body, json!([]));
}

#[tokio::test]
async fn a_group_is_paused_resumed_retried_and_cancelled() {
    let hub = Server::open().await;
    for _ in 0..3 {
        hub.post("/api/jobs", json!({"type": "a", "group": "g"})).await;
    }
    assert_eq!(hub.post("/api/groups/g/pause", json!({})).await.body["changed"], true);
    assert_eq!(hub.post("/api/jobs/claim", json!({"worker_id": "w"})).await.status, 204);
    let groups = hub.get("/api/groups").await.body;
    assert_eq!((&groups[0]["name"], &groups[0]["paused"]), (&json!("g"), &json!(true)));
    assert_eq!(hub.post("/api/groups/g/resume", json!({})).await.body["changed"], true);
    let rehearsed = hub.post("/api/groups/g/cancel", json!({"dry_run": true})).await.body;
    assert_eq!(rehearsed["count"], 3);
    assert_eq!(hub.post("/api/groups/g/cancel", json!({})).await.body["count"], 3);
    assert_eq!(hub.post("/api/groups/g/retry", json!({})).await.body["count"], 3);
    assert_eq!(hub.post("/api/groups/g/explode", json!({})).await.status, 404);
}

#[tokio::test]
async fn a_search_finds_text_in_type_target_and_error() {
    let hub = Server::open().await;
    hub.post("/api/jobs", json!({"type": "resize", "target": "cat.png"})).await;
    hub.post("/api/jobs", json!({"type": "upload", "target": "dog.png"})).await;
    let id = quarantined(&hub, "explode").await;
    let count = |answer: Value| answer.as_array().unwrap().len();
    assert_eq!(count(hub.get("/api/jobs?q=CAT").await.body), 1);
    assert_eq!(count(hub.get("/api/jobs?q=png").await.body), 2);
    assert_eq!(count(hub.get(&format!("/api/jobs?q={id}")).await.body), 1);
    assert_eq!(count(hub.get("/api/jobs?q=nothing").await.body), 0);
}
