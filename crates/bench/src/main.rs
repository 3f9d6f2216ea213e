//! `cargo xtask bench`: prints one table with our figures, the raw floor of the same run, the ratios, the
//! durability modes and the goals. `--quick` shrinks everything for a first look, `--peers` also installs and
//! runs other queues; words name parts. `soak` runs only when it is named.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "printing is what this program is for"
)]

mod engine;
mod floor;
mod http;
mod lmdb;
mod peers;
mod postgres;
mod process;
mod redis;
mod servers;
mod starts;
mod stores;
mod table;

use std::process::{Command, ExitCode, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Result, bail, ensure};
use runcue_core::Timestamp;

#[expect(clippy::disallowed_methods, reason = "a front reads the clock")]
fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_micros(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
}

/// The parts, those that leave little behind first.
const PARTS: [&str; 12] = [
    "throughput",
    "limits",
    "engine",
    "latency",
    "idle",
    "commands",
    "http",
    "lmdb",
    "postgres",
    "redis",
    "flatness",
    "memory",
];

/// Parts that run only when they are named: they take long and say little that is new every time.
const LONG: [&str; 1] = ["soak"];

/// Everything was printed that could be measured, and something that was asked for could not.
const INCOMPLETE: u8 = 3;

/// What was asked for besides the parts.
#[derive(Clone, Copy)]
struct Wanted {
    quick: bool,
    peers: bool,
}

fn main() -> Result<ExitCode> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words == [http::RAW] {
        return tokio::runtime::Runtime::new()?
            .block_on(http::serve_raw())
            .map(|()| ExitCode::SUCCESS);
    }
    if let [word, url] = &words[..]
        && word == starts::SERVE
    {
        return tokio::runtime::Runtime::new()?
            .block_on(starts::serve(url))
            .map(|()| ExitCode::SUCCESS);
    }
    let has = |flag: &str| words.iter().any(|word| word == flag);
    let wanted = Wanted { quick: has("--quick"), peers: has("--peers") };
    let is_flag = |word: &&String| word.starts_with("--");
    if let Some(unknown) =
        words.iter().filter(is_flag).find(|word| *word != "--quick" && *word != "--peers")
    {
        bail!("there is no {unknown}; there are --quick and --peers");
    }
    let named: Vec<&str> =
        words.iter().map(String::as_str).filter(|word| !word.starts_with("--")).collect();
    let known = [&PARTS[..], &LONG[..]].concat();
    if let Some(unknown) = named.iter().find(|word| !known.contains(word)) {
        bail!("there is no part {unknown}; there are {}", known.join(", "));
    }
    if let [part] = named[..] {
        let lines = tokio::runtime::Runtime::new()?.block_on(measure(part, wanted))?;
        println!("{}", table::render(&lines));
        return Ok(ended(lines.iter().any(table::Line::is_unmeasured)));
    }
    let parts = if named.is_empty() { PARTS.to_vec() } else { named };
    let (mut rows, mut incomplete) = (String::new(), false);
    for part in parts {
        eprintln!("{part} …");
        let (measured, lacks) = in_its_own_process(part, wanted)?;
        rows.push_str(&measured);
        incomplete |= lacks;
    }
    println!("{}{rows}", table::render(&[]));
    Ok(ended(incomplete))
}

/// How the process ends when the table is printed.
fn ended(incomplete: bool) -> ExitCode {
    if !incomplete {
        return ExitCode::SUCCESS;
    }
    eprintln!("error: not every peer that was asked for could be measured; why is said above");
    INCOMPLETE.into()
}

/// The rows of one part, measured by a process that has done nothing else, on disks that have settled; and whether
/// some are missing.
fn in_its_own_process(part: &str, wanted: Wanted) -> Result<(String, bool)> {
    Command::new("sync").status()?;
    let mut command = Command::new(std::env::current_exe()?);
    command.arg(part);
    command.args(wanted.quick.then_some("--quick")).args(wanted.peers.then_some("--peers"));
    let output = command.stderr(Stdio::inherit()).output()?;
    let incomplete = output.status.code() == Some(INCOMPLETE.into());
    ensure!(output.status.success() || incomplete, "the part {part} failed");
    let rows = String::from_utf8(output.stdout)?;
    let rows = rows.lines().skip(2).filter(|row| !row.is_empty());
    Ok((rows.map(|row| format!("{row}\n")).collect(), incomplete))
}

async fn measure(part: &str, wanted: Wanted) -> Result<Vec<table::Line>> {
    let Wanted { quick, peers } = wanted;
    let (count, million) = if quick { (20_000, 100_000) } else { (100_000, 1_000_000) };
    let mut lines = Vec::new();
    match part {
        "throughput" => stores::throughput(count, &mut lines).await?,
        "limits" => stores::limits(count, &mut lines).await?,
        "engine" => engine::drain(count, peers, &mut lines).await?,
        "latency" => engine::latency(if quick { 500 } else { 2_000 }, &mut lines).await?,
        "idle" => engine::idle(if quick { 5 } else { 20 }, &mut lines).await?,
        "commands" => tokio::task::block_in_place(|| engine::commands(2_000, &mut lines))?,
        "http" => http::measure(quick, &mut lines).await?,
        "soak" => http::soak(quick, &mut lines).await?,
        "lmdb" => lmdb::measure(count, &mut lines).await?,
        "postgres" => postgres::measure(count, peers, &mut lines).await?,
        "redis" => redis::measure(count, peers, &mut lines).await?,
        "flatness" => stores::flatness(million, &mut lines).await?,
        _ => stores::memory(million, &mut lines).await?,
    }
    Ok(lines)
}
