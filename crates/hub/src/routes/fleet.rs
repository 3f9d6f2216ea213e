//! The fleet: machines push what they measure, and everybody sees them with their workers.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;

use super::workers;
use crate::error::Answer;
use crate::fleet::{Node, Pushed};
use crate::hub::Shared;
use crate::wire::Body;

/// `POST /api/ingest/{node}`
pub async fn ingest(
    State(hub): State<Arc<Shared>>,
    Path(node): Path<String>,
    Body(pushed): Body<Pushed>,
) -> Answer<StatusCode> {
    hub.fleet.push(&node, pushed, hub.now())?;
    Ok(StatusCode::NO_CONTENT)
}

/// `GET /api/fleet`
pub async fn show(State(hub): State<Arc<Shared>>) -> Answer<Json<Vec<Node>>> {
    let workers = workers::views(&hub).await?;
    Ok(Json(hub.fleet.nodes(workers, hub.now())))
}
