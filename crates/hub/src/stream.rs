//! One open event stream: begins where its reader left off, joins the tail, and falls back to the store when it
//! cannot keep up, so that a reader misses nothing that is still kept.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream;
use runcue_core::Event;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

use crate::hub::Shared;
use crate::tail::{BATCH, Batch, Shows, workers_of, written};

/// How often a quiet stream says that it is still there.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

struct Reader {
    hub: Arc<Shared>,
    shows: Shows,
    after: u64,
    /// The store has events that this reader has not seen.
    behind: bool,
    resumed: bool,
    batches: broadcast::Receiver<Arc<Batch>>,
}

/// A response that streams events after a number; without one, from now on.
pub async fn events(hub: Arc<Shared>, shows: Shows, after: Option<u64>) -> Response {
    // Listening begins before the place is looked up, so that nothing falls between.
    let batches = hub.tail.listen();
    let after = match after {
        Some(after) => after,
        None => match hub.store.last_event().await {
            Ok(last) => last,
            Err(error) => return crate::error::Refusal::from(error).into_response(),
        },
    };
    let reader = Reader { hub, shows, after, behind: true, resumed: false, batches };
    // The first line is sent at once, so that the reader knows that it is connected.
    let hello = stream::iter([Ok(Bytes::from_static(b"retry: 1000\n: runcue\n\n"))]);
    let rest = stream::unfold(reader, |mut reader| async move {
        let chunk = reader.next().await?;
        Some((Ok::<_, std::convert::Infallible>(chunk), reader))
    });
    respond(Body::from_stream(futures_util::StreamExt::chain(hello, rest)))
}

/// The headers of an event stream.
pub fn respond(body: Body) -> Response {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    // Proxies that collect a response before they pass it on would hold events back.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

impl Reader {
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if self.behind {
                if let Some(chunk) = self.catch_up().await {
                    return Some(chunk);
                }
                self.behind = false;
            }
            tokio::select! {
                () = self.hub.end.cancelled() => return None,
                () = tokio::time::sleep(KEEP_ALIVE) => return Some(Bytes::from_static(b": .\n\n")),
                batch = self.batches.recv() => match batch {
                    Ok(batch) => if let Some(chunk) = self.take(&batch) {
                        return Some(chunk);
                    },
                    Err(RecvError::Lagged(_)) => self.behind = true,
                    Err(RecvError::Closed) => return None,
                }
            }
        }
    }

    fn take(&mut self, batch: &Batch) -> Option<Bytes> {
        if batch.last <= self.after {
            return None;
        }
        if batch.first != self.after + 1 {
            // Part of it was seen already, or something before it was not.
            self.behind = true;
            return None;
        }
        self.after = batch.last;
        Some(batch.shown(self.shows)).filter(|chunk| !chunk.is_empty())
    }

    /// Reads from the store what comes next; nothing when there is no more.
    async fn catch_up(&mut self) -> Option<Bytes> {
        loop {
            // Asked before the events are: one that is written in between is not missed, it is read.
            let newest = match self.resumed {
                true => None,
                false => Some(self.hub.store.last_event().await.ok()?),
            };
            let events = self.hub.store.events(self.after, BATCH).await.ok()?;
            let next = match (events.first(), newest) {
                (Some(first), _) => first.seq,
                (None, Some(newest)) => newest + 1,
                (None, None) => return None,
            };
            self.resumed = true;
            let mut shown = Vec::new();
            if let Some(missed) = Event::missed(self.after, next, self.hub.now()) {
                self.after = missed.seq;
                shown.push(missed);
            }
            if let Some(last) = events.last() {
                self.after = last.seq;
            }
            let nothing_more = events.is_empty();
            shown.extend(events);
            let names = &self.hub.names;
            names.learn(&*self.hub.store, &workers_of(&shown), self.hub.now()).await;
            let chunk = written(&shown, self.shows, names);
            if !chunk.is_empty() {
                return Some(chunk);
            }
            if nothing_more {
                return None;
            }
        }
    }
}
