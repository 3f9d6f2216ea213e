//! Time from the call of submit to the first line of the handler, on a server: in one process, whose engine runs what it
//! submits, and from one process to another. The one that runs jobs there is this program again ([`serve`]).

use std::io::Write as _;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use runcue_core::{Json, Timestamp};
use runcue_engine::{Cue, NewJob, Task};
use runcue_store::Store;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::servers::Server;
use crate::stores::PARAMS;
use crate::table::Line;

/// The word by which this program is asked to run jobs.
pub const SERVE: &str = "run-jobs";
const QUEUE: &str = "latency";
const SLOTS: usize = 8;
/// As the peers do: the last job is over and done with before the next one comes.
pub const PAUSE: Duration = Duration::from_millis(5);

/// Where a job is submitted and where it runs.
#[derive(Clone, Copy)]
pub enum Between {
    OneProcess,
    TwoProcesses,
}

impl Between {
    pub const ALL: [Self; 2] = [Self::OneProcess, Self::TwoProcesses];

    /// What it is called in the table, and what the peers' scripts are asked for.
    pub fn words(self) -> &'static str {
        match self {
            Self::OneProcess => "in one process",
            Self::TwoProcesses => "in another process",
        }
    }
}

/// The median in milliseconds of so many jobs, one after the other.
pub async fn median(server: &dyn Server, between: Between, count: usize) -> Result<f64> {
    Ok(percentile(&times(server, between, count).await?, 50))
}

/// Lines for both; the median beside that of the raw floor, which has two connections in one process.
pub async fn measure(
    server: &dyn Server,
    count: usize,
    floor: f64,
    lines: &mut Vec<Line>,
) -> Result<()> {
    for between in Between::ALL {
        let times = times(server, between, count).await?;
        for (name, p) in [("p50", 50), ("p99", 99)] {
            let what = format!("submit to handler start {}, {name}", between.words());
            let time = percentile(&times, p);
            let line = Line::figure(&what, &server.mode(), format!("{time:.2} ms"), "–", None);
            let beside = || format!("{floor:.2} ms");
            lines.push(if p == 50 { line.beside(beside(), time / floor) } else { line });
        }
    }
    Ok(())
}

/// One of so many hundredths, in milliseconds.
pub fn percentile(sorted: &[Duration], p: usize) -> f64 {
    sorted[(sorted.len() - 1) * p / 100].as_secs_f64() * 1e3
}

async fn times(server: &dyn Server, between: Between, count: usize) -> Result<Vec<Duration>> {
    let (start, mut started) = unbounded_channel();
    let store = server.open(QUEUE)?;
    let (cue, other) = match between {
        Between::OneProcess => {
            let cue = running(store, start).await?;
            (cue, None)
        }
        Between::TwoProcesses => {
            let other = Other::start(&server.url(QUEUE), start)?;
            started.recv().await.context("the other process did not begin")?;
            (Cue::builder_on(store).build().await?, Some(other))
        }
    };
    let times = one_after_the_other(&cue, &mut started, count).await?;
    if let Some(other) = other {
        other.stop()?;
    }
    cue.stop().await?;
    cue.store().close().await?;
    drop(cue);
    server.clear(QUEUE)?;
    Ok(times)
}

async fn one_after_the_other(
    cue: &Cue,
    started: &mut UnboundedReceiver<Timestamp>,
    count: usize,
) -> Result<Vec<Duration>> {
    let mut times = Vec::with_capacity(count);
    for _ in 0..count {
        let job = NewJob::of("noop").params_json(Json::trusted(PARAMS));
        let begin = crate::now();
        cue.submit(job).await?;
        let at = started.recv().await.context("the handler did not run")?;
        times.push(at.since(begin));
        tokio::time::sleep(PAUSE).await;
    }
    times.sort();
    Ok(times)
}

/// A cue whose handler says when it was started, by the clock that all processes of a machine share.
async fn running(store: Arc<dyn Store>, start: UnboundedSender<Timestamp>) -> Result<Cue> {
    let task = Task::new("noop")?.handler(move |_| {
        // Nobody listens any more when the last one was heard of.
        let _ = start.send(crate::now());
        async { Ok(()) }
    });
    let cue = Cue::builder_on(store).slots(SLOTS).task(task).build().await?;
    cue.start();
    Ok(cue)
}

/// The process that runs the jobs.
struct Other {
    process: Child,
    /// It ends when this is closed.
    input: ChildStdin,
}

impl Other {
    fn start(url: &str, start: UnboundedSender<Timestamp>) -> Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args([SERVE, url]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn()?;
        let input = process.stdin.take().context("nobody can stop it")?;
        let said = process.stdout.take().context("nobody listens to it")?;
        std::thread::spawn(move || {
            for line in std::io::BufRead::lines(std::io::BufReader::new(said)) {
                let at = line.ok().and_then(|line| line.parse().ok());
                let Some(at) = at else { return };
                if start.send(Timestamp::from_micros(at)).is_err() {
                    return;
                }
            }
        });
        Ok(Self { process, input })
    }

    fn stop(mut self) -> Result<()> {
        drop(self.input);
        ensure!(self.process.wait()?.success(), "the process that ran the jobs failed");
        Ok(())
    }
}

/// Runs jobs of a queue until there is no more input. Says when it has begun, and when each of them did.
pub async fn serve(url: &str) -> Result<()> {
    let store: Arc<dyn Store> = match url.split_once("://") {
        Some(("redis", _)) => Arc::new(runcue_store_redis::open_url(url)?),
        Some(("postgres" | "postgresql", _)) => Arc::new(runcue_store_postgres::open_url(url)?),
        _ => bail!("no jobs can be run on {url}"),
    };
    let (start, mut started) = unbounded_channel();
    let cue = running(store, start.clone()).await?;
    start.send(crate::now())?;
    let say = tokio::spawn(async move {
        while let Some(at) = started.recv().await {
            let mut out = std::io::stdout().lock();
            if writeln!(out, "{}", at.as_micros()).and_then(|()| out.flush()).is_err() {
                return;
            }
        }
    });
    let until_closed = || std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
    tokio::task::spawn_blocking(until_closed).await??;
    cue.stop().await?;
    cue.store().close().await?;
    say.abort();
    Ok(())
}
