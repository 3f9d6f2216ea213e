//! Webhooks against a real receiver: what it is sent and how that is signed, what its answers lead to, who is told of
//! what, and that nobody is told twice.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use bytes::Bytes;
use reqwest::Method;
use runcue_core::{JobFilter, JobId, JobSpec, StateWord, TaskName, Timestamp};
use runcue_hub::HubConfig;
use runcue_store::{ListRequest, MemoryStore, Store, SubmitBatch};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::server::Server;

/// How long anything is waited for.
const PATIENCE: Duration = Duration::from_secs(30);

/// What a receiver was sent.
#[derive(Clone)]
struct Sent {
    headers: HeaderMap,
    bytes: Bytes,
    body: Value,
}

impl Sent {
    fn header(&self, name: &str) -> &str {
        self.headers[name].to_str().unwrap()
    }

    fn job(&self) -> &str {
        self.body["job"]["id"].as_str().unwrap()
    }
}

/// A receiver on a free port of loopback that answers what it is told to, and then 200.
#[derive(Clone)]
struct Receiver {
    url: String,
    sent: Arc<Mutex<Vec<Sent>>>,
    answers: Arc<Mutex<VecDeque<u16>>>,
}

impl Receiver {
    async fn new(answers: impl IntoIterator<Item = u16>) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/hook", listener.local_addr().unwrap());
        let receiver = Self {
            url,
            sent: Arc::default(),
            answers: Arc::new(Mutex::new(answers.into_iter().collect())),
        };
        let taking = receiver.clone();
        let take = move |method: axum::http::Method, headers: HeaderMap, bytes: Bytes| async move {
            assert_eq!(method, "POST");
            taking.take(headers, bytes)
        };
        let routes = axum::Router::new().route("/hook", any(take));
        tokio::spawn(async move { axum::serve(listener, routes).await.unwrap() });
        receiver
    }

    fn take(&self, headers: HeaderMap, bytes: Bytes) -> Response {
        let body = serde_json::from_slice(&bytes).unwrap();
        self.sent.lock().unwrap().push(Sent { headers, bytes, body });
        let code = self.answers.lock().unwrap().pop_front().unwrap_or(200);
        let mut response = StatusCode::from_u16(code).unwrap().into_response();
        let elsewhere = HeaderValue::from_static("/elsewhere");
        response.headers_mut().insert("location", elsewhere);
        response
    }

    fn all(&self) -> Vec<Sent> {
        self.sent.lock().unwrap().clone()
    }

    /// Waits until it was sent so much.
    async fn wait(&self, count: usize) -> Vec<Sent> {
        until("deliveries", async || self.all().len() >= count).await;
        self.all()
    }
}

async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let looking = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    assert!(tokio::time::timeout(PATIENCE, looking).await.is_ok(), "{what} did not come");
}

/// HMAC-SHA256 as RFC 2104 writes it, not as the hub computes it.
fn hmac(key: &[u8], data: &[u8]) -> String {
    assert!(key.len() <= 64 || key.len() == 68, "keys of these tests");
    let mut block = [0_u8; 64];
    match key.len() {
        0..=64 => block[..key.len()].copy_from_slice(key),
        _ => block[..32].copy_from_slice(&Sha256::digest(key)),
    }
    let pad = |with: u8| block.map(|byte| byte ^ with);
    let inner = Sha256::new().chain_update(pad(0x36)).chain_update(data).finalize();
    let outer = Sha256::new().chain_update(pad(0x5c)).chain_update(inner).finalize();
    outer.iter().map(|byte| format!("{byte:02x}")).collect()
}

async fn webhook(hub: &Server, body: Value) -> Value {
    let made = hub.post("/api/webhooks", body).await;
    assert_eq!(made.status, 201, "{}", made.body);
    made.body
}

/// A job that is done.
async fn done(hub: &Server, body: Value) -> String {
    let id = hub.post("/api/jobs", body).await.body["id"].as_str().unwrap().to_owned();
    hub.claim("w").await;
    end(hub, &id, "result", json!({"worker_id": "w", "result": {"n": 1}})).await;
    id
}

async fn end(hub: &Server, id: &str, how: &str, body: Value) {
    let answer = hub.post(&format!("/api/jobs/{id}/{how}"), body).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
}

/// Every delivery there is.
async fn deliveries(hub: &Server) -> Vec<Value> {
    let listed = hub.get("/api/jobs?type=runcue.webhook&limit=500").await;
    listed.body.as_array().unwrap().clone()
}

