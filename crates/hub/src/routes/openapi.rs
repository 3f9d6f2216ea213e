//! The document of every route, for programs that read such things.

use std::sync::LazyLock;

use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};

use crate::openapi::document;

/// It is the same for everybody and as long as the hub runs.
static DOCUMENT: LazyLock<String> = LazyLock::new(|| document(&super::routes()).to_string());

/// `GET /openapi.json`
pub async fn show() -> Response {
    let mut response = DOCUMENT.as_str().into_response();
    let kind = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}
