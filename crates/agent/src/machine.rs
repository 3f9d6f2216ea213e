//! What the machine measures of itself, pushed every few seconds; kept for a while when the hub is away.

use std::collections::VecDeque;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use runcue_core::Timestamp;
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use crate::client::{HubClient, HubTrouble};

/// Measurements that wait for a hub that is away: an hour of them.
const KEPT: usize = 720;
const GB: f64 = 1e9;

/// One measurement.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Measured {
    name: String,
    cpu: f64,
    mem_used_gb: f64,
    mem_total_gb: f64,
    load1: Option<f64>,
    uptime: Option<f64>,
    at: i64,
}

/// Jiffies that all cores have spent, and of them those without work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Cpu {
    all: u64,
    idle: u64,
}

/// How many cores there are and how much memory, for whoever does not say.
pub fn size() -> (u32, f64) {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let total = memory(&read("/proc/meminfo")).map_or(1.0, |(total, _)| total);
    (u32::try_from(cores).unwrap_or(u32::MAX), (total * 10.0).round() / 10.0)
}

fn read(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

fn cpu(stat: &str) -> Option<Cpu> {
    let line = stat.lines().find(|line| line.starts_with("cpu "))?;
    let spent: Vec<u64> = line.split_whitespace().skip(1).filter_map(|n| n.parse().ok()).collect();
    let idle = spent.get(3)? + spent.get(4).unwrap_or(&0);
    Some(Cpu { all: spent.iter().take(8).sum(), idle })
}

/// Total and used, in GB.
fn memory(meminfo: &str) -> Option<(f64, f64)> {
    let field = |name: &str| {
        let line = meminfo.lines().find(|line| line.starts_with(name))?;
        line.split_whitespace().nth(1)?.parse::<f64>().ok().map(|kb| kb * 1024.0 / GB)
    };
    let total = field("MemTotal:")?;
    Some((total, total - field("MemAvailable:")?))
}

fn first_number(text: &str) -> Option<f64> {
    text.split_whitespace().next()?.parse().ok()
}

/// The time by this machine's clock: measurements and spans say when they were made.
#[expect(clippy::disallowed_methods, reason = "the agent's one look at the clock")]
pub fn now() -> Timestamp {
    Timestamp::ZERO.plus(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}

fn measure(name: &str, before: &mut Option<Cpu>) -> Measured {
    let spent = cpu(&read("/proc/stat"));
    let share = match (*before, spent) {
        (Some(before), Some(now)) if now.all > before.all => {
            let busy = (now.all - before.all) - (now.idle.saturating_sub(before.idle));
            100.0 * busy as f64 / (now.all - before.all) as f64
        }
        _ => 0.0,
    };
    *before = spent;
    let (mem_total_gb, mem_used_gb) = memory(&read("/proc/meminfo")).unwrap_or_default();
    Measured {
        name: name.to_owned(),
        cpu: share,
        mem_used_gb,
        mem_total_gb,
        load1: first_number(&read("/proc/loadavg")),
        uptime: first_number(&read("/proc/uptime")),
        at: now().as_millis(),
    }
}

/// Measures and pushes until the end.
pub async fn run(
    hub: &HubClient,
    node: &str,
    name: &str,
    every: Duration,
    over: CancellationToken,
) {
    let (mut before, mut kept) = (None, VecDeque::new());
    measure(name, &mut before);
    loop {
        tokio::select! {
            () = over.cancelled() => return,
            () = tokio::time::sleep(every) => {}
        }
        kept.push_back(measure(name, &mut before));
        if kept.len() > KEPT {
            kept.pop_front();
        }
        match hub.push(node, &kept).await {
            Err(HubTrouble::Away(_)) => {}
            // What the hub does not want now it will not want later.
            _ => kept.clear(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_says_how_busy_it_is() {
        let stat = "cpu  10 0 10 70 10 0 0 0 0 0\ncpu0 1 2 3 4\n";
        assert_eq!(cpu(stat), Some(Cpu { all: 100, idle: 80 }));
        assert_eq!(cpu("nothing"), None);
        let meminfo = "MemTotal: 2000000 kB\nMemFree: 1 kB\nMemAvailable: 1000000 kB\n";
        let (total, used) = memory(meminfo).unwrap();
        assert!((total - 2.048).abs() < 1e-9 && (used - 1.024).abs() < 1e-9);
    }
}
