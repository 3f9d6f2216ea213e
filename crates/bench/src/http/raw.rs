//! The raw floor over HTTP: an axum server that reads a body, answers with as many bytes as it was asked for, and
//! does nothing else. It runs in a process of its own, as the hub does.

use std::io::{sink, stdin};

use anyhow::Result;
use axum::Router;
use axum::extract::{DefaultBodyLimit, Path, State};
use axum::http::header;
use axum::response::IntoResponse;
use axum::routing::post;
use axum::serve::ListenerExt;
use bytes::Bytes;
use tokio::net::TcpListener;

/// The word with which this program becomes that server.
pub const RAW: &str = "raw-axum";
/// The largest answer.
const MOST: usize = 4 * 1024 * 1024;

/// Where an answer of this length is to be had.
pub fn path(length: usize) -> String {
    format!("/{length}")
}

async fn answer(
    State(largest): State<Bytes>,
    Path(length): Path<usize>,
    _body: Bytes,
) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "application/json")], largest.slice(..length.min(MOST)))
}

/// Says where it serves, and serves until whoever started it closes its standard input or is gone.
pub async fn serve() -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!(r#"{{"url":"http://{}"}}"#, listener.local_addr()?);
    let router = Router::new()
        .route("/{length}", post(answer))
        .layer(DefaultBodyLimit::max(MOST))
        .with_state(Bytes::from(vec![b' '; MOST]));
    // As the hub does it: no answer waits to be sent with another.
    let listener = listener.tap_io(|stream| drop(stream.set_nodelay(true)));
    let serving = axum::serve(listener, router);
    let closed = tokio::task::spawn_blocking(|| std::io::copy(&mut stdin(), &mut sink()));
    tokio::select! {
        served = serving => Ok(served?),
        _ = closed => Ok(()),
    }
}
