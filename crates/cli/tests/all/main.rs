//! The real binary `runcue`, by topic. Every test has a directory and a queue of its own.

#![expect(clippy::unwrap_used, reason = "helpers of tests: what cannot go on has failed")]

mod add;
mod control;
mod crash;
mod deploy;
#[cfg(target_os = "linux")]
mod disk;
mod doctor;
mod examples;
mod find;
#[cfg(all(feature = "postgres", feature = "redis"))]
mod fleet;
#[cfg(target_os = "linux")]
mod hub;
mod inbox;
mod json;
#[cfg(all(feature = "postgres", feature = "redis"))]
mod lines;
mod look;
mod moves;
#[cfg(target_os = "linux")]
mod moving;
mod run;
mod sandbox;
mod schedules;
mod stores;
#[cfg(target_os = "linux")]
mod traces;
mod trouble;
#[cfg(all(target_os = "linux", feature = "postgres", feature = "redis"))]
mod weather;
mod work;
