//! What a process has used and holds, as Linux tells it: processor time, memory, open files.

use std::fs;

use anyhow::{Context, Result};

/// Processor time of a process so far, in seconds.
pub fn busy_seconds(process: u32) -> Result<f64> {
    let text = read(process, "stat")?;
    // The name of the program stands in parentheses and may hold anything, so counting begins behind it.
    let (_, fields) = text.rsplit_once(')').context("no name in stat")?;
    let mut ticks = fields.split_whitespace().skip(11);
    let mut next = || anyhow::Ok(ticks.next().context("stat is too short")?.parse::<u64>()?);
    let (user, system) = (next()?, next()?);
    Ok((user + system) as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// Memory of a process.
pub fn resident_megabytes(process: u32) -> Result<f64> {
    let status = read(process, "status")?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).context("no VmRSS")?;
    let kilobytes: f64 = line.split_whitespace().nth(1).context("no number")?.parse()?;
    Ok(kilobytes / 1024.0)
}

/// Open files and connections of a process.
pub fn open_files(process: u32) -> Result<usize> {
    let files = fs::read_dir(format!("/proc/{process}/fd")).context("this figure needs Linux")?;
    Ok(files.count())
}

fn read(process: u32, what: &str) -> Result<String> {
    fs::read_to_string(format!("/proc/{process}/{what}")).context("this figure needs Linux")
}
