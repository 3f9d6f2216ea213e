//! Claims that wait, leases that fence, and what happens to workers that go away.

use std::sync::Arc;
use std::time::Duration;

use runcue_hub::HubConfig;
use runcue_store::MemoryStore;
use serde_json::{Value, json};

use crate::server::Server;

#[tokio::test]
async fn a_waiting_claim_is_answered_when_a_job_comes() {
    let hub = Arc::new(Server::open().await);
    let waiting = {
        let hub = Arc::clone(&hub);
        tokio::spawn(async move {
            hub.post("/api/jobs/claim", json!({"worker_id": "w", "wait": 30})).await
        })
    };
    // The claim waits once the hub says so.
    while hub.get("/api/status").await.body["waiting_workers"] != 1 {
        tokio::task::yield_now().await;
    }
    let id = hub.job("a").await;
    let answer = waiting.await.unwrap();
    assert_eq!((answer.status.as_u16(), &answer.body["id"]), (200, &json!(id)));
}

#[tokio::test]
async fn as_many_waiting_claims_are_answered_as_there_are_jobs_and_each_job_once() {
    let hub = Arc::new(Server::open().await);
    let claims: Vec<_> = (0..20)
        .map(|n| {
            let hub = Arc::clone(&hub);
            tokio::spawn(async move {
                let body = json!({"worker_id": format!("w{n}"), "wait": 3, "max": 1});
                hub.post("/api/jobs/claim", body).await.body
            })
        })
        .collect();
    while hub.get("/api/status").await.body["waiting_workers"] != 20 {
        tokio::task::yield_now().await;
    }
    let jobs: Vec<Value> = (0..12).map(|_| json!({"type": "a"})).collect();
    hub.post("/api/jobs/bulk", Value::Array(jobs)).await;
    let mut ids = Vec::new();
    for claim in claims {
        let body = claim.await.unwrap();
        ids.extend(body["jobs"].as_array().unwrap().iter().map(|job| job["id"].to_string()));
    }
    assert_eq!(ids.len(), 12);
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 12, "no job was handed out twice");
}

#[tokio::test]
async fn workers_of_many_kinds_are_all_given_what_is_theirs() {
    const KINDS: usize = 150;
    let hub = Arc::new(Server::open().await);
    let claims: Vec<_> = (0..KINDS)
        .map(|n| {
            let hub = Arc::clone(&hub);
            tokio::spawn(async move {
                let kind = format!("kind-{n}");
                let body = json!({"worker_id": format!("w{n}"), "wait": 30, "types": [kind]});
                (kind, hub.post("/api/jobs/claim", body).await.body)
            })
        })
        .collect();
    while hub.get("/api/status").await.body["waiting_workers"] != KINDS {
        tokio::task::yield_now().await;
    }
    let jobs = (0..KINDS).map(|n| json!({"type": format!("kind-{n}")})).collect();
    hub.post("/api/jobs/bulk", Value::Array(jobs)).await;
    for claim in claims {
        let (kind, job) = claim.await.unwrap();
        assert_eq!(job["type"], kind.as_str());
    }
}

#[tokio::test]
async fn a_job_claimed_for_a_worker_that_hung_up_goes_to_the_next() {
    let hub = Arc::new(Server::open().await);
    let gone = {
        let hub = Arc::clone(&hub);
        tokio::spawn(async move {
            hub.post("/api/jobs/claim", json!({"worker_id": "gone", "wait": 30})).await
        })
    };
    while hub.get("/api/status").await.body["waiting_workers"] != 1 {
        tokio::task::yield_now().await;
    }
    gone.abort();
    let _ = gone.await;
    hub.job("a").await;
    let next = hub.post("/api/jobs/claim", json!({"worker_id": "next", "wait": 20})).await;
    assert_eq!(next.status, 200);
    assert_eq!(next.body["attempts"], 1, "the one who hung up has used up nothing");
}

#[tokio::test]
async fn a_late_worker_cannot_finish_what_somebody_else_holds_by_now() {
    let config = HubConfig {
        lease: Duration::from_millis(300),
        reap_every: Duration::from_millis(50),
        ..HubConfig::default()
    };
    let hub = Server::with(config).await;
    let body = json!({"type": "a", "retry": {"base_delay": 0, "jitter": false}});
    let id = hub.post("/api/jobs", body).await.body["id"].as_str().unwrap().to_owned();
    let first = hub.claim("slow").await;
    let second = hub.post("/api/jobs/claim", json!({"worker_id": "quick", "wait": 20})).await.body;
    assert_eq!(second["attempts"], 2);
    for lease in [Value::Null, first["lease"].clone()] {
        let mut late = json!({"worker_id": "slow", "result": "late"});
        if !lease.is_null() {
            late["lease"] = lease;
        }
        let refused = hub.post(&format!("/api/jobs/{id}/result"), late).await;
        assert_eq!(refused.code(), "lease_lost");
    }
    let good = json!({"worker_id": "quick", "result": "in time", "lease": second["lease"]});
    assert_eq!(hub.post(&format!("/api/jobs/{id}/result"), good).await.status, 200);
    assert_eq!(hub.get(&format!("/api/jobs/{id}")).await.body["result"], "in time");
}

