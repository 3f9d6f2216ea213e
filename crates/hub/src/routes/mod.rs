//! The router, made from the table of every route. One file per noun; each handler reads its request, asks the
//! store, and writes the answer.

mod actions;
mod claim;
mod dashboard;
mod definitions;
mod events;
mod fleet;
mod jobs;
mod login;
mod logs;
mod openapi;
mod report;
mod route;
mod status;
mod submit;
mod table;
mod tokens;
mod webhooks;
mod workers;

pub use jobs::{body as job_body, worker_name};
pub use route::Route;
pub use table::routes;

use std::sync::Arc;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request};
use axum::http::{HeaderValue, header};
use axum::middleware::{self, Next};
use axum::response::Response;

use crate::config::MAX_BODY;
use crate::error::{Code, Refusal};
use crate::guard;
use crate::hub::Shared;

/// Every route.
pub fn router(hub: Arc<Shared>) -> Router {
    let routed = |router: Router<Arc<Shared>>, route: Route| {
        let (path, handler) = (route.path, route.handler());
        router.route(path, handler)
    };
    routes()
        .into_iter()
        .fold(Router::new(), routed)
        .fallback(dashboard::file)
        .method_not_allowed_fallback(no_such_method)
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .layer(middleware::from_fn_with_state(Arc::clone(&hub), guard::identify))
        .layer(middleware::from_fn(harden))
        .with_state(hub)
}

fn nothing_at(path: &str) -> Refusal {
    Refusal::new(Code::NotFound, format!("there is nothing at {path}"))
        .help("/openapi.json describes every route")
}

async fn no_such_method(request: Request) -> Refusal {
    let (method, path) = (request.method(), request.uri().path());
    Refusal::new(Code::MethodNotAllowed, format!("{path} has no {method}"))
}

/// Headers that keep a browser from doing what a page here never wants.
async fn harden(request: Request, next: Next) -> Response {
    const POLICY: &str =
        "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'";
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "no-referrer"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    if !headers.contains_key(header::CACHE_CONTROL) {
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
    response
}
