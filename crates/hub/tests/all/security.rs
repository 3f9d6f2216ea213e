//! Who may do what: tokens and roles, pages of other origins, foreign names, and guessing.

use reqwest::Method;
use runcue_hub::{HubConfig, Role, StaticToken};
use serde_json::json;

use crate::server::{Server, answer};

async fn guarded() -> Server {
    let token = |name: &str, role| StaticToken {
        name: name.to_owned(),
        role,
        secret: format!("{name}-secret"),
    };
    let tokens = vec![
        token("reader", Role::Read),
        token("submitter", Role::Submit),
        token("worker", Role::Work),
        token("admin", Role::Admin),
    ];
    Server::with(HubConfig { tokens, ..HubConfig::default() }).await
}

#[tokio::test]
async fn without_a_token_nothing_but_health_login_and_the_bare_stream_is_answered() {
    let hub = guarded().await;
    let none = hub.get("/api/jobs").await;
    assert_eq!((none.status.as_u16(), none.code()), (401, "unauthorized"));
    assert!(none.headers.contains_key("www-authenticate"));
    assert_eq!(hub.post("/api/jobs", json!({"type": "a"})).await.status, 401);
    assert_eq!(hub.post("/api/jobs/claim", json!({"worker_id": "w"})).await.status, 401);
    assert_eq!(hub.get("/metrics").await.status, 401);
    assert_eq!(hub.get("/healthz").await.status, 200);
    let wrong = hub.as_token("guess").get("/api/jobs").await;
    assert_eq!((wrong.status.as_u16(), wrong.code()), (401, "unauthorized"));
}

#[tokio::test]
async fn every_role_does_its_own_and_no_more() {
    let hub = guarded().await;
    let tries = |token: &'static str| {
        let hub = hub.as_token(token);
        async move {
            let read = hub.get("/api/jobs").await.status.as_u16();
            let submit = hub.post("/api/jobs", json!({"type": "a"})).await.status.as_u16();
            let work = hub.post("/api/workers/register", json!({"worker_id": "w"})).await;
            let admin = hub.post("/api/groups/g/pause", json!({})).await;
            [read, submit, work.status.as_u16(), admin.status.as_u16()]
        }
    };
    assert_eq!(tries("reader-secret").await, [200, 403, 403, 403]);
    assert_eq!(tries("submitter-secret").await, [200, 201, 403, 403]);
    assert_eq!(tries("worker-secret").await, [200, 403, 204, 403]);
    assert_eq!(tries("admin-secret").await, [200, 201, 204, 200]);
    let refused = hub.as_token("reader-secret").post("/api/jobs", json!({"type": "a"})).await;
    assert!(refused.body["error"]["message"].as_str().unwrap().contains("submit"));
}

#[tokio::test]
async fn a_login_sets_a_cookie_that_scripts_cannot_read_and_changes_need_our_header() {
    let hub = guarded().await;
    let wrong = hub.post("/api/login", json!({"token": "nope"})).await;
    assert_eq!(wrong.status, 401);
    let login = hub.post("/api/login", json!({"token": "admin-secret"})).await;
    assert_eq!((login.status.as_u16(), &login.body["role"]), (200, &json!("admin")));
    let cookie = login.headers["set-cookie"].to_str().unwrap().to_owned();
    assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"), "{cookie}");
    let pair = cookie.split(';').next().unwrap().to_owned();
    let read = hub.request(Method::GET, "/api/jobs").header("cookie", &pair).send().await.unwrap();
    assert_eq!(read.status(), 200);
    let forged = hub.request(Method::POST, "/api/jobs").header("cookie", &pair);
    let forged = answer(forged.json(&json!({"type": "a"})).send().await.unwrap()).await;
    assert_eq!((forged.status.as_u16(), forged.code()), (403, "wrong_origin"));
    let own = hub.request(Method::POST, "/api/jobs").header("cookie", &pair);
    let own = own.header("x-requested-with", "runcue").json(&json!({"type": "a"}));
    assert_eq!(own.send().await.unwrap().status(), 201);
    let out = hub.request(Method::POST, "/api/logout").send().await.unwrap();
    assert!(out.headers()["set-cookie"].to_str().unwrap().contains("Max-Age=0"));
}

