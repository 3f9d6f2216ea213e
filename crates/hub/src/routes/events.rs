//! Event streams: everything for whoever may read, and the documented one of jobs for everybody.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{Query, State};
use axum::http::HeaderMap;
use axum::response::Response;
use serde::Deserialize;

use crate::access::Caller;
use crate::error::{Answer, Refusal};
use crate::hub::Shared;
use crate::stream;
use crate::tail::Shows;

/// Where to begin.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EventsQuery {
    after: Option<u64>,
}

type Asked = Result<Query<EventsQuery>, axum::extract::rejection::QueryRejection>;

/// What a reader has seen: what its browser remembers comes before what its address says.
fn place(headers: &HeaderMap, query: Asked) -> Answer<Option<u64>> {
    let Query(query) = query.map_err(|error| Refusal::field("query", error.body_text()))?;
    let Some(last) = headers.get("last-event-id") else { return Ok(query.after) };
    let number = last.to_str().ok().and_then(|text| text.parse().ok());
    number.map(Some).ok_or_else(|| Refusal::field("Last-Event-ID", "a number is expected"))
}

/// `GET /api/events`
pub async fn all(
    State(hub): State<Arc<Shared>>,
    headers: HeaderMap,
    query: Asked,
) -> Answer<Response> {
    let after = place(&headers, query)?;
    Ok(stream::events(hub, Shows::All, after).await)
}

/// `GET /api/jobs/events`
pub async fn jobs(
    State(hub): State<Arc<Shared>>,
    caller: Option<Extension<Caller>>,
    headers: HeaderMap,
    query: Asked,
) -> Answer<Response> {
    let after = place(&headers, query)?;
    let shows = if caller.is_some() { Shows::Jobs } else { Shows::JobsBare };
    Ok(stream::events(hub, shows, after).await)
}
