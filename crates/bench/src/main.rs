//! `cargo xtask bench`: prints one table with our figures, the raw floor of the same run, the ratios, the
//! durability modes and the goals. `--quick` shrinks everything for a first look; a word names one part.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "printing is what this program is for"
)]

mod engine;
mod floor;
mod stores;
mod table;

use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Result;
use runcue_core::Timestamp;

#[expect(clippy::disallowed_methods, reason = "a front reads the clock")]
fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_micros(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let quick = words.iter().any(|word| word == "--quick");
    let parts: Vec<&String> = words.iter().filter(|word| !word.starts_with("--")).collect();
    let wanted = |part: &str| parts.is_empty() || parts.iter().any(|word| *word == part);
    let (count, million) = if quick { (20_000, 100_000) } else { (100_000, 1_000_000) };
    let mut lines = Vec::new();
    // Memory comes first: afterwards the process has had other things in its hands.
    if wanted("memory") {
        eprintln!("memory …");
        stores::memory(million, &mut lines).await?;
    }
    if wanted("throughput") {
        eprintln!("throughput …");
        stores::throughput(count, &mut lines).await?;
    }
    if wanted("flatness") {
        eprintln!("flatness …");
        stores::flatness(million, &mut lines).await?;
    }
    if wanted("limits") {
        eprintln!("limits …");
        stores::limits(count, &mut lines).await?;
    }
    if wanted("engine") {
        eprintln!("engine …");
        engine::drain(count, &mut lines).await?;
    }
    if wanted("latency") {
        eprintln!("latency …");
        engine::latency(if quick { 500 } else { 2_000 }, &mut lines).await?;
    }
    if wanted("idle") {
        eprintln!("idle …");
        engine::idle(if quick { 5 } else { 20 }, &mut lines).await?;
    }
    if wanted("commands") {
        eprintln!("commands …");
        tokio::task::block_in_place(|| engine::commands(2_000, &mut lines))?;
    }
    println!("{}", table::render(&lines));
    Ok(())
}