#[tokio::test]
async fn a_lease_of_an_earlier_attempt_by_the_same_worker_is_refused() {
    let hub = Server::open().await;
    let body = json!({"type": "a", "retry": {"base_delay": 0, "jitter": false}});
    let id = hub.post("/api/jobs", body).await.body["id"].as_str().unwrap().to_owned();
    let first = hub.claim("w").await;
    hub.post(&format!("/api/jobs/{id}/release"), json!({"worker_id": "w"})).await;
    let second = hub.claim("w").await;
    assert_ne!(first["lease"]["token"], second["lease"]["token"]);
    let late = json!({"worker_id": "w", "result": 1, "lease": first["lease"]});
    assert_eq!(hub.post(&format!("/api/jobs/{id}/result"), late).await.code(), "lease_lost");
    let beat = json!({"worker_id": "w", "lease": first["lease"]});
    assert_eq!(hub.post(&format!("/api/jobs/{id}/heartbeat"), beat).await.code(), "lease_lost");
}

#[tokio::test]
async fn a_cancelled_job_is_told_so_with_its_next_heartbeat() {
    let hub = Server::open().await;
    let id = hub.job("a").await;
    let job = hub.claim("w").await;
    let beat = format!("/api/jobs/{id}/heartbeat");
    hub.post(&beat, json!({"worker_id": "w"})).await;
    hub.post(&format!("/api/jobs/{id}/cancel"), json!({})).await;
    let plain = hub.post(&beat, json!({"worker_id": "w"})).await;
    assert_eq!(
        (plain.status.as_u16(), &plain.headers["x-cancel"]),
        (204, &"true".parse().unwrap())
    );
    let full = hub.post(&beat, json!({"worker_id": "w", "lease": job["lease"]})).await;
    assert_eq!(full.body["cancel"], true);
    let end = json!({"worker_id": "w", "ends": [
        {"id": id, "lease": job["lease"], "outcome": "stopped"}]});
    assert_eq!(hub.post("/api/jobs/ends", end).await.body["ends"][0]["lost"], false);
    assert_eq!(hub.get(&format!("/api/jobs/{id}")).await.body["state"], "cancelled");
}

#[tokio::test]
async fn a_worker_that_says_goodbye_hands_back_what_it_holds() {
    let hub = Server::open().await;
    hub.post("/api/workers/register", json!({"worker_id": "w"})).await;
    hub.job("a").await;
    hub.claim("w").await;
    assert_eq!(hub.delete("/api/workers/w").await.status, 204);
    let next = hub.post("/api/jobs/claim", json!({"worker_id": "v", "wait": 20})).await;
    assert_eq!((next.status.as_u16(), &next.body["attempts"]), (200, &json!(1)));
    assert_eq!(hub.delete("/api/workers/w").await.status, 404);
}

#[tokio::test]
async fn a_job_that_runs_longer_than_it_may_is_taken_from_a_worker_that_still_beats() {
    let hub = Server::open().await;
    let body = json!({"type": "a", "max_runtime_ms": 1, "max_attempts": 1});
    let id = hub.post("/api/jobs", body).await.body["id"].as_str().unwrap().to_owned();
    hub.claim("w").await;
    let beat = format!("/api/jobs/{id}/heartbeat");
    let mut last = hub.post(&beat, json!({"worker_id": "w"})).await;
    for _ in 0..100 {
        if last.status == 409 {
            break;
        }
        last = hub.post(&beat, json!({"worker_id": "w"})).await;
    }
    assert_eq!(last.code(), "lease_lost");
    let job = hub.get(&format!("/api/jobs/{id}")).await.body;
    assert_eq!(job["status"], "quarantined");
    assert!(job["fail_reason"].as_str().unwrap().contains("max_runtime_exceeded"));
}

