//! The founding document, route by route: bodies, words and status codes.

use runcue_hub::HubConfig;
use serde_json::{Value, json};

use crate::server::Server;

#[tokio::test]
async fn a_job_goes_from_pending_to_completed_in_the_documents_words() {
    let hub = Server::open().await;
    let submitted = hub
        .post("/api/jobs", json!({"type": "prodplan", "params": {"size": 3}, "priority": 5}))
        .await;
    assert_eq!(submitted.status, 201);
    assert_eq!(submitted.body["status"], "pending");
    let id = submitted.body["id"].as_str().unwrap().to_owned();
    assert_eq!(id.len(), 32);
    assert!(id.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte)));

    let job = hub.get(&format!("/api/jobs/{id}")).await.body;
    assert_eq!(job["type"], "prodplan");
    assert_eq!(job["params"], json!({"size": 3}), "a value, not a text");
    assert_eq!((&job["attempts"], &job["max_attempts"]), (&json!(0), &json!(3)));
    assert_eq!(job["max_runtime_ms"], 300_000);
    assert_eq!(job["fail_history"], json!([]));
    assert!(job["created_at"].as_i64().unwrap() > 1_700_000_000_000, "milliseconds");

    let register =
        json!({"worker_id": "w1", "name": "One", "cores": 8, "ram_gb": 16, "tags": ["gpu"]});
    assert_eq!(hub.post("/api/workers/register", register).await.status, 204);
    let claimed = hub.claim("w1").await;
    assert_eq!((&claimed["id"], &claimed["status"]), (&json!(id), &json!("assigned")));
    assert_eq!((&claimed["worker_id"], &claimed["attempts"]), (&json!("w1"), &json!(1)));

    let beat = format!("/api/jobs/{id}/heartbeat");
    assert_eq!(hub.post(&beat, json!({"worker_id": "w1"})).await.status, 204);
    assert_eq!(hub.get(&format!("/api/jobs/{id}")).await.body["status"], "running");
    let other = hub.post(&beat, json!({"worker_id": "w2"})).await;
    assert_eq!((other.status.as_u16(), other.code()), (409, "lease_lost"));

    let result = json!({"worker_id": "w1", "result": {"cost": 7}, "result_hash": "abc"});
    let ended = hub.post(&format!("/api/jobs/{id}/result"), result).await;
    assert_eq!((ended.status.as_u16(), &ended.body["status"]), (200, &json!("completed")));
    let job = hub.get(&format!("/api/jobs/{id}")).await.body;
    assert_eq!((&job["result"], &job["result_hash"]), (&json!({"cost": 7}), &json!("abc")));
    assert!(job["completed_at"].is_i64());
}

