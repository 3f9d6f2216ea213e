//! Other queues on the same server with the same settings: installed from their registries below `target/`,
//! run by the scripts in `peers/`, and put beside our figures.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::servers::{Ours, Server, median};
use crate::starts::{self, Between};
use crate::table::{Line, thousands};

const GRAPHILE_WORKER: &str = include_str!("../peers/graphile-worker.mjs");
const BULLMQ: &str = include_str!("../peers/bullmq.mjs");
const HUEY: &str = include_str!("../peers/on_huey.py");
/// What npm installs; the newest of each when this was written.
const PACKAGES: [&str; 4] = ["graphile-worker@0.18", "pg@8", "bullmq@6", "ioredis@5"];

/// What a peer reached.
pub struct Theirs {
    version: String,
    add: f64,
    drain: f64,
    /// The settings that were best for its drain.
    chosen: String,
}

/// A peer from npm that has said what it reached, and says on demand how long a job takes to start.
pub struct Peer {
    name: String,
    theirs: Theirs,
    process: Child,
    said: BufReader<ChildStdout>,
}

/// What is wanted beside a peer.
pub struct Goal {
    /// So many times its rates.
    pub rate: f64,
    pub name: &'static str,
}

/// Below the directory of builds, next to the program that runs.
fn directory() -> Result<PathBuf> {
    let program = std::env::current_exe()?;
    let target = program.parent().and_then(Path::parent).context("no directory of builds")?;
    let directory = target.join("peers");
    fs::create_dir_all(&directory)?;
    Ok(directory)
}

fn is_there(program: &str) -> bool {
    let mut command = Command::new(program);
    command.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Runs a peer that comes from npm.
pub fn node(name: &str, url: &str, count: usize) -> Result<Peer> {
    ensure!(
        is_there("npm") && is_there("node"),
        "npm and node are missing (apt-get install nodejs npm)"
    );
    let directory = directory()?;
    let script = if name == "bullmq" { BULLMQ } else { GRAPHILE_WORKER };
    let file = directory.join(format!("{name}.mjs"));
    fs::write(&file, script)?;
    let manifest = directory.join("package.json");
    if !manifest.exists() {
        fs::write(&manifest, "{\"private\": true}\n")?;
    }
    let mut install = Command::new("npm");
    install.args(["install", "--no-audit", "--no-fund", "--silent"]).args(PACKAGES);
    install.current_dir(&directory).stdin(Stdio::null()).stdout(Stdio::null());
    ensure!(install.status()?.success(), "npm could not install {}", PACKAGES.join(" "));
    let mut run = Command::new("node");
    run.arg(&file).args([url, &count.to_string()]).current_dir(&directory);
    let mut process = run.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let said = process.stdout.take().context("nobody listens to it")?;
    let mut said = BufReader::new(said);
    let theirs = Theirs::read(name, &mut said)?;
    Ok(Peer { name: name.to_owned(), theirs, process, said })
}

impl Peer {
    /// The median of some hundred jobs from add to start, in milliseconds.
    pub fn latency(&mut self, between: Between) -> Result<f64> {
        let input = self.process.stdin.as_mut().context("it has been told to stop")?;
        writeln!(input, "{}", between.words())?;
        let said = next_line(&self.name, &mut self.said)?;
        number(&self.name, &said, "latency")
    }

    fn stop(mut self) -> Result<Theirs> {
        drop(self.process.stdin.take());
        ensure!(self.process.wait()?.success(), "{} failed", self.name);
        Ok(self.theirs)
    }
}

/// Runs huey on a SQLite file.
pub fn huey(place: &Path, count: usize) -> Result<Theirs> {
    let directory = directory()?;
    let environment = directory.join("python");
    let python = environment.join("bin/python");
    if !python.exists() {
        let mut make = Command::new("python3");
        make.args(["-m", "venv"]).arg(&environment).stdin(Stdio::null()).stdout(Stdio::null());
        ensure!(
            make.status().is_ok_and(|status| status.success()),
            "python3 with venv is missing (apt-get install python3-venv)"
        );
    }
    let mut install = Command::new(&python);
    install.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "huey"]);
    ensure!(install.stdin(Stdio::null()).status()?.success(), "pip could not install huey");
    let file = directory.join("on_huey.py");
    fs::write(&file, HUEY)?;
    let mut run = Command::new(&python);
    run.arg(&file).arg(place).arg(count.to_string());
    let output = run.stdin(Stdio::null()).stderr(Stdio::inherit()).output()?;
    ensure!(output.status.success(), "huey failed");
    Theirs::read("huey", &mut &*output.stdout)
}

