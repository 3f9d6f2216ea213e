//! The document of every route: it is the committed one, it leads nowhere that is not there, and the hub does what it
//! says. `docs/openapi.json` is written anew with
//!
//! ```sh
//! RUNCUE_OPENAPI=1 cargo nextest run -p runcue-hub openapi
//! ```

use std::path::Path;

use reqwest::Method;
use runcue_hub::{HubConfig, Role, StaticToken};
use serde_json::{Value, json};

use crate::server::{Server, answer};

fn committed() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/openapi.json")
}

#[test]
fn the_committed_document_is_the_one_that_the_code_makes() {
    let made = runcue_hub::openapi();
    if std::env::var_os("RUNCUE_OPENAPI").is_some() {
        let text = serde_json::to_string_pretty(&made).unwrap() + "\n";
        std::fs::write(committed(), text).unwrap();
    }
    let text = std::fs::read_to_string(committed()).unwrap_or_default();
    let kept: Value = serde_json::from_str(&text).unwrap_or_default();
    assert!(
        kept == made,
        "docs/openapi.json is not what the code makes; write it anew with\n\
         RUNCUE_OPENAPI=1 cargo nextest run -p runcue-hub openapi"
    );
}

/// Every operation: its method, its path, and what is said of it.
fn operations(document: &Value) -> Vec<(Method, String, &Value)> {
    let paths = document["paths"].as_object().unwrap();
    let mut found = Vec::new();
    for (path, methods) in paths {
        for (method, said) in methods.as_object().unwrap() {
            found.push((method.to_uppercase().parse().unwrap(), path.clone(), said));
        }
    }
    found
}

#[test]
fn every_name_in_the_document_is_explained_and_every_operation_has_one_of_its_own() {
    let document = runcue_hub::openapi();
    let mut ids: Vec<&str> = Vec::new();
    for (_, _, said) in operations(&document) {
        ids.push(said["operationId"].as_str().unwrap());
    }
    let count = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), count, "two operations have one id");
    assert!(count > 50, "{count} operations");
    let mut open = vec![&document];
    while let Some(value) = open.pop() {
        if let Some(place) = value.get("$ref").and_then(Value::as_str) {
            let found = document.pointer(place.trim_start_matches('#'));
            assert!(found.is_some(), "{place} is not there");
        }
        if let Some(links) = value.get("links").and_then(Value::as_object) {
            for link in links.values() {
                assert!(ids.contains(&link["operationId"].as_str().unwrap()), "{link}");
            }
        }
        match value {
            Value::Array(values) => open.extend(values),
            Value::Object(fields) => open.extend(fields.values()),
            _ => {}
        }
    }
}

/// A path with something in every place.
fn filled(path: &str) -> String {
    path.replace("{id}", &"0".repeat(32))
        .replace("{action}", "pause")
        .replace("{name}", "a")
        .replace("{worker_id}", "a")
        .replace("{node}", "a")
}

#[tokio::test]
async fn every_route_is_there_and_asks_for_the_role_that_the_document_names() {
    let roles = [Role::Read, Role::Submit, Role::Work, Role::Admin];
    let token = |role: Role| StaticToken {
        name: role.as_str().to_owned(),
        role,
        secret: format!("secret-{}", role.as_str()),
    };
    let config = HubConfig { tokens: roles.map(token).to_vec(), ..HubConfig::default() };
    let nobody = Server::with(config).await;
    let document = nobody.get("/openapi.json").await;
    assert_eq!(document.status, 200, "everybody may read it");
    assert_eq!(document.body, runcue_hub::openapi());
    for (method, path, said) in operations(&document.body) {
        let status = async |hub: &Server| {
            let sent = hub.request(method.clone(), &filled(&path)).send().await.unwrap();
            sent.status().as_u16()
        };
        let Some(needed) = said["x-role"].as_str() else {
            // Whoever is nobody is told so here, and nowhere else.
            let refused = if path == "/api/me" { 401 } else { 0 };
            let got = status(&nobody).await;
            assert!(got == refused || got < 400 || got == 422, "{method} {path}: {got}");
            continue;
        };
        assert_eq!(status(&nobody).await, 401, "{method} {path} without a token");
        for role in roles {
            let got = status(&nobody.as_token(&format!("secret-{}", role.as_str()))).await;
            let may = role.may(Role::from_word(needed).unwrap());
            assert_eq!(got != 403, may, "{method} {path} as {}: {got}", role.as_str());
            assert!(got != 405 && got < 500, "{method} {path} as {}: {got}", role.as_str());
        }
    }
}

