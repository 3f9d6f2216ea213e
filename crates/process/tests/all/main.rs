//! The crate as its callers see it, against real processes. Linux only where it looks at them through `/proc`.
#![cfg(target_os = "linux")]

mod guard;
mod pool;
mod run;
mod sight;
