//! The queue at a glance, the figures of the last hour, health and metrics.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use runcue_view::StatusView;
use serde::Serialize;

use crate::error::Answer;
use crate::health::{self, Health};
use crate::hub::Shared;
use crate::openapi::{Described, Schema, both, count, must, named, object, text};
use crate::series::SeriesBody;

/// The queue at a glance.
#[derive(Debug, Serialize)]
pub struct StatusBody {
    /// As every front shows it.
    #[serde(flatten)]
    pub status: StatusView,
    /// The number of the latest event.
    pub last_event: u64,
    /// Claims that wait for work.
    pub waiting_workers: usize,
    /// The hub's version.
    pub version: &'static str,
}

impl Described for StatusBody {
    const NAME: &'static str = "Status";

    fn schema() -> Schema {
        let beside = object([
            must("last_event", count().says("The number of the latest event.")),
            must("waiting_workers", count().says("Claims that wait for work.")),
            must("version", text()),
        ]);
        both([named::<StatusView>(), beside])
    }
}

/// `GET /api/status`
pub async fn status(State(hub): State<Arc<Shared>>) -> Answer<Json<StatusBody>> {
    // The place is read first: what happens meanwhile is told by the events after it.
    let last_event = hub.store.last_event().await?;
    let place = hub.config.place.clone();
    let status = StatusView::look(&*hub.store, place, hub.now()).await?;
    Ok(Json(StatusBody {
        status,
        last_event,
        waiting_workers: hub.desk.len(),
        version: env!("CARGO_PKG_VERSION"),
    }))
}

/// `GET /api/series`
pub async fn series(State(hub): State<Arc<Shared>>) -> Json<SeriesBody> {
    Json(hub.series.body())
}

/// `GET /healthz`
pub async fn healthz(State(hub): State<Arc<Shared>>) -> (StatusCode, Json<Health>) {
    let health = health::look(&hub).await;
    let status = match health.status {
        "away" => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::OK,
    };
    (status, Json(health))
}

/// `GET /metrics`
pub async fn metrics(State(hub): State<Arc<Shared>>) -> Answer<Response> {
    hub.cue.refresh_metrics().await?;
    let mut response = hub.cue.metrics().render().into_response();
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    Ok(response)
}