/// What is wrong with a value, strictly: fields that are not described are wrong too.
fn wrong(document: &Value, schema: &Value, value: &Value, place: &str) -> Vec<String> {
    let mut found = Vec::new();
    check(document, schema, value, place, &mut found);
    if let Some(fields) = value.as_object() {
        let known = described(document, schema);
        if !known.is_empty() {
            let strange = fields.keys().filter(|name| !known.contains(name));
            found.extend(strange.map(|name| format!("{place}.{name} is not described")));
        }
    }
    found
}

fn resolved<'a>(document: &'a Value, schema: &'a Value) -> &'a Value {
    match schema.get("$ref").and_then(Value::as_str) {
        Some(place) => document.pointer(place.trim_start_matches('#')).unwrap(),
        None => schema,
    }
}

fn described(document: &Value, schema: &Value) -> Vec<String> {
    let schema = resolved(document, schema);
    let own =
        schema["properties"].as_object().into_iter().flat_map(|fields| fields.keys().cloned());
    let parts = ["allOf", "anyOf"].into_iter().filter_map(|word| schema[word].as_array());
    own.chain(parts.flatten().flat_map(|part| described(document, part))).collect()
}

fn check(document: &Value, schema: &Value, value: &Value, place: &str, found: &mut Vec<String>) {
    let schema = resolved(document, schema);
    if let Some(kinds) = schema.get("type") {
        let kinds = kinds.as_array().cloned().unwrap_or_else(|| vec![kinds.clone()]);
        let fits = kinds.iter().any(|kind| match kind.as_str().unwrap() {
            "null" => value.is_null(),
            "boolean" => value.is_boolean(),
            "integer" => value.is_i64() || value.is_u64(),
            "number" => value.is_number(),
            "string" => value.is_string(),
            "array" => value.is_array(),
            _ => value.is_object(),
        });
        if !fits {
            found.push(format!("{place} is {value}, expected {kinds:?}"));
            return;
        }
    }
    if let Some(words) = schema["enum"].as_array()
        && !words.contains(value)
    {
        found.push(format!("{place} is {value}, expected one of {words:?}"));
    }
    if let Some(parts) = schema["allOf"].as_array() {
        parts.iter().for_each(|part| check(document, part, value, place, found));
    }
    if let Some(parts) = schema["anyOf"].as_array() {
        let fits = |part: &Value| wrong(document, part, value, place).is_empty();
        if !parts.iter().any(fits) {
            found.push(format!("{place} fits none of its shapes: {value}"));
        }
    }
    for name in schema["required"].as_array().into_iter().flatten() {
        if value.get(name.as_str().unwrap()).is_none() {
            found.push(format!("{place} lacks {name}"));
        }
    }
    for (name, part) in schema["properties"].as_object().into_iter().flatten() {
        if let Some(value) = value.get(name) {
            found.extend(wrong(document, part, value, &format!("{place}.{name}")));
        }
    }
    if let (Some(part), Some(values)) = (schema.get("items"), value.as_array()) {
        for value in values {
            found.extend(wrong(document, part, value, &format!("{place}[]")));
        }
    }
}

/// Asks and checks the answer against the document.
async fn fits(
    hub: &Server,
    method: &str,
    path: &str,
    template: &str,
    body: Option<Value>,
) -> Value {
    let document = runcue_hub::openapi();
    let mut request = hub.request(method.parse().unwrap(), path);
    if let Some(body) = &body {
        request = request.json(body);
    }
    let answer = answer(request.send().await.unwrap()).await;
    let said = &document["paths"][template][method.to_lowercase()]["responses"];
    let said = resolved(&document, &said[answer.status.as_str()]);
    assert!(said.is_object(), "{method} {path}: {} is not described", answer.status);
    match said["content"]["application/json"].get("schema") {
        Some(schema) => {
            let wrong = wrong(&document, schema, &answer.body, template);
            assert!(wrong.is_empty(), "{method} {path}: {wrong:#?}");
        }
        None => assert_eq!(answer.body, Value::Null, "{method} {path}"),
    }
    answer.body
}

