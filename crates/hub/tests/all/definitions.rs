//! Services, schedules, queues and tasks over HTTP: changed while everything runs.

use std::sync::Arc;
use std::time::Duration;

use reqwest::Method;
use runcue_core::{GroupName, JobId, JobSpec, TaskName, Timestamp};
use runcue_hub::HubConfig;
use runcue_store::{MemoryStore, Store, SubmitBatch};
use serde_json::json;

use crate::server::Server;

#[tokio::test]
async fn a_services_limits_are_defined_and_changed_live() {
    let hub = Server::open().await;
    let defined = hub.send(Method::PUT, "/api/services/api", json!({"max_concurrent": 1})).await;
    assert_eq!((defined.status.as_u16(), &defined.body["max_concurrent"]), (200, &json!(1)));
    for _ in 0..2 {
        hub.post("/api/jobs", json!({"type": "a", "services": ["api"]})).await;
    }
    hub.claim("w").await;
    assert_eq!(hub.post("/api/jobs/claim", json!({"worker_id": "w"})).await.status, 204);
    let listed = hub.get("/api/services").await.body;
    assert_eq!((&listed[0]["status"], &listed[0]["in_use"]), (&json!("full"), &json!(1)));
    let waiting = hub.get("/api/jobs?status=pending").await.body[0]["id"].clone();
    let why = hub.get(&format!("/api/jobs/{}/why", waiting.as_str().unwrap())).await.body;
    assert_eq!(why["reasons"][0]["service"], "api");
    let changed = hub.send(Method::PATCH, "/api/services/api", json!({"max_concurrent": 2})).await;
    assert_eq!(changed.body["max_concurrent"], 2);
    hub.claim("w").await;
    let rate = json!({"rates": [{"rate_limit": 5, "rate_window": 60}]});
    let changed = hub.send(Method::PATCH, "/api/services/api", rate).await.body;
    assert_eq!(
        (&changed["max_concurrent"], &changed["rates"][0]["rate_limit"]),
        (&json!(2), &json!(5))
    );
    let open = json!({"max_concurrent": null});
    let changed = hub.send(Method::PATCH, "/api/services/api", open).await.body;
    assert_eq!(changed["max_concurrent"], json!(null));
    assert_eq!(hub.send(Method::PATCH, "/api/services/nowhere", json!({})).await.status, 404);
    let none = json!({"rates": [{"rate_limit": 0, "rate_window": 60}]});
    assert_eq!(hub.send(Method::PUT, "/api/services/api", none).await.status, 422);
}

#[tokio::test]
async fn schedules_are_made_paused_and_removed() {
    let hub = Server::open().await;
    let body = json!({"cron": "0 3 * * *", "zone": "Europe/Berlin", "job": {"type": "backup"}});
    let made = hub.send(Method::PUT, "/api/schedules/nightly", body).await;
    assert_eq!((made.status.as_u16(), &made.body["task"]), (200, &json!("backup")));
    assert_eq!(made.body["next_at"].as_array().unwrap().len(), 3);
    let paused = hub.post("/api/schedules/nightly/pause", json!({})).await.body;
    assert_eq!((&paused["paused"], &paused["next_at"]), (&json!(true), &json!([])));
    assert_eq!(hub.post("/api/schedules/nightly/resume", json!({})).await.body["paused"], false);
    let bad = json!({"cron": "every day", "job": {"type": "backup"}});
    assert_eq!(hub.send(Method::PUT, "/api/schedules/bad", bad).await.status, 422);
    assert_eq!(hub.delete("/api/schedules/nightly").await.status, 204);
    assert_eq!(hub.delete("/api/schedules/nightly").await.status, 404);
}

