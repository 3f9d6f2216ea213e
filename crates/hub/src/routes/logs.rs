//! A job's output: read at once or followed while it runs, and taken in from whoever runs it.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::body::Body as StreamBody;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream;
use runcue_core::JobId;
use runcue_store::{LogChunk, LogStream};
use runcue_view::LogView;
use serde::{Deserialize, Serialize};

use super::jobs;
use crate::error::{Answer, Refusal};
use crate::hub::Shared;
use crate::openapi::{
    Described, Schema, count, list_of, may, must, named, object, read_as, text, word,
};
use crate::stream::respond;
use crate::wire::strict::{each_known, known_if_any};
use crate::wire::{Body, LeaseBody, Part, worker};

/// How often a followed job is looked at when no news comes.
const POLL: Duration = Duration::from_secs(1);
/// The most pieces in one report.
const MOST: usize = 1_000;

/// What to read.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LogQuery {
    after: u64,
    follow: bool,
}

/// A job's output.
#[derive(Debug, Serialize)]
pub struct LogsBody {
    /// Oldest first.
    pub logs: Vec<LogView>,
    /// What to pass as `after` for what comes next.
    pub next: u64,
}

impl Described for LogsBody {
    const NAME: &'static str = "Logs";

    fn schema() -> Schema {
        object([
            must("logs", list_of(named::<LogView>()).says("Oldest first.")),
            must("next", count().says("What to pass as `after` for what comes next.")),
        ])
    }
}

/// `GET /api/jobs/{id}/logs`
pub async fn read(
    State(hub): State<Arc<Shared>>,
    Part(text): Part<String>,
    query: Result<Query<LogQuery>, axum::extract::rejection::QueryRejection>,
) -> Answer<Response> {
    let Query(query) = query.map_err(|error| Refusal::field("query", error.body_text()))?;
    let job = jobs::find(&hub, jobs::id(&text)?).await?;
    if query.follow {
        return Ok(follow(hub, job.id(), query.after));
    }
    let chunks = hub.store.logs(job.id(), query.after).await?;
    let next = chunks.last().map_or(query.after, |chunk| chunk.n);
    let logs = chunks.iter().map(LogView::from).collect();
    Ok(Json(LogsBody { logs, next }).into_response())
}

struct Follower {
    hub: Arc<Shared>,
    job: JobId,
    after: u64,
    seen: u64,
    over: bool,
}

fn follow(hub: Arc<Shared>, job: JobId, after: u64) -> Response {
    let follower = Follower { hub, job, after, seen: 0, over: false };
    let chunks = stream::unfold(follower, |mut follower| async move {
        let chunk = follower.next().await?;
        Some((Ok::<_, std::convert::Infallible>(chunk), follower))
    });
    respond(StreamBody::from_stream(chunks))
}

impl Follower {
    async fn next(&mut self) -> Option<Bytes> {
        if self.over {
            return None;
        }
        loop {
            // The state is read before the output, so that nothing written before the end is missed.
            let found = self.hub.store.get(vec![self.job]).await.ok()?;
            let job = found.into_iter().next().flatten();
            let ended = job.as_ref().is_none_or(|job| job.life.state.word().is_final());
            let chunks = self.hub.store.logs(self.job, self.after).await.ok()?;
            let mut text = String::new();
            for chunk in &chunks {
                self.after = chunk.n;
                push(&mut text, "log", chunk.n, &LogView::from(chunk));
            }
            if ended {
                self.over = true;
                let state = job.map(|job| job.life.state.word());
                push(&mut text, "end", self.after, &serde_json::json!({ "state": state }));
            }
            if !text.is_empty() {
                return Some(text.into());
            }
            tokio::select! {
                () = self.hub.end.cancelled() => return None,
                version = self.hub.store.changed(self.seen) => self.seen = version,
                () = tokio::time::sleep(POLL) => {}
            }
        }
    }
}

fn push(text: &mut String, name: &str, id: u64, data: &impl Serialize) {
    use std::fmt::Write as _;
    let data = serde_json::to_string(data).unwrap_or_default();
    // Writing to a string cannot fail.
    let _ = write!(text, "id: {id}\nevent: {name}\ndata: {data}\n\n");
}

/// Output of a running job.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AppendBody {
    worker_id: String,
    #[serde(default, deserialize_with = "known_if_any")]
    lease: Option<LeaseBody>,
    #[serde(deserialize_with = "each_known")]
    chunks: Vec<Piece>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Piece {
    stream: LogStream,
    text: String,
}

impl Described for AppendBody {
    const NAME: &'static str = "AppendLogs";

    fn schema() -> Schema {
        let stream = word(&["stdout", "stderr", "note"]);
        let piece = read_as::<Piece>([must("stream", stream), must("text", text())]);
        read_as::<Self>([
            must("worker_id", text()),
            may("lease", named::<LeaseBody>().or_null()),
            must("chunks", list_of(piece).up_to(MOST)),
        ])
    }
}

/// `POST /api/jobs/{id}/logs`
pub async fn append(
    State(hub): State<Arc<Shared>>,
    Part(text): Part<String>,
    Body(body): Body<AppendBody>,
) -> Answer<StatusCode> {
    let id = jobs::id(&text)?;
    if body.chunks.len() > MOST {
        return Err(Refusal::field("chunks", format!("at most {MOST} pieces in one report")));
    }
    let lease = match &body.lease {
        Some(lease) => lease.of(id),
        None => hub.held.find(&*hub.store, id, worker(&body.worker_id, None)?).await?.lease,
    };
    let now = hub.now();
    let chunk = |piece: Piece| LogChunk {
        n: 0,
        job: id,
        attempt: lease.attempt,
        token: lease.token,
        stream: piece.stream,
        at: now,
        text: piece.text,
    };
    hub.store.append_logs(now, body.chunks.into_iter().map(chunk).collect()).await?;
    Ok(StatusCode::NO_CONTENT)
}
