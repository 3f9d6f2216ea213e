//! A hub under steady load for minutes: do its memory and its open files stay as they are. Jobs are submitted,
//! claimed and completed; workers wait, and streams and connections come and go.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use http_body_util::BodyExt;
use tokio::task::JoinSet;

use super::MODE;
use super::calls::{claim_many, complete_many, many_jobs};
use super::client::Connection;
use super::served::Served;
use crate::table::{Line, thousands};

/// Connections that submit, claim and complete.
const WORKERS: usize = 2;
/// Jobs in each of their calls.
const TOGETHER: usize = 10;
/// The time between two of their rounds, which makes 2 000 jobs a second.
const EVERY: Duration = Duration::from_millis(10);
/// Rounds after which such a connection is closed and another is opened.
const ROUNDS: usize = 500;
/// Workers that wait for a type of job that never comes.
const WAITING: usize = 100;
/// Streams that are open.
const STREAMS: usize = 50;
/// Events that such a stream reads before it is closed and another is opened.
const READS: usize = 500;
/// The time between two looks at the hub.
const LOOK: Duration = Duration::from_millis(500);

/// Submits, claims and completes until it is dropped.
async fn work(address: SocketAddr, worker: String) -> Result<()> {
    let mut every = tokio::time::interval(EVERY);
    loop {
        let mut to = Connection::open(address).await?;
        to.register(&worker).await?;
        for _ in 0..ROUNDS {
            every.tick().await;
            to.post("/api/jobs/bulk", many_jobs(TOGETHER)).await?;
            let claimed = to.post("/api/jobs/claim", claim_many(&worker, TOGETHER)).await?;
            if let Some((_, ends)) = complete_many(&worker, &claimed)? {
                to.post("/api/jobs/ends", ends).await?;
            }
        }
    }
}

/// Waits for work that never comes; every other time it goes away while it waits.
async fn wait(address: SocketAddr, worker: String) -> Result<()> {
    let claim = format!(r#"{{"worker_id":"{worker}","types":["never"],"wait":2}}"#);
    loop {
        let mut to = Connection::open(address).await?;
        to.register(&worker).await?;
        to.post("/api/jobs/claim", claim.clone()).await?;
        let left = tokio::time::timeout(EVERY, to.post("/api/jobs/claim", claim.clone())).await;
        ensure!(left.is_err(), "a job that nobody submitted was handed out");
    }
}

/// Reads a stream for a while, and then another.
async fn read(address: SocketAddr) -> Result<()> {
    loop {
        let connection = Connection::open(address).await?;
        let (_connection, mut body) = connection.stream("/api/jobs/events").await?;
        for _ in 0..READS {
            body.frame().await.context("the hub ended a stream")??;
        }
    }
}

/// The medians of one third of the time: memory and open files. Connections come and go between two looks, so the
/// most files that were seen would say little.
fn third(looks: &[(f64, usize)], number: usize) -> Result<(f64, usize)> {
    let length = looks.len() / 3;
    let looks = looks.get(number * length..(number + 1) * length).unwrap_or_default();
    let (mut memory, mut files): (Vec<f64>, Vec<usize>) = looks.iter().copied().unzip();
    memory.sort_by(f64::total_cmp);
    files.sort_unstable();
    let middle = memory.get(length / 2).copied().zip(files.get(length / 2).copied());
    middle.context("too short to say anything")
}

pub async fn measure(quick: bool, lines: &mut Vec<Line>) -> Result<()> {
    super::served::raise_file_limit()?;
    let span = Duration::from_secs(if quick { 30 } else { 180 });
    let hub = Served::hub().await?;
    let mut load = JoinSet::new();
    for number in 0..WORKERS {
        load.spawn(work(hub.address, format!("worker-{number}")));
    }
    for number in 0..WAITING {
        load.spawn(wait(hub.address, format!("waiting-{number}")));
    }
    for _ in 0..STREAMS {
        load.spawn(read(hub.address));
    }
    let (begin, before, mut looks) = (Instant::now(), hub.busy_seconds()?, Vec::new());
    while begin.elapsed() < span {
        tokio::time::sleep(LOOK).await;
        if let Some(ended) = load.try_join_next() {
            ended??;
        }
        looks.push((hub.resident_megabytes()?, hub.open_files()?));
    }
    let share = (hub.busy_seconds()? - before) * 100.0 / begin.elapsed().as_secs_f64();
    let mut own = Connection::open(hub.address).await?;
    let status: serde_json::Value = own.get("/api/status").await?;
    let completed = status["counts"]["completed"].as_f64().context("no count of jobs")?;
    load.shutdown().await;
    hub.stop().await?;
    // In the first third caches and the tables of connections grow to their size.
    let ((memory, files), (later, files_later)) = (third(&looks, 1)?, third(&looks, 2)?);
    let what = format!("soak: {} jobs in {} s", thousands(completed), span.as_secs());
    let figure = format!("{share:.0} % of a core");
    lines.push(Line::figure(&what, MODE, figure, "–", None));
    let (what, ratio) = ("soak: memory, last third beside the second", later / memory);
    let figure = format!("{later:.1} MB");
    let line = Line::figure(what, MODE, figure, "≤ 1.05 of it", Some(ratio <= 1.05));
    lines.push(line.beside(format!("{memory:.1} MB"), ratio));
    let (what, ratio) =
        ("soak: open files, last third beside the second", files_later as f64 / files as f64);
    let line =
        Line::figure(what, MODE, files_later.to_string(), "≤ 1.05 of it", Some(ratio <= 1.05));
    lines.push(line.beside(files.to_string(), ratio));
    Ok(())
}
