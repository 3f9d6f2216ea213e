//! What is left when processes die: the real binary is killed with -9 at random moments, suspended, and started many
//! times over on one file. Two records judge it: the [`ledger`], which the jobs themselves write, and the
//! [`history`], which is what the store says happened.
//!
//! `RUNCUE_LONG=1` kills ten times as often. A failure names its seed; `RUNCUE_SEED=n` throws the same dice again.

pub mod arena;
mod children;
mod dice;
pub mod freeze;
pub mod grants;
mod groups;
mod history;
mod kill;
pub mod ledger;
mod limits;
pub mod patience;
mod resume;
mod ticks;
mod together;

/// So many in CI, ten times as many in long mode.
pub fn scaled(count: usize) -> usize {
    if std::env::var_os("RUNCUE_LONG").is_some() { count * 10 } else { count }
}

/// Figures for whoever reads along with `--nocapture`, or has to find out what failed.
#[expect(clippy::print_stderr, reason = "the test harness keeps it and shows it when a test fails")]
pub fn note(text: &str) {
    eprintln!("{text}");
}