#[tokio::test]
async fn what_the_hub_answers_has_the_fields_that_the_document_describes_and_no_other() {
    let hub = &Server::open().await;
    let limits = json!({
        "max_concurrent": 2, "rates": [{"rate_limit": 5, "rate_window": 1}], "circuit_threshold": 3,
        "per_key": {"max_concurrent": 1, "rates": [{"rate_limit": 1, "rate_window": 60}]},
    });
    fits(hub, "PUT", "/api/services/api", "/api/services/{name}", Some(limits)).await;
    fits(hub, "PUT", "/api/queues/q", "/api/queues/{name}", Some(json!({"max_queued": 9}))).await;
    let schedule = json!({"cron": "0 3 * * *", "job": {"type": "nightly", "params": [1]}});
    fits(hub, "PUT", "/api/schedules/s", "/api/schedules/{name}", Some(schedule)).await;
    let job = json!({
        "type": "t", "params": {"a": [1, null]}, "queue": "q", "group": "g", "labels": ["l"], "project": "p",
        "services": ["api"], "key": "k", "requires": {"cores": 1, "tags": ["x"]}, "target": "here",
        "retry": {"max_attempts": 2, "base_delay": 0}, "max_attempts": 2, "idempotency_key": "once",
    });
    let first = fits(hub, "POST", "/api/jobs", "/api/jobs", Some(job.clone())).await;
    fits(hub, "POST", "/api/jobs", "/api/jobs", Some(job)).await;
    let id = first["id"].as_str().unwrap();
    let after = json!([{"type": "t", "depends_on": [id]}]);
    fits(hub, "POST", "/api/jobs/bulk", "/api/jobs/bulk", Some(after)).await;
    let worker = json!({"worker_id": "w", "cores": 4, "ram_gb": 8, "tags": ["x"]});
    fits(hub, "POST", "/api/workers/register", "/api/workers/register", Some(worker)).await;
    let measured = json!({"cpu": 1.5, "mem_used_gb": 1, "mem_total_gb": 2, "name": "One"});
    fits(hub, "POST", "/api/ingest/w", "/api/ingest/{node}", Some(measured)).await;
    let claim = json!({"worker_id": "w", "max": 1});
    let claimed = fits(hub, "POST", "/api/jobs/claim", "/api/jobs/claim", Some(claim)).await;
    let lease = &claimed["jobs"][0]["lease"];
    let on = |word: &str| (format!("/api/jobs/{id}/{word}"), format!("/api/jobs/{{id}}/{word}"));
    let (path, template) = on("heartbeat");
    let beat = json!({"worker_id": "w", "lease": lease, "progress": {"percent": 5.5}});
    fits(hub, "POST", &path, &template, Some(beat)).await;
    let beats = json!({"worker_id": "w", "jobs": [{"id": id, "lease": lease}]});
    fits(hub, "POST", "/api/jobs/heartbeats", "/api/jobs/heartbeats", Some(beats)).await;
    let (path, template) = on("logs");
    let chunks = json!({"worker_id": "w", "chunks": [{"stream": "stdout", "text": "hello"}]});
    fits(hub, "POST", &path, &template, Some(chunks)).await;
    fits(hub, "GET", &path, &template, None).await;
    look_everywhere(hub, id).await;
    let (path, template) = on("fail");
    let failure = json!({"worker_id": "w", "reason": "no"});
    fits(hub, "POST", &path, &template, Some(failure)).await;
    look_everywhere(hub, id).await;
    let (path, template) = on("result");
    fits(hub, "POST", &path, &template, Some(json!({"worker_id": "w", "result": 1}))).await;
    let (path, template) = on("cancel");
    fits(hub, "POST", &path, &template, None).await;
    let (path, template) = on("retry");
    fits(hub, "POST", &path, &template, None).await;
    let all = json!({"all": true, "dry_run": true});
    fits(hub, "POST", "/api/jobs/cancel", "/api/jobs/cancel", Some(all)).await;
    for action in ["pause", "cancel"] {
        let path = format!("/api/groups/g/{action}");
        fits(hub, "POST", &path, "/api/groups/{name}/{action}", None).await;
    }
    let ends =
        json!({"worker_id": "w", "ends": [{"id": id, "lease": lease, "outcome": "released"}]});
    fits(hub, "POST", "/api/jobs/ends", "/api/jobs/ends", Some(ends)).await;
    look_everywhere(hub, id).await;
    let token = json!({"name": "ci", "role": "read"});
    let made = fits(hub, "POST", "/api/tokens", "/api/tokens", Some(token)).await;
    let hub = hub.as_token(made["token"].as_str().unwrap());
    fits(&hub, "GET", "/api/me", "/api/me", None).await;
    fits(&hub, "GET", "/api/tokens", "/api/tokens", None).await;
}

