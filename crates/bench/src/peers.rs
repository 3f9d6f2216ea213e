//! Other queues on the same server with the same settings: installed from their registries below `target/`,
//! run by the scripts in `peers/`, and put beside our figures.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::servers::Ours;
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
    latency: f64,
    /// The settings that were best for its drain.
    chosen: String,
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

/// Runs a peer that comes from npm; nothing if there is no npm.
pub fn node(name: &str, url: &str, count: usize) -> Result<Option<Theirs>> {
    if !is_there("npm") || !is_there("node") {
        eprintln!("{name} was not measured: npm and node are missing (apt-get install nodejs npm)");
        return Ok(None);
    }
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
    run.arg(&file).args([url, &count.to_string()]);
    answer(name, run.current_dir(&directory)).map(Some)
}

/// Runs huey on a SQLite file; nothing if there is no Python that can install it.
pub fn huey(place: &Path, count: usize) -> Result<Option<Theirs>> {
    let directory = directory()?;
    let environment = directory.join("python");
    let python = environment.join("bin/python");
    if !python.exists() {
        let mut make = Command::new("python3");
        make.args(["-m", "venv"]).arg(&environment).stdin(Stdio::null()).stdout(Stdio::null());
        if !make.status().is_ok_and(|status| status.success()) {
            eprintln!(
                "huey was not measured: python3 with venv is missing (apt-get install python3-venv)"
            );
            return Ok(None);
        }
    }
    let mut install = Command::new(&python);
    install.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "huey"]);
    ensure!(install.stdin(Stdio::null()).status()?.success(), "pip could not install huey");
    let file = directory.join("on_huey.py");
    fs::write(&file, HUEY)?;
    let mut run = Command::new(&python);
    run.arg(&file).arg(place).arg(count.to_string());
    answer("huey", &mut run).map(Some)
}

/// The line of JSON that a script ends with.
fn answer(name: &str, command: &mut Command) -> Result<Theirs> {
    let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output()?;
    ensure!(output.status.success(), "{name} failed");
    let text = String::from_utf8(output.stdout)?;
    let line = text.lines().next_back().with_context(|| format!("{name} said nothing"))?;
    let said: serde_json::Value = serde_json::from_str(line)?;
    let number = |key: &str| said[key].as_f64().with_context(|| format!("{name} left out {key}"));
    let word = |key: &str| said[key].as_str().unwrap_or_default().to_owned();
    Ok(Theirs {
        version: word("version"),
        add: number("add")?,
        drain: number("drain")?,
        latency: number("latency")?,
        chosen: word("chosen"),
    })
}

/// Lines that put ours beside theirs.
pub fn compare(goal: &Goal, mode: &str, ours: Ours, theirs: Option<Theirs>, lines: &mut Vec<Line>) {
    let Some(theirs) = theirs else { return };
    let name = format!("{} {}", goal.name, theirs.version);
    let add = format!("bulk submit, 1 000 a call, beside {name}");
    lines.push(rate(&add, mode, ours.submit, theirs.add, goal.rate));
    let drain = format!("drain through the engine beside {name} ({})", theirs.chosen);
    lines.push(rate(&drain, mode, ours.engine, theirs.drain, goal.rate));
    let ratio = ours.latency / theirs.latency;
    let what = format!("submit to handler start, p50, beside {name}");
    let figure = format!("{:.2} ms", ours.latency);
    let line = Line::figure(&what, mode, figure, "no slower", Some(ratio <= 1.0));
    lines.push(line.beside(format!("{:.2} ms", theirs.latency), ratio));
}

/// A line of huey's drain beside that of an engine.
pub fn compare_drain(mode: &str, ours: f64, theirs: Option<Theirs>, lines: &mut Vec<Line>) {
    let Some(theirs) = theirs else { return };
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