fn millis_now() -> i64 {
    let since = std::time::UNIX_EPOCH.elapsed().unwrap();
    i64::try_from(since.as_millis()).unwrap()
}

#[tokio::test]
async fn a_receiver_is_told_once_with_a_signature_that_it_can_check() {
    let (hub, receiver) = (Server::open().await, Receiver::new([]).await);
    let made = webhook(&hub, json!({"url": receiver.url})).await;
    let id = done(&hub, json!({"type": "resize", "group": "g", "params": {"w": 2}})).await;
    let sent = receiver.wait(1).await.remove(0);
    let secret = made["secret"].as_str().unwrap();
    let timestamp = sent.header("runcue-timestamp");
    let signed = [timestamp.as_bytes(), b".", &sent.bytes].concat();
    assert_eq!(sent.header("runcue-signature"), format!("v1={}", hmac(secret.as_bytes(), &signed)));
    let age = millis_now() - timestamp.parse::<i64>().unwrap();
    assert!((0..60_000).contains(&age), "{timestamp} is in milliseconds");
    assert_eq!(sent.header("content-type"), "application/json");
    assert_eq!(sent.header("runcue-event"), "completed");
    assert_eq!(sent.header("runcue-webhook-id"), made["id"].as_str().unwrap());
    let body = &sent.body;
    assert_eq!((&body["webhook"], &body["event"]), (&made["id"], &json!("completed")));
    assert_eq!(body["delivery"], sent.header("runcue-delivery"));
    assert_eq!(body["omitted"], json!([]));
    assert_eq!(body["at"], body["job"]["completed_at"]);
    assert!(body["seq"].as_u64().unwrap() > 0);
    let mut shown = hub.get(&format!("/api/jobs/{id}")).await.body;
    for beside in ["prerequisites", "dependents", "why"] {
        shown.as_object_mut().unwrap().remove(beside);
    }
    assert_eq!(body["job"], shown, "the job as it is shown");

    let delivery = sent.header("runcue-delivery");
    until("the end of the delivery", async || {
        hub.get(&format!("/api/jobs/{delivery}")).await.body["state"] == "completed"
    })
    .await;
    let kept = hub.get(&format!("/api/jobs/{delivery}")).await.body;
    assert_eq!(
        (&kept["type"], &kept["group"]),
        (&json!("runcue.webhook"), &json!("runcue.webhook"))
    );
    assert_eq!(kept["result"], json!({"status": 200}));
    assert!(!kept.to_string().contains(secret) && !kept.to_string().contains(&receiver.url));
}

#[tokio::test]
async fn a_hub_that_makes_deliveries_is_no_worker_for_other_jobs() {
    let (hub, receiver) = (Server::open().await, Receiver::new([]).await);
    webhook(&hub, json!({"url": receiver.url})).await;
    done(&hub, json!({"type": "a"})).await;
    receiver.wait(1).await;
    let id = hub.job("a").await;
    let reasons = hub.get(&format!("/api/jobs/{id}/why")).await.body["reasons"].clone();
    assert_eq!(reasons[0]["reason"], "no_worker", "{reasons}");
    let hint = hub.get("/api/status").await.body["hint"].to_string();
    assert!(hint.contains("no worker runs"), "{hint}");
    let workers = hub.get("/api/workers").await.body;
    assert_eq!((&workers[0]["name"], &workers[0]["slots"]), (&json!("hub"), &json!(0)));
    assert_eq!(hub.get("/api/fleet").await.body, json!([]));
}

#[tokio::test]
async fn a_receiver_that_fails_twice_is_told_again_under_the_same_name_until_it_has_understood() {
    let (hub, receiver) = (Server::open().await, Receiver::new([500, 302]).await);
    webhook(&hub, json!({"url": receiver.url})).await;
    done(&hub, json!({"type": "a"})).await;
    let sent = receiver.wait(3).await;
    assert!(sent.windows(2).all(|two| {
        two[0].header("runcue-delivery") == two[1].header("runcue-delivery")
            && two[0].body["seq"] == two[1].body["seq"]
    }));
    until("the end", async || deliveries(&hub).await[0]["state"] == "completed").await;
    let delivery = deliveries(&hub).await.remove(0);
    assert_eq!((&delivery["attempts"], receiver.all().len()), (&json!(3), 3));
    let history = delivery["fail_history"].to_string();
    assert!(history.contains("answered 500") && history.contains("answered 302"), "{history}");
    let retry = &delivery["retry"];
    assert_eq!((&retry["backoff"], &retry["jitter"]), (&json!("exponential"), &json!(true)));
}

