//! Claims that wait: how soon one of them has a job that is submitted, and what a thousand idle workers cost.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::client::Connection;
use super::served::Served;
use super::{MODE, milliseconds, percentile};
use crate::table::Line;

/// Workers that are idle.
const IDLE: usize = 1_000;
/// How long a claim of an agent waits, if nobody says otherwise.
const WAIT: Duration = Duration::from_secs(30);
/// How long claims have waited before a job is submitted.
const SETTLED: Duration = Duration::from_millis(5);
/// How long a job may be on its way at most.
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Deserialize)]
struct Health {
    waiting_workers: usize,
}

/// Waits until so many claims wait.
async fn all_wait(to: &mut Connection, count: usize) -> Result<()> {
    let waiting = async {
        loop {
            let health: Health = to.get("/healthz").await?;
            if health.waiting_workers >= count {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let seen = tokio::time::timeout(Duration::from_secs(60), waiting).await;
    seen.with_context(|| format!("{count} claims should wait and do not"))?
}

/// A worker as agents are: registers, and then claims again and again. Says when it has a job, and ends it.
async fn work(mut to: Connection, name: String, got: mpsc::Sender<Instant>) -> Result<()> {
    #[derive(Deserialize)]
    struct Claimed {
        id: String,
    }
    to.register(&name).await?;
    let claim = format!(r#"{{"worker_id":"{name}","wait":{}}}"#, WAIT.as_secs());
    loop {
        let answer = to.post("/api/jobs/claim", claim.clone()).await?;
        if answer.is_empty() {
            continue;
        }
        let at = Instant::now();
        let Claimed { id } = serde_json::from_slice(&answer)?;
        let end = format!(r#"{{"worker_id":"{name}","result":null}}"#);
        to.post(&format!("/api/jobs/{id}/result"), end).await?;
        got.send(at).await?;
    }
}

/// From the call of submit to the claim's answer, one job at a time while so many workers wait.
async fn to_waiting(
    to: &mut Connection,
    got: &mut mpsc::Receiver<Instant>,
    workers: usize,
    count: usize,
) -> Result<Vec<Duration>> {
    let mut times = Vec::with_capacity(count);
    for _ in 0..count {
        all_wait(to, workers).await?;
        // A worker that waits has done so for a while.
        tokio::time::sleep(SETTLED).await;
        let begin = Instant::now();
        to.post("/api/jobs", r#"{"type":"noop"}"#).await?;
        let at = tokio::time::timeout(PATIENCE, got.recv()).await;
        let at = at.context("no worker had the job in time")?.context("the workers are gone")?;
        times.push(at.duration_since(begin));
    }
    times.sort();
    Ok(times)
}

fn say(what: &str, times: &[Duration], lines: &mut Vec<Line>) {
    let (half, most) = (percentile(times, 50), percentile(times, 99));
    let figure = milliseconds(half);
    lines.push(Line::figure(&format!("{what}, p50"), MODE, figure, "< 10 ms", Some(half < 10.0)));
    lines.push(Line::figure(&format!("{what}, p99"), MODE, milliseconds(most), "–", None));
}

pub async fn measure(quick: bool, lines: &mut Vec<Line>) -> Result<()> {
    let count = if quick { 200 } else { 1_000 };
    let hub = Served::hub().await?;
    let mut own = Connection::open(hub.address).await?;
    let (sender, mut got) = mpsc::channel(IDLE);
    let mut workers = JoinSet::new();
    eprintln!("  a waiting worker …");
    workers.spawn(work(
        Connection::open(hub.address).await?,
        "worker-0".to_owned(),
        sender.clone(),
    ));
    let times = to_waiting(&mut own, &mut got, 1, count).await?;
    say("HTTP: submit to claimed by a waiting worker", &times, lines);
    eprintln!("  {IDLE} idle workers …");
    for number in 1..IDLE {
        let connection = Connection::open(hub.address).await?;
        workers.spawn(work(connection, format!("worker-{number}"), sender.clone()));
    }
    all_wait(&mut own, IDLE).await?;
    // Long enough for every claim to end empty and be made again, once in a first look, twice else.
    let span = if quick { WAIT } else { WAIT * 2 };
    let before = hub.busy_seconds()?;
    tokio::time::sleep(span).await;
    let share = (hub.busy_seconds()? - before) * 100.0 / span.as_secs_f64();
    lines.push(Line::figure(
        "HTTP: hub with 1 000 idle workers that wait",
        MODE,
        format!("{share:.2} % of a core"),
        "< 5 % of a core",
        Some(share < 5.0),
    ));
    let megabytes = hub.resident_megabytes()?;
    let figure = format!("{megabytes:.0} MB");
    lines.push(Line::figure("HTTP: memory of that hub", MODE, figure, "–", None));
    // Some claims are made anew at any moment, so not all of them need to wait.
    let times = to_waiting(&mut own, &mut got, IDLE / 2, count).await?;
    say("HTTP: submit to claimed, 1 000 workers wait", &times, lines);
    ensure!(workers.len() == IDLE, "a worker has ended");
    workers.shutdown().await;
    hub.stop().await
}