#[tokio::test]
async fn machines_push_their_metrics_and_are_shown_with_their_workers() {
    let hub = Server::open().await;
    let one =
        json!({"name": "Node 1", "cpu": 12.5, "mem_used_gb": 3, "mem_total_gb": 16, "load1": 0.4});
    assert_eq!(hub.post("/api/ingest/n1", one.clone()).await.status, 204);
    assert_eq!(hub.post("/api/ingest/n1", json!([one.clone(), one])).await.status, 204);
    hub.post("/api/workers/register", json!({"worker_id": "n1", "cores": 4})).await;
    hub.post("/api/workers/register", json!({"worker_id": "n2", "cores": 4})).await;
    hub.job("a").await;
    hub.claim("n1").await;
    let fleet = hub.get("/api/fleet").await.body;
    assert_eq!(fleet.as_array().unwrap().len(), 2);
    assert_eq!((&fleet[0]["name"], &fleet[0]["online"]), (&json!("Node 1"), &json!(true)));
    assert_eq!(fleet[0]["history"].as_array().unwrap().len(), 3);
    assert_eq!((&fleet[0]["active_jobs"], &fleet[1]["node"]), (&json!(1), &json!("n2")));
    assert_eq!(hub.post("/api/ingest/n1", json!({"cpu": "high"})).await.status, 422);
}

#[tokio::test]
async fn health_and_metrics_answer() {
    let hub = Server::open().await;
    hub.send(Method::PUT, "/api/services/api", json!({"max_concurrent": 5})).await;
    hub.post("/api/jobs", json!({"type": "a", "services": ["api"]})).await;
    let health = hub.get("/healthz").await;
    assert_eq!((health.status.as_u16(), &health.body["status"]), (200, &json!("ok")));
    hub.claim("w").await;
    let text = hub.request(Method::GET, "/metrics").send().await.unwrap();
    let kind = text.headers()["content-type"].to_str().unwrap().to_owned();
    assert!(kind.starts_with("application/openmetrics-text"), "{kind}");
    let text = text.text().await.unwrap();
    for name in [
        "work_units_queued",
        "work_units_completed_total",
        "work_units_failed_total",
        "service_requests_total",
        "service_rate_limited_total",
        "circuit_breaker_open",
        "callback_duration_seconds",
        "callback_errors",
    ] {
        assert!(text.contains(name), "{name} is missing");
    }
}

#[tokio::test]
async fn health_says_when_there_is_ready_work_and_nothing_is_claimed() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let long_ago =
        Timestamp::ZERO.plus(std::time::UNIX_EPOCH.elapsed().unwrap() - Duration::from_secs(60));
    let job = |n: u128, group: &str| JobSpec {
        group: Some(GroupName::new(group).unwrap()),
        ..JobSpec::new(JobId::from_u128(n), TaskName::new("a").unwrap())
    };
    let jobs = vec![job(1, "g"), job(2, "g"), job(3, "g")];
    store.submit(long_ago, SubmitBatch::of(jobs)).await.unwrap();
    let hub = Server::on(store, HubConfig::default()).await;
    let stuck = hub.get("/healthz").await;
    assert_eq!((stuck.status.as_u16(), &stuck.body["status"]), (200, &json!("stuck")));
    let words = stuck.body["message"].as_str().unwrap();
    assert!(words.contains("there is ready work but nothing was claimed"), "{words}");
    assert_eq!(stuck.body["ready"], 3);
    // Work that may not run is no reason to worry.
    hub.post("/api/groups/g/pause", json!({})).await;
    assert_eq!(hub.get("/healthz").await.body["status"], "ok");
    hub.post("/api/groups/g/resume", json!({})).await;
    assert_eq!(hub.get("/healthz").await.body["status"], "stuck");
    // Whoever claims and reports nothing but the end is at work all the same.
    let id = hub.claim("w").await["id"].as_str().unwrap().to_owned();
    hub.post(&format!("/api/jobs/{id}/result"), json!({"worker_id": "w", "result": 1})).await;
    let well = async {
        while hub.get("/healthz").await.body["status"] != "ok" {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), well).await.expect("a claim was made");
}
