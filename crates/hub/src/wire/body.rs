//! Reading bodies: JSON that names the field that is wrong, within a bound, and only if the client said it is
//! JSON, so that no page can post here with a form.

use axum::body::Bytes;
use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, header};
use serde::de::DeserializeOwned;

use crate::error::{Code, Refusal};

/// A JSON body read into a type.
#[derive(Debug)]
pub struct Body<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Body<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request, state: &S) -> Result<Self, Refusal> {
        let kind = media_type(request.headers());
        let bytes = bytes(request, state).await?;
        // Nothing at all means every default, whatever it is called.
        if bytes.is_empty() {
            return parse(b"{}").map(Self);
        }
        if kind != "application/json" && !kind.ends_with("+json") {
            return Err(not_json(&kind));
        }
        parse(&bytes).map(Self)
    }
}

/// An array of values, or one value per line.
#[derive(Debug)]
pub struct Ndjson<T>(pub Vec<T>);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Ndjson<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request, state: &S) -> Result<Self, Refusal> {
        let kind = media_type(request.headers());
        let bytes = bytes(request, state).await?;
        match kind.as_str() {
            "application/json" => parse(&bytes).map(Self),
            "application/x-ndjson" | "application/jsonl" => lines(&bytes).map(Self),
            other => Err(not_json(other).help("send application/json or application/x-ndjson")),
        }
    }
}

fn lines<T: DeserializeOwned>(bytes: &[u8]) -> Result<Vec<T>, Refusal> {
    let lines = bytes.split(|byte| *byte == b'\n').enumerate();
    let written = lines.filter(|(_, line)| !line.iter().all(u8::is_ascii_whitespace));
    written
        .map(|(n, line)| {
            parse(line).map_err(|refusal| Refusal {
                message: format!("line {}: {}", n + 1, refusal.message),
                ..refusal
            })
        })
        .collect()
}

fn media_type(headers: &HeaderMap) -> String {
    let value = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let kind = value.unwrap_or_default().split(';').next().unwrap_or_default();
    kind.trim().to_ascii_lowercase()
}

fn not_json(kind: &str) -> Refusal {
    let kind = if kind.is_empty() { "of no declared type" } else { kind };
    Refusal::new(Code::UnsupportedMediaType, format!("the body is {kind}, JSON is expected"))
        .help("send the header Content-Type: application/json")
}

async fn bytes<S: Send + Sync>(request: Request, state: &S) -> Result<Bytes, Refusal> {
    Bytes::from_request(request, state).await.map_err(|rejection| {
        let status = rejection.status();
        if status == Code::TooLarge.status() {
            return Refusal::new(Code::TooLarge, "the body is larger than this route takes")
                .help("send it in parts, or put large data elsewhere and pass its address");
        }
        Refusal::new(Code::BadRequest, format!("the body cannot be read: {rejection}"))
    })
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Refusal> {
    serde_json::from_slice(bytes).map_err(|error| {
        let code = if error.is_data() { Code::Invalid } else { Code::BadRequest };
        Refusal::new(code, format!("the body: {error}"))
    })
}
