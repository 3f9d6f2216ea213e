//! News of other daemons: a connection of its own that listens, and a slow look underneath, which is all
//! there is behind a pooler. After every new connection there is a full look: what was told in between was not
//! heard. Everything works without it, only later.

use std::future::poll_fn;
use std::time::Duration;

use runcue_store::Result;
use runcue_store::overlay::News;
use tokio::sync::{mpsc, watch};
use tokio_postgres::{AsyncMessage, Client};

use crate::connection::Options;
use crate::failure::explain;

/// Between two attempts to connect.
const PAUSE: Duration = Duration::from_secs(1);

/// Listens until it is told to stop.
pub async fn watch(options: Options, news: News, mut stop: watch::Receiver<bool>) {
    loop {
        let ended = tokio::select! {
            biased;
            _ = stop.wait_for(|stopped| *stopped) => return,
            ended = listen(&options, &news) => ended,
        };
        if let Err(error) = ended {
            tracing::debug!("no news for a while: {error}");
        }
        tokio::select! {
            biased;
            _ = stop.wait_for(|stopped| *stopped) => return,
            () = tokio::time::sleep(PAUSE) => {}
        }
    }
}

/// Listens until the connection ends.
async fn listen(options: &Options, news: &News) -> Result<()> {
    let (client, mut connection) = options.connect().await?;
    let (tell, mut heard) = mpsc::unbounded_channel();
    let driven = tokio::spawn(async move {
        while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
            if let AsyncMessage::Notification(told) = message
                && tell.send(told.payload().to_owned()).is_err()
            {
                break;
            }
        }
    });
    let listened = follow(options, news, &client, &mut heard).await;
    driven.abort();
    listened
}

async fn follow(
    options: &Options,
    news: &News,
    client: &Client,
    heard: &mut mpsc::UnboundedReceiver<String>,
) -> Result<()> {
    let fail = |error: tokio_postgres::Error| explain(options, &error);
    if !options.pooler() {
        let channel = options.channel().replace('"', "\"\"");
        client.batch_execute(&format!("LISTEN \"{channel}\"")).await.map_err(fail)?;
    }
    let sql =
        options.sql("SELECT max(revision), EXISTS (SELECT 1 FROM runcue.inbox) FROM runcue.turn");
    loop {
        let rows = client.query_typed(&sql, &[]).await.map_err(fail)?;
        if let Some(row) = rows.first() {
            let revision: Option<i64> = row.get(0);
            news.heard(revision.map_or(0, crate::rows::unsigned));
            if row.get(1) {
                news.inbox();
            }
        }
        let next = tokio::time::Instant::now() + options.look;
        while let Ok(told) = tokio::time::timeout_at(next, heard.recv()).await {
            match told {
                Some(payload) if payload == "inbox" => news.inbox(),
                Some(payload) => news.told(&payload),
                None => return Ok(()),
            }
        }
    }
}