#[tokio::test]
async fn a_receiver_that_is_gone_is_not_told_again() {
    let (hub, receiver) = (Server::open().await, Receiver::new([410]).await);
    webhook(&hub, json!({"url": receiver.url})).await;
    done(&hub, json!({"type": "a"})).await;
    receiver.wait(1).await;
    until("the end", async || deliveries(&hub).await[0]["state"] == "failed").await;
    let delivery = deliveries(&hub).await.remove(0);
    assert!(delivery["fail_reason"].as_str().unwrap().contains("410"), "{delivery}");
    assert_eq!((&delivery["attempts"], receiver.all().len()), (&json!(1), 1));
}

#[tokio::test]
async fn each_is_told_of_what_it_asked_for_and_nobody_of_deliveries() {
    let hub = Server::open().await;
    let all = Receiver::new([]).await;
    let (task, group, bad) =
        (Receiver::new([]).await, Receiver::new([]).await, Receiver::new([]).await);
    done(&hub, json!({"type": "before"})).await;
    webhook(&hub, json!({"url": all.url})).await;
    webhook(&hub, json!({"url": task.url, "task": "t"})).await;
    webhook(&hub, json!({"url": group.url, "group": "g", "events": ["completed"]})).await;
    let events = json!(["failed", "quarantined", "cancelled"]);
    webhook(&hub, json!({"url": bad.url, "events": events})).await;

    let first = done(&hub, json!({"type": "t"})).await;
    let second = done(&hub, json!({"type": "u", "group": "g"})).await;
    let failed = hub.job("u").await;
    hub.claim("w").await;
    let fail = json!({"worker_id": "w", "reason": "no", "permanent": true});
    end(&hub, &failed, "fail", fail).await;
    let last = json!({"type": "u", "group": "g", "max_attempts": 1});
    let last = hub.post("/api/jobs", last).await.body["id"].as_str().unwrap().to_owned();
    hub.claim("w").await;
    end(&hub, &last, "fail", json!({"worker_id": "w", "reason": "no"})).await;
    let cancelled = hub.job("u").await;
    assert_eq!(hub.delete(&format!("/api/jobs/{cancelled}")).await.status, 204);
    let told = |sent: Vec<Sent>| {
        let mut told: Vec<_> = sent
            .iter()
            .map(|one| (one.job().to_owned(), one.header("runcue-event").to_owned()))
            .collect();
        told.sort();
        told
    };
    let sorted = |mut expected: Vec<(&str, &str)>| {
        expected.sort_unstable();
        let owned = |(job, word): (&str, &str)| (job.to_owned(), word.to_owned());
        expected.into_iter().map(owned).collect::<Vec<_>>()
    };
    let ends = [(&*failed, "failed"), (&*last, "quarantined"), (&*cancelled, "cancelled")];
    let goods = [(&*first, "completed"), (&*second, "completed")];
    assert_eq!(told(all.wait(5).await), sorted([&goods[..], &ends].concat()));
    assert_eq!(told(bad.wait(3).await), sorted(ends.to_vec()));
    assert_eq!(told(task.wait(1).await), sorted(vec![goods[0]]));
    assert_eq!(told(group.wait(1).await), sorted(vec![goods[1]]));

    // Events become deliveries in their order: when one that came later is told, so is everything before it.
    until("the end of all deliveries", async || {
        deliveries(&hub).await.iter().all(|one| one["state"] == "completed")
    })
    .await;
    done(&hub, json!({"type": "marker"})).await;
    all.wait(6).await;
    assert_eq!(deliveries(&hub).await.len(), 11, "none of a delivery, none from before");
}

#[tokio::test]
async fn two_hubs_on_one_store_tell_of_each_event_once() {
    const JOBS: usize = 40;
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let one = Server::on(Arc::clone(&store), HubConfig::default()).await;
    let two = Server::on(store, HubConfig::default()).await;
    let receiver = Receiver::new([]).await;
    webhook(&one, json!({"url": receiver.url})).await;
    for n in 0..JOBS {
        let hub = if n % 2 == 0 { &one } else { &two };
        done(hub, json!({"type": "a"})).await;
    }
    receiver.wait(JOBS).await;
    until("the end of all deliveries", async || {
        let all = deliveries(&one).await;
        all.len() == JOBS && all.iter().all(|one| one["state"] == "completed")
    })
    .await;
    let mut jobs: Vec<String> = receiver.all().iter().map(|sent| sent.job().to_owned()).collect();
    assert_eq!(jobs.len(), JOBS, "nothing was told twice");
    jobs.sort();
    jobs.dedup();
    assert_eq!(jobs.len(), JOBS, "and everything once");
}