#[tokio::test]
async fn many_jobs_are_kept_and_ended_with_one_call_each() {
    let hub = Server::open().await;
    let jobs: Vec<Value> = (0..50).map(|_| json!({"type": "a"})).collect();
    hub.post("/api/jobs/bulk", Value::Array(jobs)).await;
    let claimed = hub.post("/api/jobs/claim", json!({"worker_id": "w", "max": 50})).await.body;
    let claimed = claimed["jobs"].as_array().unwrap();
    let beats: Vec<Value> =
        claimed.iter().map(|job| json!({"id": job["id"], "lease": job["lease"]})).collect();
    let beats = hub.post("/api/jobs/heartbeats", json!({"worker_id": "w", "jobs": beats})).await;
    assert!(beats.body["jobs"].as_array().unwrap().iter().all(|beat| beat["held"] == true));
    let ends: Vec<Value> = claimed
        .iter()
        .map(|job| json!({"id": job["id"], "lease": job["lease"], "outcome": "completed", "result": 1}))
        .collect();
    let ended = hub.post("/api/jobs/ends", json!({"worker_id": "w", "ends": ends})).await.body;
    assert!(ended["ends"].as_array().unwrap().iter().all(|end| end["status"] == "completed"));
    let again = hub.post("/api/jobs/ends", json!({"worker_id": "w", "ends": [
        {"id": claimed[0]["id"], "lease": claimed[0]["lease"], "outcome": "completed", "result": 1}]}));
    assert_eq!(again.await.body["ends"][0]["repeated"], true);
}

#[tokio::test]
async fn a_worker_may_claim_at_one_hub_and_report_at_another() {
    let store: Arc<dyn runcue_store::Store> = Arc::new(MemoryStore::new());
    let one = Server::on(Arc::clone(&store), HubConfig::default()).await;
    let two = Server::on(Arc::clone(&store), HubConfig::default()).await;
    let id = one.job("a").await;
    one.claim("w").await;
    let beat = format!("/api/jobs/{id}/heartbeat");
    assert_eq!(two.post(&beat, json!({"worker_id": "w"})).await.status, 204);
    let result = json!({"worker_id": "w", "result": 1});
    assert_eq!(two.post(&format!("/api/jobs/{id}/result"), result).await.status, 200);
}

#[tokio::test]
async fn output_is_taken_in_and_followed_to_the_end() {
    let hub = Server::open().await;
    let id = hub.job("a").await;
    let job = hub.claim("w").await;
    let logs = format!("/api/jobs/{id}/logs");
    let chunk = |text: &str| {
        json!({"worker_id": "w", "lease": job["lease"], "chunks": [
        {"stream": "stdout", "text": text}]})
    };
    assert_eq!(hub.post(&logs, chunk("one\n")).await.status, 204);
    let read = hub.get(&logs).await.body;
    assert_eq!(read["logs"][0]["text"], "one\n");
    let follow = hub.request(reqwest::Method::GET, &format!("{logs}?follow=true"));
    let follow = follow.send().await.unwrap();
    hub.post(&logs, chunk("two\n")).await;
    hub.post(&format!("/api/jobs/{id}/result"), json!({"worker_id": "w", "result": null})).await;
    let seen = crate::server::read_until(follow, "event: end").await;
    assert!(seen.contains("one\\n") && seen.contains("two\\n") && seen.contains("completed"));
}

#[tokio::test]
async fn what_a_hub_remembers_of_a_worker_does_not_stand_in_its_way_when_another_hub_knows_better()
{
    let store: Arc<dyn runcue_store::Store> = Arc::new(MemoryStore::new());
    let one = Server::on(Arc::clone(&store), HubConfig::default()).await;
    let two = Server::on(Arc::clone(&store), HubConfig::default()).await;
    let body = json!({"type": "a", "retry": {"base_delay": 0, "jitter": false}});
    let id = one.post("/api/jobs", body).await.body["id"].as_str().unwrap().to_owned();
    one.claim("w").await;
    two.post(&format!("/api/jobs/{id}/release"), json!({"worker_id": "w"})).await;
    two.claim("w").await;
    // The first hub still remembers the first lease.
    let beat = json!({"worker_id": "w"});
    assert_eq!(one.post(&format!("/api/jobs/{id}/heartbeat"), beat).await.status, 204);
    let result = json!({"worker_id": "w", "result": 1});
    assert_eq!(one.post(&format!("/api/jobs/{id}/result"), result).await.status, 200);
}

#[tokio::test]
async fn a_job_that_was_never_started_leaves_its_place_in_the_rate_to_the_next() {
    let hub = Server::open().await;
    let rate = json!({"rates": [{"rate_limit": 1, "rate_window": 3600}]});
    hub.send(reqwest::Method::PUT, "/api/services/api", rate).await;
    hub.post("/api/jobs", json!({"type": "a", "services": ["api"]})).await;
    let job = hub.claim("w").await;
    let end = |outcome: &str, lease: &Value| {
        json!({"worker_id": "w", "ends": [
        {"id": job["id"], "lease": lease, "outcome": outcome}]})
    };
    hub.post("/api/jobs/ends", end("unstarted", &job["lease"])).await;
    let again = hub.claim("w").await;
    assert_eq!(again["attempts"], 1, "the first one did not count");
    hub.post("/api/jobs/ends", end("released", &again["lease"])).await;
    let none = hub.post("/api/jobs/claim", json!({"worker_id": "w"})).await;
    assert_eq!(none.status, 204, "this one may have begun, so its place is used");
}
