//! What workers are called and what they offer, at whichever hub that is asked.

use std::sync::Arc;

use runcue_hub::HubConfig;
use runcue_store::{MemoryStore, Store};
use serde_json::{Value, json};

use crate::server::Server;

async fn hub_on(store: &Arc<dyn Store>) -> Server {
    Server::on(Arc::clone(store), HubConfig::default()).await
}

fn memory() -> Arc<dyn Store> {
    Arc::new(MemoryStore::new())
}

#[tokio::test]
async fn every_hub_knows_the_name_of_whoever_holds_a_job_also_if_it_never_registered() {
    let store = memory();
    let one = hub_on(&store).await;
    let id = one.job("a").await;
    one.claim("stranger").await;
    let other = hub_on(&store).await;
    for hub in [&one, &other] {
        assert_eq!(hub.get(&format!("/api/jobs/{id}")).await.body["worker_id"], "stranger");
        assert_eq!(hub.get("/api/jobs").await.body[0]["worker_id"], "stranger");
        assert_eq!(hub.get("/api/workers").await.body, json!([]), "it is no registered worker");
    }
}

#[tokio::test]
async fn a_worker_that_has_said_goodbye_is_still_called_by_its_name() {
    let store = memory();
    let one = hub_on(&store).await;
    let instance = "0123456789abcdef0123456789abcdef";
    let agent = json!({"worker_id": "agent-7", "instance": instance});
    assert_eq!(one.post("/api/workers/register", agent.clone()).await.status, 204);
    let id = one.job("a").await;
    let job = one.post("/api/jobs/claim", agent).await.body;
    let result = json!({"worker_id": "agent-7", "lease": job["lease"], "result": 1});
    assert_eq!(one.post(&format!("/api/jobs/{id}/result"), result).await.status, 200);
    assert_eq!(one.delete(&format!("/api/workers/{instance}")).await.status, 204);
    assert_eq!(one.get("/api/workers").await.body, json!([]));
    let other = hub_on(&store).await;
    for hub in [&one, &other] {
        assert_eq!(hub.get(&format!("/api/jobs/{id}")).await.body["worker_id"], "agent-7");
        assert_eq!(hub.get("/api/jobs").await.body[0]["worker_id"], "agent-7");
    }
}

#[tokio::test]
async fn what_a_worker_offers_holds_at_every_hub() {
    let store = memory();
    let (one, other) = (hub_on(&store).await, hub_on(&store).await);
    // Somebody who never registered has made the other hub look, just now.
    let claim = |worker: &str| json!({"worker_id": worker});
    assert_eq!(other.post("/api/jobs/claim", claim("stranger")).await.status, 204);
    let small = json!({"worker_id": "small", "cores": 2, "ram_gb": 4, "tags": []});
    assert_eq!(one.post("/api/workers/register", small).await.status, 204);
    one.post("/api/jobs", json!({"type": "a", "requires": {"cores": 8}})).await;
    assert_eq!(other.post("/api/jobs/claim", claim("small")).await.status, 204);
    let taken = other.post("/api/jobs/claim", claim("stranger")).await;
    assert_eq!(taken.status, 200, "who has not registered is taken to offer everything");
}

#[tokio::test]
async fn names_that_are_kept_are_not_kept_for_ever() {
    let store = memory();
    let old = json!({"name": "of last month", "at": 1}).to_string();
    let record = |name: &str, text: &str| runcue_store::Record {
        kind: "worker".to_owned(),
        name: name.to_owned(),
        value: Some(runcue_core::Json::parse(text).unwrap()),
    };
    let now = runcue_core::Timestamp::from_millis(1);
    let digits = "0".repeat(32);
    store.put_records(now, vec![record(&digits, &old)]).await.unwrap();
    let hub = hub_on(&store).await;
    hub.claim_nothing("stranger").await;
    let names = async || -> Vec<Value> {
        let kept = store.records("worker").await.unwrap();
        let value = |one: runcue_store::Record| serde_json::from_str(one.value.unwrap().as_str());
        kept.into_iter().map(|one| value(one).unwrap()).collect()
    };
    let mut seen = 0;
    let pruned = async {
        while names().await.len() != 1 {
            seen = store.changed(seen).await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(20), pruned).await.expect("it goes");
    assert_eq!(names().await[0]["name"], "stranger");
}