/// Everything that can be looked at, but what is no JSON.
async fn look_everywhere(hub: &Server, id: &str) {
    let document = runcue_hub::openapi();
    for (method, path, said) in operations(&document) {
        let is_json = said["responses"]["200"]["content"].get("application/json").is_some();
        if method == Method::GET && is_json && path != "/openapi.json" {
            fits(hub, "GET", &path.replace("{id}", id), &path, None).await;
        }
    }
}

#[tokio::test]
async fn a_misspelt_field_inside_a_body_is_refused_by_its_name() {
    let hub = Server::open().await;
    for body in [
        json!({"type": "t", "retry": {"max_atempts": 2}}),
        json!({"type": "t", "requires": {"core": 2}}),
        json!({"type": "t", "services": [{"service": "api", "unit": 2}]}),
    ] {
        let refused = hub.post("/api/jobs", body.clone()).await;
        assert_eq!((refused.status.as_u16(), refused.code()), (422, "invalid"), "{body}");
    }
    let rates = json!({"per_key": {"rates": [{"rate_limit": 1, "rate_window": 1, "burst": 2}]}});
    let refused = hub.send(Method::PUT, "/api/services/api", rates).await;
    assert_eq!(refused.code(), "invalid");
    assert!(refused.body["error"]["message"].as_str().unwrap().contains("burst"));
}

#[tokio::test]
async fn the_fields_of_a_body_in_an_array_are_refused() {
    let hub = Server::open().await;
    for (path, body) in [
        ("/api/jobs", json!(["t"])),
        ("/api/jobs/bulk", json!([["t"]])),
        ("/api/jobs/cancel", json!([])),
        ("/api/jobs/claim", json!(["w"])),
        ("/api/ingest/n", json!([[null, 1, 2, 3]])),
    ] {
        let refused = hub.post(path, body).await;
        assert_eq!((refused.status.as_u16(), refused.code()), (422, "invalid"), "{path}");
    }
}

#[tokio::test]
async fn a_path_that_is_no_text_is_refused_in_the_one_shape() {
    let hub = Server::open().await;
    for path in ["/api/jobs/%FF", "/api/jobs/%FF/why"] {
        let refused = hub.get(path).await;
        assert_eq!((refused.status.as_u16(), refused.code()), (400, "bad_request"), "{path}");
    }
    let refused = hub.post("/api/groups/%FF/pause", json!({})).await;
    assert_eq!(refused.code(), "bad_request");
}

#[tokio::test]
async fn a_field_that_another_one_hides_is_checked_all_the_same() {
    let hub = Server::open().await;
    let job = json!({"type": "t", "max_attempts": 1, "retry": {"max_attempts": 0}});
    for (path, body) in [("/api/jobs", job.clone()), ("/api/jobs/bulk", json!([job]))] {
        let refused = hub.post(path, body).await;
        assert_eq!((refused.status.as_u16(), refused.code()), (422, "invalid"), "{path}");
    }
    let lease = json!({"attempt": 1, "token": 1, "instance": "0".repeat(32)});
    let long = "x".repeat(2_000);
    for outcome in ["completed", "failed"] {
        let end =
            json!({"id": "0".repeat(32), "lease": lease, "outcome": outcome, "result_hash": long});
        let refused = hub.post("/api/jobs/ends", json!({"worker_id": "w", "ends": [end]})).await;
        assert_eq!((refused.status.as_u16(), refused.code()), (422, "invalid"), "{outcome}");
    }
}
