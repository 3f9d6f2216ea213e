//! Reading bodies: JSON that names the field that is wrong, within a bound, and only if the client said it is
//! JSON, so that no page can post here with a form.

use axum::body::Bytes;
use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, header};
use serde::de::DeserializeOwned;

use super::strict::Known;
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
            return object(b"{}").map(Self);
        }
        json_only(&kind)?;
        object(&bytes).map(Self)
    }
}

/// A JSON body that is one object, or an array of them.
#[derive(Debug)]
pub struct OneOrMany<T>(pub Vec<T>);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for OneOrMany<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request, state: &S) -> Result<Self, Refusal> {
        let kind = media_type(request.headers());
        let bytes = bytes(request, state).await?;
        json_only(&kind)?;
        match begins_with(&bytes) {
            Some(b'[') => objects(&bytes).map(Self),
            _ => object(&bytes).map(|one| Self(vec![one])),
        }
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
            "application/json" => objects(&bytes).map(Self),
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
            object(line).map_err(|refusal| Refusal {
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

fn json_only(kind: &str) -> Result<(), Refusal> {
    if kind == "application/json" || kind.ends_with("+json") { Ok(()) } else { Err(not_json(kind)) }
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

fn begins_with(bytes: &[u8]) -> Option<u8> {
    bytes.iter().copied().find(|byte| !byte.is_ascii_whitespace())
}

fn object<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Refusal> {
    parse::<Known<T>>(bytes).map(|known| known.0)
}

fn objects<T: DeserializeOwned>(bytes: &[u8]) -> Result<Vec<T>, Refusal> {
    let many: Vec<Known<T>> = parse(bytes)?;
    Ok(many.into_iter().map(|known| known.0).collect())
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Refusal> {
    serde_json::from_slice(bytes).map_err(|error| {
        let code = if error.is_data() { Code::Invalid } else { Code::BadRequest };
        Refusal::new(code, format!("the body: {error}"))
    })
}