#[tokio::test]
async fn a_cookie_is_only_sent_through_tls_where_there_is_tls() {
    let token = StaticToken { name: "a".into(), role: Role::Admin, secret: "s".into() };
    let config = HubConfig { tokens: vec![token], tls: true, ..HubConfig::default() };
    let hub = Server::with(config).await;
    let login = hub.post("/api/login", json!({"token": "s"})).await;
    assert!(login.headers["set-cookie"].to_str().unwrap().contains("Secure"));
}

#[tokio::test]
async fn a_foreign_name_or_a_page_of_another_origin_is_refused() {
    let hub =
        Server::with(HubConfig { hosts: vec!["queue.example".into()], ..HubConfig::default() })
            .await;
    let named = |host: &'static str| {
        let request = hub.request(Method::GET, "/api/jobs").header("host", host);
        async move { request.send().await.unwrap().status().as_u16() }
    };
    assert_eq!(named("evil.example").await, 421);
    assert_eq!(named("queue.example").await, 200);
    let page = hub.request(Method::POST, "/api/jobs").header("origin", "http://evil.example");
    let page = answer(page.json(&json!({"type": "a"})).send().await.unwrap()).await;
    assert_eq!((page.status.as_u16(), page.code()), (403, "wrong_origin"));
    let own = hub.request(Method::POST, "/api/jobs").header("origin", &hub.url);
    assert_eq!(own.json(&json!({"type": "a"})).send().await.unwrap().status(), 201);
}

#[tokio::test]
async fn an_address_that_guesses_too_often_cannot_log_in_and_those_who_have_a_token_go_on() {
    let hub = guarded().await;
    for _ in 0..10 {
        assert_eq!(hub.post("/api/login", json!({"token": "nope"})).await.status, 401);
    }
    let barred = hub.post("/api/login", json!({"token": "admin-secret"})).await;
    assert_eq!((barred.status.as_u16(), barred.code()), (429, "too_many_attempts"));
    assert!(barred.headers.contains_key("retry-after"));
    assert_eq!(hub.as_token("guess").get("/api/jobs").await.status, 429);
    let good = hub.as_token("admin-secret").get("/api/jobs").await;
    assert_eq!(good.status, 200, "a worker behind the same address is not locked out");
}

#[tokio::test]
async fn every_answer_tells_the_browser_to_be_careful() {
    let hub = Server::open().await;
    let answer = hub.get("/healthz").await;
    assert!(
        answer.headers["content-security-policy"].to_str().unwrap().contains("default-src 'self'")
    );
    assert_eq!(answer.headers["x-content-type-options"], "nosniff");
    assert_eq!(answer.headers["x-frame-options"], "DENY");
    assert_eq!(answer.headers["cache-control"], "no-store");
}

#[tokio::test]
async fn tokens_are_made_shown_once_listed_without_their_secret_and_refused_once_revoked() {
    let hub = guarded().await;
    let admin = hub.as_token("admin-secret");
    let made = admin.post("/api/tokens", json!({"name": "ci", "role": "submit"})).await;
    assert_eq!(made.status, 201);
    let secret = made.body["token"].as_str().unwrap().to_owned();
    let again = admin.post("/api/tokens", json!({"name": "ci", "role": "read"})).await;
    assert_eq!(again.code(), "conflict");
    let ci = hub.as_token(&secret);
    assert_eq!(ci.post("/api/jobs", json!({"type": "a"})).await.status, 201);
    assert_eq!(ci.post("/api/tokens", json!({"name": "x", "role": "admin"})).await.status, 403);
    let listed = admin.get("/api/tokens").await.body.to_string();
    assert!(listed.contains("\"ci\"") && !listed.contains(&secret) && !listed.contains("secret"));
    let kept = hub.store.records("token").await.unwrap();
    assert!(!format!("{kept:?}").contains(&secret), "only its hash is kept");
    assert_eq!(admin.delete("/api/tokens/ci").await.status, 204);
    assert_eq!(ci.get("/api/jobs").await.status, 401);
    assert_eq!(admin.delete("/api/tokens/ci").await.status, 404);
}
