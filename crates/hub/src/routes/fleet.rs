//! The fleet: machines push what they measure, and everybody sees them with their workers.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;

use super::workers;
use crate::error::Answer;
use crate::fleet::{Measured, Node};
use crate::hub::Shared;
use crate::wire::{OneOrMany, Part};

/// `POST /api/ingest/{node}`
pub async fn ingest(
    State(hub): State<Arc<Shared>>,
    Part(node): Part<String>,
    OneOrMany(measured): OneOrMany<Measured>,
) -> Answer<StatusCode> {
    hub.fleet.push(&node, measured, hub.now())?;
    Ok(StatusCode::NO_CONTENT)
}

/// `GET /api/fleet`
pub async fn show(State(hub): State<Arc<Shared>>) -> Answer<Json<Vec<Node>>> {
    let mut workers = workers::views(&hub).await?;
    // Hubs that make deliveries are no machines of the fleet.
    workers.retain(|worker| worker.slots > 0);
    hub.fleet.learn(&*hub.store, hub.now()).await?;
    Ok(Json(hub.fleet.nodes(workers, hub.now())))
}
