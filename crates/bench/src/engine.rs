//! Figures of the engine and of the program: drain through handlers, time from submit to start, what
//! idling costs, and a run of many small commands beside `xargs`.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use runcue_engine::{Cue, NewJob, Task};
use runcue_store_sqlite::Durability;

use crate::floor::Floor;
use crate::peers;
use crate::stores::{Jobs, PARAMS, open, submit};
use crate::table::Line;

/// Handlers at once.
const SLOTS: usize = 256;

/// A cue with a handler that does nothing.
async fn cue(directory: &Path, durability: Durability) -> Result<Cue> {
    let store = open(directory, durability)?;
    let task = Task::new("noop")?.handler(|_| async { Ok(()) });
    Ok(Cue::builder(store).slots(SLOTS).task(task).build().await?)
}

/// Claim, handler and completion of many jobs, beside the floor that claims and completes as many.
pub async fn drain(count: usize, with_peers: bool, lines: &mut Vec<Line>) -> Result<()> {
    for durability in [Durability::Normal, Durability::Full] {
        let mode = durability.as_str();
        let (mut best, mut floor_best) = (0.0_f64, 0.0_f64);
        for _ in 0..3 {
            let directory = tempfile::tempdir()?;
            let mut floor = Floor::open(&directory.path().join("floor.db"), mode)?;
            floor.submit(count, 1000, PARAMS)?;
            let (done, time) = floor.drain(100)?;
            floor_best = floor_best.max(done as f64 / time.as_secs_f64());
            drop(floor);
            let cue = cue(directory.path(), durability).await?;
            submit(&**cue.store(), &mut Jobs::new(0, 0)?, count).await?;
            let begin = Instant::now();
            cue.start();
            while cue.stats().await?.counts.live() > 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            best = best.max(count as f64 / begin.elapsed().as_secs_f64());
            cue.stop().await?;
        }
        lines.push(Line::rate(
            "drain through the engine, no-op handler",
            mode,
            best,
            floor_best,
            0.5,
        ));
        if with_peers && durability == Durability::Full {
            let directory = tempfile::tempdir()?;
            eprintln!("huey …");
            let theirs = peers::huey(&directory.path().join("huey.db"), count / 5);
            peers::compare_drain(mode, best, theirs, lines);
        }
    }
    Ok(())
}

/// From the call of submit to the first line of the handler, one job at a time on an idle engine.
pub async fn latency(count: usize, lines: &mut Vec<Line>) -> Result<()> {
    let directory = tempfile::tempdir()?;
    let store = open(directory.path(), Durability::Normal)?;
    let started: Arc<Mutex<Option<Instant>>> = Arc::default();
    let seen = Arc::clone(&started);
    let task = Task::new("noop")?.handler(move |_| {
        if let Ok(mut seen) = seen.lock() {
            *seen = Some(Instant::now());
        }
        async { Ok(()) }
    });
    let cue = Cue::builder(store).slots(8).task(task).build().await?;
    cue.start();
    let mut times = Vec::with_capacity(count);
    for _ in 0..count {
        let begin = Instant::now();
        let id = cue.submit(NewJob::of("noop")).await?;
        cue.wait(id).await?;
        let at = started
            .lock()
            .ok()
            .and_then(|mut seen| seen.take())
            .context("the handler did not run")?;
        times.push(at.duration_since(begin));
    }
    cue.stop().await?;
    times.sort();
    let percentile = |p: usize| times[(times.len() - 1) * p / 100].as_secs_f64() * 1e3;
    let (half, most) = (percentile(50), percentile(99));
    lines.push(Line::figure(
        "submit to handler start, p50",
        "normal",
        format!("{half:.2} ms"),
        "< 1 ms",
        Some(half < 1.0),
    ));
    lines.push(Line::figure(
        "submit to handler start, p99",
        "normal",
        format!("{most:.2} ms"),
        "< 10 ms",
        Some(most < 10.0),
    ));
    Ok(())
}

/// The share of a core that an engine with nothing to do takes.
pub async fn idle(seconds: u64, lines: &mut Vec<Line>) -> Result<()> {
    let directory = tempfile::tempdir()?;
    let cue = cue(directory.path(), Durability::Normal).await?;
    cue.start();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let before = busy();
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    let share = (busy() - before) * 100.0 / seconds as f64;
    cue.stop().await?;
    let figure = format!("{share:.2} % of a core");
    lines.push(Line::figure(
        "idle engine",
        "normal",
        figure,
        "< 0.5 % of a core",
        Some(share < 0.5),
    ));
    Ok(())
}

/// Processor time of this process so far, in seconds.
fn busy() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// The program itself, which is built beside this one.
pub fn program() -> Result<PathBuf> {
    let runcue = std::env::current_exe()?.with_file_name("runcue");
    ensure!(
        runcue.exists(),
        "{} is missing; build it with `cargo build --release`",
        runcue.display()
    );
    Ok(runcue)
}

/// `runcue run` of many `true` commands beside `xargs -P`, both with as many at once.
pub fn commands(count: usize, lines: &mut Vec<Line>) -> Result<()> {
    let runcue = program()?;
    let directory = tempfile::tempdir()?;
    let file = directory.path().join("true.yaml");
    let text = format!(
        "tasks: {{t: {{run: [\"true\"]}}}}\njobs:\n  - {{id: j, task: t, grid: {{n: {{from: 1, to: {count}}}}}}}\n"
    );
    std::fs::write(&file, text)?;
    let (mut ours, mut theirs) = (f64::MAX, f64::MAX);
    for round in 0..3 {
        let begin = Instant::now();
        let line = format!("seq {count} | xargs -P 8 -I{{}} true");
        ensure!(Command::new("sh").args(["-c", &line]).status()?.success(), "xargs failed");
        theirs = theirs.min(begin.elapsed().as_secs_f64());
        let store = format!("sqlite:{}/{round}.db", directory.path().display());
        let begin = Instant::now();
        let mut run = Command::new(&runcue);
        run.args(["--store", &store, "run", "--jobs", "8"])
            .arg(&file)
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        ensure!(run.status()?.success(), "runcue run failed");
        ours = ours.min(begin.elapsed().as_secs_f64());
    }
    let ratio = ours / theirs;
    let what = format!("runcue run of {count} `true`, 8 at once, beside xargs -P 8");
    let line =
        Line::figure(&what, "normal", format!("{ours:.2} s"), "< 2.00 of xargs", Some(ratio < 2.0));
    lines.push(line.beside(format!("{theirs:.2} s"), ratio));
    Ok(())
}
