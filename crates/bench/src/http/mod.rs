//! Figures over HTTP: the real `runcue serve` on a SQLite file, beside an axum server that does nothing, both
//! driven by the same client over loopback.

mod calls;
mod client;
mod raw;
mod served;
mod soak;
mod streams;
mod waiting;

use std::time::Duration;

use anyhow::Result;

pub use self::raw::{RAW, serve as serve_raw};
pub use self::soak::measure as soak;
use crate::table::Line;

/// The durability of every figure here.
const MODE: &str = "normal";

/// Everything that is measured over HTTP.
pub async fn measure(quick: bool, lines: &mut Vec<Line>) -> Result<()> {
    served::raise_file_limit()?;
    calls::measure(quick, lines).await?;
    waiting::measure(quick, lines).await?;
    streams::measure(quick, lines).await
}

/// Milliseconds below which this share of the times lies. The times are sorted.
fn percentile(times: &[Duration], percent: usize) -> f64 {
    let place = times.len().saturating_sub(1) * percent / 100;
    times.get(place).copied().unwrap_or_default().as_secs_f64() * 1e3
}

fn milliseconds(time: f64) -> String {
    format!("{time:.2} ms")
}