impl Theirs {
    fn read(name: &str, said: &mut impl BufRead) -> Result<Self> {
        let said = next_line(name, said)?;
        let word = |key: &str| said[key].as_str().unwrap_or_default().to_owned();
        let (add, drain) = (number(name, &said, "add")?, number(name, &said, "drain")?);
        Ok(Self { version: word("version"), add, drain, chosen: word("chosen") })
    }
}

/// The next line of JSON that a script says.
fn next_line(name: &str, said: &mut impl BufRead) -> Result<serde_json::Value> {
    let mut line = String::new();
    ensure!(said.read_line(&mut line)? > 0, "{name} has ended and said nothing");
    Ok(serde_json::from_str(&line)?)
}

fn number(name: &str, said: &serde_json::Value, key: &str) -> Result<f64> {
    said[key].as_f64().with_context(|| format!("{name} left out {key}"))
}

/// A peer, or a line that says that there was none: what is ours is worth printing all the same, and the end of the run
/// tells that something was asked for in vain.
fn measured<T>(name: &str, mode: &str, peer: Result<T>, lines: &mut Vec<Line>) -> Option<T> {
    peer.inspect_err(|why| {
        eprintln!("{name} was not measured: {why:#}");
        lines.push(Line::unmeasured(name, mode));
    })
    .ok()
}

/// Rounds in which ours and theirs take turns.
const ROUNDS: usize = 5;
/// Jobs of ours in each; the scripts have as many of theirs.
const STARTS: usize = 300;

/// Lines that put ours beside theirs. The times to start are measured in turns, because the server has better and worse
/// moments: after much was written it is slower for some seconds. The median of all rounds; theirs have had four more, because
/// their programs are translated while they run.
pub async fn compare(
    goal: &Goal,
    server: &dyn Server,
    ours: Ours,
    peer: Result<Peer>,
    lines: &mut Vec<Line>,
) -> Result<()> {
    let Some(mut peer) = measured(goal.name, &server.mode(), peer, lines) else { return Ok(()) };
    let mut waits = Vec::new();
    for between in Between::ALL {
        let mut both = [const { Vec::new() }; 2];
        let what = format!("time to start {}, beside {}", between.words(), goal.name);
        for round in 0..ROUNDS {
            eprintln!("  {what}, round {} of {ROUNDS} …", round + 1);
            both[0].push(starts::median(server, between, STARTS).await?);
            both[1].push(peer.latency(between)?);
        }
        eprintln!("  ours {:.3?} ms, theirs {:.3?} ms", both[0], both[1]);
        waits.push((between, both.map(median)));
    }
    let (mode, theirs) = (&server.mode(), peer.stop()?);
    let name = format!("{} {}", goal.name, theirs.version);
    let add = format!("bulk submit, 1 000 a call, beside {name}");
    lines.push(rate(&add, mode, ours.submit, theirs.add, goal.rate));
    let drain = format!("drain through the engine beside {name} ({})", theirs.chosen);
    lines.push(rate(&drain, mode, ours.engine, theirs.drain, goal.rate));
    for (between, [ours, theirs]) in waits {
        let ratio = ours / theirs;
        let what = format!("submit to handler start {}, p50, beside {name}", between.words());
        let line =
            Line::figure(&what, mode, format!("{ours:.2} ms"), "no slower", Some(ratio <= 1.0));
        lines.push(line.beside(format!("{theirs:.2} ms"), ratio));
    }
    Ok(())
}

/// A line of huey's drain beside that of an engine.
pub fn compare_drain(mode: &str, ours: f64, theirs: Result<Theirs>, lines: &mut Vec<Line>) {
    let Some(theirs) = measured("huey", mode, theirs, lines) else { return };
    let what =
        format!("drain through the engine beside huey {} ({})", theirs.version, theirs.chosen);
    let line = rate(&what, mode, ours, theirs.drain, 1.0);
    lines.push(Line { goal: "–".to_owned(), met: None, ..line });
}

fn rate(what: &str, mode: &str, ours: f64, theirs: f64, least: f64) -> Line {
    let ratio = ours / theirs;
    let figure = format!("{}/s", thousands(ours));
    let goal = format!("≥ {least:.2} of theirs");
    Line::figure(what, mode, figure, &goal, Some(ratio >= least))
        .beside(format!("{}/s", thousands(theirs)), ratio)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_that_could_not_be_measured_leaves_a_line_and_one_that_was_none() {
        let mut lines = Vec::new();
        assert_eq!(measured("huey", "full", Ok(1), &mut lines), Some(1));
        assert!(lines.is_empty());
        let missing: Result<u8> = Err(anyhow::anyhow!("npm is missing"));
        assert_eq!(measured("BullMQ", "everysec", missing, &mut lines), None);
        assert!(lines.iter().all(Line::is_unmeasured) && lines.len() == 1);
    }
}
