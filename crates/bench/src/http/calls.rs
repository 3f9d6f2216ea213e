//! Calls as fast as they are answered: submit, claim and complete, one job a call and many, each beside calls of
//! the same size that the raw floor answers.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::task::JoinSet;

use super::client::Connection;
use super::served::Served;
use super::{MODE, milliseconds, percentile, raw};
use crate::stores::{CLAIM, PARAMS, SUBMIT, per_second};
use crate::table::{Line, thousands};

/// Connections at once.
const CONNECTIONS: usize = 8;
/// Rounds in which hub and floor take turns.
const ROUNDS: usize = 3;

/// Calls of one sort.
#[derive(Default)]
struct Calls {
    times: Vec<Duration>,
    /// Bytes of the largest call and the largest answer.
    sent: usize,
    answered: usize,
}

impl Calls {
    async fn post(&mut self, to: &mut Connection, path: &str, body: Bytes) -> Result<Bytes> {
        self.sent = self.sent.max(body.len());
        let begin = Instant::now();
        let answer = to.post(path, body).await?;
        self.times.push(begin.elapsed());
        self.answered = self.answered.max(answer.len());
        Ok(answer)
    }

    fn add(&mut self, other: Self) {
        self.times.extend(other.times);
        self.sent = self.sent.max(other.sent);
        self.answered = self.answered.max(other.answered);
    }
}

/// What the connections of one load did together.
struct Load {
    /// By sort, in the order in which a connection makes them.
    calls: Vec<Calls>,
    jobs: usize,
    time: Duration,
}

impl Load {
    fn rate(&self) -> f64 {
        per_second(self.jobs, self.time)
    }
}

/// What one connection does.
#[derive(Clone)]
enum Part {
    /// So many calls with so many jobs each.
    Submit { calls: usize, jobs: usize },
    /// Claims of so many jobs, and their completion, until there is nothing.
    Drain { worker: String, jobs: usize },
    /// Calls of given sizes, each so often, that stand for so many jobs.
    Raw { sizes: Vec<(usize, usize)>, calls: usize, jobs: usize },
}

impl Part {
    async fn run(self, mut to: Connection) -> Result<(usize, Vec<Calls>)> {
        match self {
            Self::Submit { calls, jobs } => submit(&mut to, calls, jobs).await,
            Self::Drain { worker, jobs: 1 } => drain(&mut to, &worker).await,
            Self::Drain { worker, jobs } => drain_many(&mut to, &worker, jobs).await,
            Self::Raw { sizes, calls, jobs } => raw_calls(&mut to, &sizes, calls, jobs).await,
        }
    }
}

fn job() -> String {
    format!(r#"{{"type":"noop","params":{PARAMS}}}"#)
}

/// A body that submits so many jobs.
pub fn many_jobs(count: usize) -> Bytes {
    format!("[{}]", vec![job(); count].join(",")).into()
}

async fn submit(to: &mut Connection, count: usize, jobs: usize) -> Result<(usize, Vec<Calls>)> {
    let (path, body) = match jobs {
        1 => ("/api/jobs", Bytes::from(job())),
        _ => ("/api/jobs/bulk", many_jobs(jobs)),
    };
    let mut calls = Calls::default();
    for _ in 0..count {
        calls.post(to, path, body.clone()).await?;
    }
    Ok((count * jobs, vec![calls]))
}

/// A claimed job, as much of it as is needed to end it.
#[derive(Deserialize)]
struct Claimed<'a> {
    id: &'a str,
    #[serde(borrow)]
    lease: &'a RawValue,
}

#[derive(Deserialize)]
struct ClaimedMany<'a> {
    #[serde(borrow)]
    jobs: Vec<Claimed<'a>>,
}