#[tokio::test]
async fn a_claim_without_work_answers_204_and_several_are_a_list() {
    let hub = Server::open().await;
    let none = hub.post("/api/jobs/claim", json!({"worker_id": "w"})).await;
    assert_eq!((none.status.as_u16(), none.body), (204, Value::Null));
    for _ in 0..3 {
        hub.job("a").await;
    }
    let two = hub.post("/api/jobs/claim", json!({"worker_id": "w", "max": 2})).await;
    assert_eq!(two.body["jobs"].as_array().unwrap().len(), 2);
    let rest = hub.post("/api/jobs/claim", json!({"worker_id": "w", "max": 5})).await;
    assert_eq!(rest.body["jobs"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn only_the_types_that_a_worker_names_are_handed_to_it() {
    let hub = Server::open().await;
    hub.job("benchmark").await;
    let none = json!({"worker_id": "w", "types": ["prodplan"]});
    assert_eq!(hub.post("/api/jobs/claim", none).await.status, 204);
    let some = json!({"worker_id": "w", "types": ["prodplan", "benchmark"]});
    assert_eq!(hub.post("/api/jobs/claim", some).await.status, 200);
}

#[tokio::test]
async fn the_same_result_again_is_no_error_and_another_one_changes_nothing() {
    let hub = Server::open().await;
    let id = hub.job("a").await;
    hub.claim("w").await;
    let path = format!("/api/jobs/{id}/result");
    let first = json!({"worker_id": "w", "result": 1});
    assert_eq!(hub.post(&path, first.clone()).await.status, 200);
    assert_eq!(hub.post(&path, first).await.status, 200, "recognised by its content");
    let keyed = hub
        .request(reqwest::Method::POST, &path)
        .header("X-Idempotency-Key", "other")
        .json(&json!({"worker_id": "w", "result": 2}))
        .send()
        .await
        .unwrap();
    assert_eq!(keyed.status(), 409);
    assert_eq!(hub.get(&format!("/api/jobs/{id}")).await.body["result"], 1);
}

#[tokio::test]
async fn the_idempotency_key_of_a_result_comes_before_its_hash() {
    let hub = Server::open().await;
    let id = hub.job("a").await;
    hub.claim("w").await;
    for result in [1, 2] {
        let sent = hub
            .request(reqwest::Method::POST, &format!("/api/jobs/{id}/result"))
            .header("X-Idempotency-Key", "k-1")
            .json(&json!({"worker_id": "w", "result": result, "result_hash": result.to_string()}))
            .send()
            .await
            .unwrap();
        assert_eq!(sent.status(), 200);
    }
    assert_eq!(hub.get(&format!("/api/jobs/{id}")).await.body["result"], 1);
}

#[tokio::test]
async fn a_failed_job_is_pending_again_and_quarantined_after_its_last_attempt() {
    let hub = Server::open().await;
    let body = json!({"type": "a", "max_attempts": 2, "retry": {"base_delay": 0, "jitter": false}});
    let id = hub.post("/api/jobs", body).await.body["id"].as_str().unwrap().to_owned();
    for expected in ["pending", "quarantined"] {
        hub.claim("w").await;
        let fail = json!({"worker_id": "w", "reason": "no luck"});
        let failed = hub.post(&format!("/api/jobs/{id}/fail"), fail).await;
        assert_eq!((failed.status.as_u16(), &failed.body["status"]), (200, &json!(expected)));
    }
    let job = hub.get(&format!("/api/jobs/{id}")).await.body;
    assert_eq!((&job["attempts"], &job["fail_reason"]), (&json!(2), &json!("no luck")));
    let history = job["fail_history"].as_array().unwrap();
    assert_eq!(history.len(), 2);
    assert_eq!((&history[0]["reason"], &history[0]["worker_id"]), (&json!("no luck"), &json!("w")));
    assert!(history[0]["ts"].is_i64());
    assert_eq!(hub.get("/api/quarantine").await.body[0]["id"], json!(id));
}

#[tokio::test]
async fn a_deleted_job_has_failed_with_the_reason_cancelled_and_a_running_one_is_not_deleted() {
    let hub = Server::open().await;
    let id = hub.job("a").await;
    assert_eq!(hub.delete(&format!("/api/jobs/{id}")).await.status, 204);
    let job = hub.get(&format!("/api/jobs/{id}")).await.body;
    assert_eq!((&job["status"], &job["fail_reason"]), (&json!("failed"), &json!("cancelled")));
    assert_eq!(hub.delete(&format!("/api/jobs/{id}")).await.code(), "conflict");

    let id = hub.job("a").await;
    hub.claim("w").await;
    hub.post(&format!("/api/jobs/{id}/heartbeat"), json!({"worker_id": "w"})).await;
    assert_eq!(hub.delete(&format!("/api/jobs/{id}")).await.code(), "conflict");
    let nowhere = format!("/api/jobs/{}", "0".repeat(32));
    assert_eq!(hub.delete(&nowhere).await.status, 404);
}

#[tokio::test]
async fn a_list_is_an_array_newest_first_with_status_limit_and_offset() {
    let hub = Server::open().await;
    let mut ids = Vec::new();
    for _ in 0..5 {
        ids.push(hub.job("a").await);
    }
    hub.claim("w").await;
    let pending = hub.get("/api/jobs?status=pending&limit=2&offset=1").await;
    let listed: Vec<&str> =
        pending.body.as_array().unwrap().iter().map(|job| job["id"].as_str().unwrap()).collect();
    assert_eq!(listed, [&ids[3], &ids[2]]);
    let next = pending.headers["x-next-before"].to_str().unwrap().to_owned();
    let rest = hub.get(&format!("/api/jobs?status=pending&before={next}")).await;
    assert_eq!(rest.body.as_array().unwrap().len(), 1);
    assert!(!rest.headers.contains_key("x-next-before"));
    assert_eq!(hub.get("/api/jobs?status=asigned").await.status, 422);
    assert_eq!(hub.get("/api/jobs?sttus=pending").await.status, 422, "an unknown word is refused");
    assert_eq!(hub.get("/api/jobs?limit=100000").await.status, 422);
}

#[tokio::test]
async fn a_worker_offers_what_it_registered_with() {
    let hub = Server::open().await;
    let needs = json!({"type": "a", "requires": {"cores": 8, "tags": ["gpu"]}});
    hub.post("/api/jobs", needs).await;
    let small = json!({"worker_id": "small", "cores": 2, "ram_gb": 4, "tags": []});
    hub.post("/api/workers/register", small).await;
    assert_eq!(hub.post("/api/jobs/claim", json!({"worker_id": "small"})).await.status, 204);
    let large = json!({"worker_id": "large", "cores": 8, "ram_gb": 4, "tags": ["gpu"]});
    hub.post("/api/workers/register", large).await;
    assert_eq!(hub.post("/api/jobs/claim", json!({"worker_id": "large"})).await.status, 200);
    let workers = hub.get("/api/workers").await.body;
    assert_eq!(workers.as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn a_solver_without_a_checksum_is_refused() {
    let hub = Server::open().await;
    let body = json!({"type": "a", "solver_url": "https://files.example/solver"});
    let refused = hub.post("/api/jobs", body).await;
    assert_eq!(refused.status, 422);
    assert!(refused.body["error"]["help"].as_str().unwrap().contains("sha256"));
}

#[tokio::test]
async fn who_ran_the_last_attempt_is_known_after_its_end() {
    let directory = tempfile::tempdir().unwrap();
    let place = format!("sqlite:{}", directory.path().join("queue.db").display());
    let file = runcue_store_sqlite::SqliteStore::open_url(&place);
    let hub = Server::on(std::sync::Arc::new(file.unwrap()), HubConfig::default()).await;
    let shown = async |id: &str| hub.get(&format!("/api/jobs/{id}")).await.body;
    let done = hub.job("a").await;
    hub.claim("first").await;
    hub.post(&format!("/api/jobs/{done}/result"), json!({"worker_id": "first", "result": 1})).await;
    let stopped = hub.job("a").await;
    hub.claim("second").await;
    hub.post(&format!("/api/jobs/{stopped}/heartbeat"), json!({"worker_id": "second"})).await;
    hub.post(&format!("/api/jobs/{stopped}/cancel"), json!({})).await;
    let stop = json!({"worker_id": "second", "reason": "stopped"});
    hub.post(&format!("/api/jobs/{stopped}/fail"), stop).await;
    let body = json!({"type": "a", "max_attempts": 1});
    let failed = hub.post("/api/jobs", body).await.body["id"].as_str().unwrap().to_owned();
    hub.claim("third").await;
    let fail = json!({"worker_id": "third", "reason": "no"});
    hub.post(&format!("/api/jobs/{failed}/fail"), fail).await;
    let never = hub.job("a").await;
    hub.delete(&format!("/api/jobs/{never}")).await;
    // What happened since does not hide it.
    let many: Vec<Value> = (0..3_000).map(|n| json!({"type": "later", "params": n})).collect();
    assert_eq!(hub.post("/api/jobs/bulk", json!(many)).await.status, 201);

    // Another hub knows as much, and lists and single jobs agree.
    let other = Server::on(std::sync::Arc::clone(&hub.store), HubConfig::default()).await;
    for (id, worker) in [(&done, "first"), (&stopped, "second"), (&failed, "third")] {
        for hub in [&hub, &other] {
            let job = hub.get(&format!("/api/jobs/{id}")).await.body;
            assert_eq!(job["worker_id"], worker, "{job}");
            assert_eq!(job["attempts"], 1);
            let listed = hub.get("/api/jobs?type=a").await.body;
            let listed = listed.as_array().unwrap().iter().find(|one| one["id"] == id.as_str());
            assert_eq!(listed.unwrap()["worker_id"], worker);
        }
    }
    assert_eq!(shown(&stopped).await["state"], "cancelled");
    assert_eq!(shown(&never).await["worker_id"], Value::Null);
    let again = hub.post(&format!("/api/jobs/{failed}/retry"), json!({})).await;
    assert_eq!(again.status, 200);
    assert_eq!(shown(&failed).await["worker_id"], Value::Null, "nobody holds it now");
}