#[tokio::test]
async fn what_was_read_and_submitted_but_not_noted_is_not_told_again() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let receiver = Receiver::new([]).await;
    let hub = Server::on(Arc::clone(&store), HubConfig::default()).await;
    webhook(&hub, json!({"url": receiver.url})).await;
    let kept = store.records("webhook-cursor").await.unwrap();
    done(&hub, json!({"type": "a"})).await;
    receiver.wait(1).await;
    until("the end", async || deliveries(&hub).await[0]["state"] == "completed").await;
    drop(hub);
    // As a hub leaves it that is killed between the submission and the note of how far it has read.
    store.put_records(Timestamp::from_millis(millis_now()), kept).await.unwrap();
    let hub = Server::on(store, HubConfig::default()).await;
    let next = done(&hub, json!({"type": "a"})).await;
    let sent = receiver.wait(2).await;
    assert_eq!((sent[1].job(), sent.len()), (next.as_str(), 2), "the second is of the second job");
    assert_eq!(deliveries(&hub).await.len(), 2);
}

#[tokio::test]
async fn the_waiting_deliveries_of_a_removed_webhook_are_cancelled() {
    let (hub, receiver) = (Server::open().await, Receiver::new(vec![503; 50]).await);
    let made = webhook(&hub, json!({"url": receiver.url})).await;
    for _ in 0..3 {
        done(&hub, json!({"type": "a"})).await;
    }
    receiver.wait(3).await;
    let path = format!("/api/webhooks/{}", made["id"].as_str().unwrap());
    assert_eq!(hub.delete(&path).await.status, 204);
    assert_eq!(hub.get(&path).await.status, 404);
    assert_eq!(hub.delete(&path).await.code(), "not_found");
    until("the end of all deliveries", async || {
        let all = deliveries(&hub).await;
        all.len() == 3 && all.iter().all(|one| one["state"] == "cancelled")
    })
    .await;
    // One that was submitted just as its webhook was removed ends too.
    let late =
        json!({"webhook": made["id"], "event": "completed", "seq": 1, "at": 1, "job": made["id"]});
    let task = TaskName::new("runcue.webhook").unwrap();
    let mut spec = JobSpec::new(JobId::from_u128(9), task);
    spec.params = runcue_core::Json::from_value(&late).unwrap();
    let now = Timestamp::from_millis(millis_now());
    hub.store.submit(now, SubmitBatch::of(vec![spec])).await.unwrap();
    let path = format!("/api/jobs/{}", JobId::from_u128(9));
    until("its end", async || hub.get(&path).await.body["state"] == "failed").await;
    let reason = hub.get(&path).await.body["fail_reason"].to_string();
    assert!(reason.contains("the webhook was removed"), "{reason}");
}

#[tokio::test]
async fn a_receiver_that_never_answers_holds_up_nobody_else() {
    const JOBS: usize = 80;
    let hub = Server::open().await;
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let hole = format!("http://{}/", silent.local_addr().unwrap());
    webhook(&hub, json!({"url": hole})).await;
    let receiver = Receiver::new([]).await;
    webhook(&hub, json!({"url": receiver.url})).await;
    for _ in 0..JOBS {
        done(&hub, json!({"type": "a"})).await;
    }
    receiver.wait(JOBS).await;
    let filter = JobFilter { task: TaskName::new("runcue.webhook").ok(), ..JobFilter::default() };
    let filter = filter.in_states([StateWord::Leased, StateWord::Running]);
    let held = ListRequest { filter, before: None, limit: 100 };
    let held = hub.store.list(held).await.unwrap().rows.len();
    assert!(held <= 4, "{held} deliveries wait for the one that is silent");
}

#[tokio::test]
async fn what_is_too_large_is_left_out_and_named() {
    let (hub, receiver) = (Server::open().await, Receiver::new([]).await);
    webhook(&hub, json!({"url": receiver.url})).await;
    let large = "x".repeat(70_000);
    let id = hub.post("/api/jobs", json!({"type": "a", "params": {"p": large}})).await;
    let id = id.body["id"].as_str().unwrap().to_owned();
    hub.claim("w").await;
    end(&hub, &id, "result", json!({"worker_id": "w", "result": large})).await;
    let sent = receiver.wait(1).await.remove(0);
    assert!(sent.bytes.len() < 10_000);
    assert_eq!(sent.body["omitted"], json!(["params", "result"]));
    assert_eq!((&sent.body["job"]["result"], sent.job()), (&Value::Null, id.as_str()));
}

