//! Event streams: 200 readers while 1 000 events happen every second. Does everybody see everything, how late, and
//! what does it cost the hub.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde::Deserialize;
use tokio::task::JoinSet;

use super::calls::many_jobs;
use super::client::Connection;
use super::served::Served;
use super::{MODE, milliseconds, percentile};
use crate::table::{Line, thousands};

/// Streams that are read.
const STREAMS: usize = 200;
/// Jobs that are submitted with one call; each is one event.
const TOGETHER: usize = 10;
/// The time between two calls, which makes 1 000 events a second.
const EVERY: Duration = Duration::from_millis(10);
/// How long the last event may be on its way.
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Deserialize)]
struct Status {
    last_event: u64,
}

/// What one reader saw: when each event came, in order.
struct Read {
    came: Vec<Instant>,
    /// An event came twice, or came when another was due.
    wrong: usize,
}

/// Reads events behind a number until so many have come or none comes any more.
async fn read(mut body: Incoming, after: u64, count: usize) -> Result<Read> {
    let mut seen = Read { came: Vec::with_capacity(count), wrong: 0 };
    let mut rest: Vec<u8> = Vec::new();
    while seen.came.len() < count {
        let frame = tokio::time::timeout(PATIENCE, body.frame()).await;
        let Ok(Some(frame)) = frame else { break };
        let Ok(chunk) = frame?.into_data() else { continue };
        let at = Instant::now();
        // A frame may end within a line.
        let cut = chunk.iter().rposition(|byte| *byte == b'\n').map_or(0, |place| place + 1);
        rest.extend_from_slice(&chunk[..cut]);
        for line in rest.split(|byte| *byte == b'\n') {
            let Some(number) = line.strip_prefix(b"id: ") else { continue };
            let number: u64 = std::str::from_utf8(number)?.parse()?;
            let due = after + 1 + u64::try_from(seen.came.len())?;
            seen.wrong += usize::from(number != due);
            seen.came.push(at);
        }
        rest.clear();
        rest.extend_from_slice(&chunk[cut..]);
    }
    Ok(seen)
}

/// Makes 1 000 events a second for a while; answers when each call began.
async fn make_events(to: &mut Connection, calls: usize) -> Result<Vec<Instant>> {
    let body = many_jobs(TOGETHER);
    let mut begun = Vec::with_capacity(calls);
    let mut every = tokio::time::interval(EVERY);
    for _ in 0..calls {
        every.tick().await;
        begun.push(Instant::now());
        to.post("/api/jobs/bulk", body.clone()).await?;
    }
    Ok(begun)
}

/// The share of a core that the hub takes while events are made, and when each call was made.
async fn share(hub: &Served, to: &mut Connection, calls: usize) -> Result<(f64, Vec<Instant>)> {
    let (begin, before) = (Instant::now(), hub.busy_seconds()?);
    let begun = make_events(to, calls).await?;
    let share = (hub.busy_seconds()? - before) * 100.0 / begin.elapsed().as_secs_f64();
    Ok((share, begun))
}

pub async fn measure(quick: bool, lines: &mut Vec<Line>) -> Result<()> {
    let calls = if quick { 500 } else { 2_000 };
    let count = calls * TOGETHER;
    let hub = Served::hub().await?;
    let mut own = Connection::open(hub.address).await?;
    eprintln!("  1 000 events a second without a stream …");
    let (alone, _) = share(&hub, &mut own, calls).await?;
    let memory_alone = hub.resident_megabytes()?;
    eprintln!("  1 000 events a second and {STREAMS} streams …");
    let Status { last_event } = own.get("/api/status").await?;
    let (mut readers, mut open) = (JoinSet::new(), Vec::new());
    for _ in 0..STREAMS {
        let (connection, body) = Connection::open(hub.address).await?.stream("/api/events").await?;
        open.push(connection);
        readers.spawn(read(body, last_event, count));
    }
    let begin = Instant::now();
    let (with_streams, begun) = share(&hub, &mut own, calls).await?;
    let rate = count as f64 / begin.elapsed().as_secs_f64();
    let memory = hub.resident_megabytes()?;
    let (mut delivered, mut wrong, mut lags) = (0, 0, Vec::with_capacity(count * STREAMS));
    while let Some(ended) = readers.join_next().await {
        let seen = ended??;
        delivered += seen.came.len();
        wrong += seen.wrong;
        let sent = begun.iter().flat_map(|at| std::iter::repeat_n(at, TOGETHER));
        lags.extend(seen.came.iter().zip(sent).map(|(came, sent)| came.duration_since(*sent)));
    }
    drop(open);
    hub.stop().await?;
    ensure!(rate > 950.0, "only {rate:.0} events a second could be made");
    lags.sort();
    let (all, whole) = (count * STREAMS, delivered - wrong.min(delivered));
    lines.push(Line::figure(
        "HTTP: events delivered in order, 200 streams, 1 000 events/s",
        MODE,
        format!("{} of {}", thousands(whole as f64), thousands(all as f64)),
        "all",
        Some(whole == all),
    ));
    for percent in [50, 99] {
        let what = format!("HTTP: submit to the event in a stream, p{percent}");
        let figure = milliseconds(percentile(&lags, percent));
        lines.push(Line::figure(&what, MODE, figure, "–", None));
    }
    let cost = Line::figure(
        "HTTP: hub with 200 streams, beside the same events and none",
        MODE,
        format!("{with_streams:.1} % of a core"),
        "–",
        None,
    );
    lines.push(cost.beside(format!("{alone:.1} % of a core"), with_streams / alone));
    let figure = format!("{memory:.0} MB");
    let line = Line::figure("HTTP: memory of that hub", MODE, figure, "–", None);
    lines.push(line.beside(format!("{memory_alone:.0} MB"), memory / memory_alone));
    Ok(())
}
