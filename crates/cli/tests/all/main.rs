//! The real binary `runcue`, by topic. Every test has a directory and a queue of its own.

mod add;
mod control;
mod find;
mod json;
mod look;
mod run;
mod sandbox;
mod trouble;
mod work;
