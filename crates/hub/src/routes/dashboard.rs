//! The dashboard: files that were built into the hub, or a plain page where they were not.

use axum::extract::Request;
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};

use crate::error::Refusal;

include!(concat!(env!("OUT_DIR"), "/assets.rs"));

const PLAIN: &str = include_str!("plain.html");

/// Every address that is no route: a file of the dashboard, or nothing.
pub async fn file(request: Request) -> Response {
    let path = request.uri().path().trim_start_matches('/');
    if !matches!(*request.method(), Method::GET | Method::HEAD) || path.starts_with("api/") {
        return missing(request.uri().path()).into_response();
    }
    let name = if path.is_empty() { "index.html" } else { path };
    if let Some((name, bytes)) = ASSETS.iter().find(|(known, _)| *known == name) {
        return found(name, bytes);
    }
    if name == "index.html" {
        return found("index.html", PLAIN.as_bytes());
    }
    missing(request.uri().path()).into_response()
}

fn missing(path: &str) -> Refusal {
    super::nothing_at(path)
}

fn found(name: &str, bytes: &'static [u8]) -> Response {
    let kind = match name.rsplit_once('.').map(|(_, end)| end) {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("json") => "application/json",
        Some("woff2") => "font/woff2",
        Some("png") => "image/png",
        _ => "application/octet-stream",
    };
    // The names of built files change with what is in them; the page that names them does not.
    let lasts = if name.starts_with("assets/") {
        "public, max-age=31536000, immutable"
    } else {
        "no-cache"
    };
    let mut response = (StatusCode::OK, bytes).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(lasts));
    response
}
