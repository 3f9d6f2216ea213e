//! Every route, by the role it needs. One file per noun; each handler reads its request, asks the store, and
//! writes the answer.

mod actions;
mod claim;
mod dashboard;
mod definitions;
mod events;
mod fleet;
mod jobs;
mod login;
mod logs;
mod report;
mod status;
mod submit;
mod tokens;
mod workers;

use std::sync::Arc;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request};
use axum::http::{HeaderValue, header};
use axum::middleware::{self, Next};
use axum::response::Response;
use axum::routing::{delete, get, post, put};

use crate::access::Role;
use crate::config::{MAX_BODY, MAX_BULK_BODY};
use crate::error::{Code, Refusal};
use crate::guard;
use crate::hub::Shared;

type Routes = Router<Arc<Shared>>;

/// Every route.
pub fn router(hub: Arc<Shared>) -> Router {
    Router::new()
        .merge(for_role(Role::Read, reading()))
        .merge(for_role(Role::Submit, submitting()))
        .merge(for_role(Role::Work, working()))
        .merge(for_role(Role::Admin, administering()))
        .merge(for_everybody())
        .fallback(dashboard::file)
        .method_not_allowed_fallback(no_such_method)
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .layer(middleware::from_fn_with_state(Arc::clone(&hub), guard::identify))
        .layer(middleware::from_fn(harden))
        .with_state(hub)
}

fn for_role(role: Role, routes: Routes) -> Routes {
    let asked = move |request: Request, next: Next| guard::require(role, request, next);
    routes.route_layer(middleware::from_fn(asked))
}

fn reading() -> Routes {
    Router::new()
        .route("/api/jobs", get(jobs::list))
        .route("/api/jobs/{id}", get(jobs::get))
        .route("/api/jobs/{id}/why", get(jobs::why))
        .route("/api/jobs/{id}/logs", get(logs::read))
        .route("/api/quarantine", get(jobs::quarantine))
        .route("/api/workers", get(workers::list))
        .route("/api/status", get(status::status))
        .route("/api/series", get(status::series))
        .route("/api/groups", get(definitions::groups))
        .route("/api/queues", get(definitions::queues))
        .route("/api/services", get(definitions::services))
        .route("/api/schedules", get(definitions::schedules))
        .route("/api/tasks", get(definitions::tasks))
        .route("/api/events", get(events::all))
        .route("/api/fleet", get(fleet::show))
        .route("/metrics", get(status::metrics))
}

fn submitting() -> Routes {
    Router::new()
        .route("/api/jobs", post(submit::one))
        .route("/api/jobs/bulk", post(submit::bulk).layer(DefaultBodyLimit::max(MAX_BULK_BODY)))
        .route("/api/jobs/{id}", delete(actions::delete))
        .route("/api/jobs/{id}/cancel", post(actions::cancel))
        .route("/api/jobs/{id}/retry", post(actions::retry))
}

fn working() -> Routes {
    Router::new()
        .route("/api/workers/register", post(workers::register))
        .route("/api/workers/{worker_id}", delete(workers::goodbye))
        .route("/api/jobs/claim", post(claim::claim))
        .route("/api/jobs/{id}/heartbeat", post(report::heartbeat))
        .route("/api/jobs/{id}/result", post(report::result))
        .route("/api/jobs/{id}/fail", post(report::fail))
        .route("/api/jobs/{id}/release", post(report::release))
        .route("/api/jobs/{id}/logs", post(logs::append))
        .route("/api/jobs/heartbeats", post(report::heartbeats))
        .route("/api/jobs/ends", post(report::ends))
        .route("/api/ingest/{node}", post(fleet::ingest))
}

fn administering() -> Routes {
    Router::new()
        .route("/api/jobs/cancel", post(actions::cancel_many))
        .route("/api/jobs/retry", post(actions::retry_many))
        .route("/api/quarantine/replay", post(actions::replay))
        .route("/api/groups/{name}/{action}", post(actions::group))
        .route("/api/tokens", get(tokens::list).post(tokens::create))
        .route("/api/tokens/{name}", delete(tokens::revoke))
        .route("/api/queues/{name}", put(definitions::put_queue))
        .route(
            "/api/services/{name}",
            put(definitions::put_service).patch(definitions::patch_service),
        )
        .route(
            "/api/schedules/{name}",
            put(definitions::put_schedule).delete(definitions::remove_schedule),
        )
        .route("/api/schedules/{name}/{action}", post(definitions::pause_schedule))
}

fn for_everybody() -> Routes {
    Router::new()
        .route("/api/jobs/events", get(events::jobs))
        .route("/api/login", post(login::login))
        .route("/api/logout", post(login::logout))
        .route("/api/me", get(login::me))
        .route("/healthz", get(status::healthz))
}

fn nothing_at(path: &str) -> Refusal {
    Refusal::new(Code::NotFound, format!("there is nothing at {path}"))
        .help("docs/http.md lists every route")
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