async fn drain(to: &mut Connection, worker: &str) -> Result<(usize, Vec<Calls>)> {
    let (mut claims, mut ends, mut done) = (Calls::default(), Calls::default(), 0);
    let claim = Bytes::from(format!(r#"{{"worker_id":"{worker}"}}"#));
    loop {
        let answer = claims.post(to, "/api/jobs/claim", claim.clone()).await?;
        if answer.is_empty() {
            return Ok((done, vec![claims, ends]));
        }
        let Claimed { id, lease } = serde_json::from_slice(&answer)?;
        let path = format!("/api/jobs/{id}/result");
        let end = format!(r#"{{"worker_id":"{worker}","result":{{"ok":true}},"lease":{lease}}}"#);
        ends.post(to, &path, end.into()).await?;
        done += 1;
    }
}

/// A body that claims up to so many jobs.
pub fn claim_many(worker: &str, most: usize) -> Bytes {
    format!(r#"{{"worker_id":"{worker}","max":{most}}}"#).into()
}

/// How many jobs were claimed and the body that completes them; nothing if there were none.
pub fn complete_many(worker: &str, claimed: &[u8]) -> Result<Option<(usize, Bytes)>> {
    let ClaimedMany { jobs } = serde_json::from_slice(claimed)?;
    if jobs.is_empty() {
        return Ok(None);
    }
    let end = |Claimed { id, lease }: &Claimed<'_>| {
        format!(r#"{{"id":"{id}","lease":{lease},"outcome":"completed","result":{{"ok":true}}}}"#)
    };
    let each: Vec<String> = jobs.iter().map(end).collect();
    let body = format!(r#"{{"worker_id":"{worker}","ends":[{}]}}"#, each.join(","));
    Ok(Some((jobs.len(), body.into())))
}

async fn drain_many(to: &mut Connection, worker: &str, most: usize) -> Result<(usize, Vec<Calls>)> {
    let (mut claims, mut ends, mut done) = (Calls::default(), Calls::default(), 0);
    let claim = claim_many(worker, most);
    loop {
        let answer = claims.post(to, "/api/jobs/claim", claim.clone()).await?;
        let Some((count, body)) = complete_many(worker, &answer)? else {
            return Ok((done, vec![claims, ends]));
        };
        ends.post(to, "/api/jobs/ends", body).await?;
        done += count;
    }
}

async fn raw_calls(
    to: &mut Connection,
    sizes: &[(usize, usize)],
    count: usize,
    jobs: usize,
) -> Result<(usize, Vec<Calls>)> {
    let call = |(sent, answered): &(usize, usize)| {
        (raw::path(*answered), Bytes::from(vec![b' '; *sent]), Calls::default())
    };
    let mut sorts: Vec<_> = sizes.iter().map(call).collect();
    for _ in 0..count {
        for (path, body, calls) in &mut sorts {
            calls.post(to, path, body.clone()).await?;
        }
    }
    Ok((count * jobs, sorts.into_iter().map(|(_, _, calls)| calls).collect()))
}

/// Runs the same on every connection, or what `part` makes of its number.
async fn load(address: SocketAddr, part: impl Fn(usize) -> Part) -> Result<Load> {
    let mut open = Vec::new();
    for _ in 0..CONNECTIONS {
        open.push(Connection::open(address).await?);
    }
    let begin = Instant::now();
    let mut running = JoinSet::new();
    for (number, connection) in open.into_iter().enumerate() {
        running.spawn(part(number).run(connection));
    }
    let mut load = Load { calls: Vec::new(), jobs: 0, time: Duration::ZERO };
    while let Some(ended) = running.join_next().await {
        let (jobs, sorts) = ended??;
        load.jobs += jobs;
        load.calls.resize_with(sorts.len(), Calls::default);
        for (all, of_one) in load.calls.iter_mut().zip(sorts) {
            all.add(of_one);
        }
    }
    load.time = begin.elapsed();
    for calls in &mut load.calls {
        calls.times.sort();
    }
    Ok(load)
}

/// The same calls at the floor: as many, and as large.
async fn beside(floor: &Served, ours: &Load, jobs: usize) -> Result<Load> {
    let sizes: Vec<_> = ours.calls.iter().map(|calls| (calls.sent, calls.answered)).collect();
    let calls = ours.jobs / jobs / CONNECTIONS;
    load(floor.address, |_| Part::Raw { sizes: sizes.clone(), calls, jobs }).await
}

/// The best of several rounds: of the hub first, of the floor second.
#[derive(Default)]
struct Best {
    rates: [f64; 2],
    /// p50 and p99 by sort of call, in milliseconds.
    times: Vec<[(f64, f64); 2]>,
}

impl Best {
    fn add(&mut self, hub: &Load, floor: &Load) {
        const NONE: (f64, f64) = (f64::MAX, f64::MAX);
        self.times.resize(hub.calls.len(), [NONE; 2]);
        for (side, load) in [hub, floor].into_iter().enumerate() {
            self.rates[side] = self.rates[side].max(load.rate());
            for (best, calls) in self.times.iter_mut().zip(&load.calls) {
                let (half, most) = best[side];
                let now = (percentile(&calls.times, 50), percentile(&calls.times, 99));
                best[side] = (half.min(now.0), most.min(now.1));
            }
        }
    }

    fn rate(&self, what: &str) -> Line {
        let [ours, floor] = self.rates;
        let figure = format!("{}/s", thousands(ours));
        let line = Line::figure(what, MODE, figure, "–", None);
        line.beside(format!("{}/s", thousands(floor)), ours / floor)
    }

    fn times(&self, sort: usize, what: &str, lines: &mut Vec<Line>) -> Result<()> {
        let [ours, floor] = self.times.get(sort).context("there were no such calls")?;
        for (name, ours, floor) in [("p50", ours.0, floor.0), ("p99", ours.1, floor.1)] {
            let line =
                Line::figure(&format!("{what}, {name}"), MODE, milliseconds(ours), "–", None);
            lines.push(line.beside(milliseconds(floor), ours / floor));
        }
        Ok(())
    }
}

pub async fn measure(quick: bool, lines: &mut Vec<Line>) -> Result<()> {
    let (single, many) = if quick { (4_000, 16_000) } else { (24_000, 96_000) };
    let mut best: [Best; 4] = Default::default();
    for round in 0..ROUNDS {
        eprintln!("  calls, round {} of {ROUNDS} …", round + 1);
        let hub = Served::hub().await?;
        let floor = Served::raw().await?;
        let [submit, drain, submit_many, drain_many] = &mut best;
        for (jobs, submit_by, submit, drain_by, drain) in
            [(single, 1, submit, 1, drain), (many, SUBMIT, submit_many, CLAIM, drain_many)]
        {
            let calls = jobs / submit_by / CONNECTIONS;
            let ours = load(hub.address, |_| Part::Submit { calls, jobs: submit_by }).await?;
            submit.add(&ours, &beside(&floor, &ours, submit_by).await?);
            let worker = |number| format!("bench-{number}");
            let mut own = Connection::open(hub.address).await?;
            for number in 0..CONNECTIONS {
                own.register(&worker(number)).await?;
            }
            let ours =
                load(hub.address, |number| Part::Drain { worker: worker(number), jobs: drain_by })
                    .await?;
            ensure!(ours.jobs == jobs, "{} of {jobs} jobs were handed out", ours.jobs);
            drain.add(&ours, &beside(&floor, &ours, drain_by).await?);
        }
        floor.stop().await?;
        hub.stop().await?;
    }
    let [submit, drain, submit_many, drain_many] = &best;
    let of = format!("{CONNECTIONS} connections");
    lines.push(submit.rate(&format!("HTTP: submit, one a call, {of}")));
    lines.push(submit_many.rate(&format!("HTTP: submit, 1 000 a call, {of}")));
    lines.push(drain.rate(&format!("HTTP: claim and complete, one a call, {of}")));
    lines.push(drain_many.rate(&format!("HTTP: claim and complete, 100 a call, {of}")));
    submit.times(0, "HTTP: call that submits one", lines)?;
    drain.times(0, "HTTP: call that claims one", lines)?;
    drain.times(1, "HTTP: call that completes one", lines)
}