#[tokio::test]
async fn workers_neither_submit_nor_get_deliveries() {
    let hub = Server::open().await;
    let task = TaskName::new("runcue.webhook").unwrap();
    let spec = JobSpec::new(JobId::from_u128(9), task);
    // The hub has no webhooks and so makes no deliveries: nobody but a worker could take it.
    let now = Timestamp::from_millis(millis_now());
    hub.store.submit(now, SubmitBatch::of(vec![spec])).await.unwrap();
    let claim = hub.post("/api/jobs/claim", json!({"worker_id": "w"})).await;
    assert_eq!(claim.status, 204, "{}", claim.body);
    let named = json!({"worker_id": "w", "types": ["runcue.webhook"]});
    for (path, body, field) in [
        ("/api/jobs/claim", named.clone(), "types"),
        ("/api/workers/register", named, "types"),
        ("/api/jobs", json!({"type": "runcue.webhook"}), "type"),
        ("/api/jobs/bulk", json!([{"type": "runcue.webhook"}]), "type"),
    ] {
        let refused = hub.post(path, body).await;
        assert_eq!((refused.status.as_u16(), refused.code()), (422, "invalid"), "{path}");
        let message = refused.body["error"]["message"].as_str().unwrap();
        assert!(message.contains(&format!("{field}: jobs of runcue.webhook")), "{message}");
    }
    let schedule = json!({"cron": "* * * * *", "job": {"type": "runcue.webhook"}});
    let refused = hub.send(Method::PUT, "/api/schedules/s", schedule).await;
    assert_eq!(refused.code(), "invalid");
}

#[tokio::test]
async fn a_webhook_is_refused_by_the_field_that_is_wrong_and_listed_without_its_secret() {
    let hub = Server::open().await;
    let url = "https://example.org/hook";
    for (body, says) in [
        (json!({"url": "example.org"}), "url: "),
        (json!({"url": "ftp://example.org"}), "url: a receiver is reached by http or https"),
        (json!({"url": "https://me:word@example.org"}), "url: it may hold no name or password"),
        (json!({"url": format!("{url}{}", "x".repeat(3_000))}), "url: it has"),
        (json!({"url": url, "events": ["running"]}), "events: running ends no job"),
        (json!({"url": url, "events": ["done"]}), "unknown variant `done`"),
        (json!({"url": url, "secret": "short"}), "secret: 16 to 256"),
        (json!({"url": url, "task": "runcue.webhook"}), "task: "),
        (json!({"url": url, "task": ""}), "a task name may not be empty"),
        (json!({"url": url, "type": "t"}), "type"),
        (json!({"events": []}), "url"),
    ] {
        let refused = hub.post("/api/webhooks", body.clone()).await;
        assert_eq!((refused.status.as_u16(), refused.code()), (422, "invalid"), "{body}");
        let message = refused.body["error"]["message"].as_str().unwrap();
        assert!(message.contains(says), "{body}: {message}");
        assert!(!message.contains("me:word"), "{message}");
    }
    assert_eq!(hub.get("/api/webhooks/nonsense").await.status, 404);
    let given = "given-by-somebody";
    let body = json!({"url": url, "secret": given, "events": ["failed"], "group": "g"});
    let made = webhook(&hub, body).await;
    assert_eq!(made["secret"], given);
    let one = hub.get(&format!("/api/webhooks/{}", made["id"].as_str().unwrap())).await.body;
    assert_eq!((&one["url"], &one["events"]), (&json!(url), &json!(["failed"])));
    let listed = hub.get("/api/webhooks").await.body;
    assert_eq!(listed, json!([one]));
    assert!(!listed.to_string().contains(given));
}

#[tokio::test]
async fn a_queue_has_at_most_a_hundred_webhooks() {
    let hub = Server::open().await;
    for _ in 0..100 {
        webhook(&hub, json!({"url": "http://127.0.0.1:9/"})).await;
    }
    let refused = hub.post("/api/webhooks", json!({"url": "http://127.0.0.1:9/"})).await;
    assert_eq!((refused.status.as_u16(), refused.code()), (409, "conflict"));
}
