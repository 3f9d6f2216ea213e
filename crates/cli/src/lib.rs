//! The parts of the runcue command line that are worth testing by themselves.

pub mod config;
pub mod runfile;
