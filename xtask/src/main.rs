//! Chores of this repository: `cargo xtask test` and `cargo xtask bench`.
//!
//! Owns the order in which everything is checked and what a machine needs for that. Uses nothing but the
//! standard library, so that the first `cargo xtask` on a new machine builds in a moment.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command line speaks there")]

mod arguments;
mod cargo;
mod dashboard;
mod http;
mod programs;
mod test;
mod tidy;

use std::path::PathBuf;
use std::process::ExitCode;

use arguments::{Chore, HELP};

/// A step failed.
const FAILED: u8 = 1;
/// Wrong usage, or something that this machine lacks.
const USAGE: u8 = 2;

/// Why a chore ended early.
#[derive(Debug, PartialEq, Eq)]
enum Trouble {
    /// Something was wrong with the code; it has been said.
    Failed,
    /// Something is wrong with the call or the machine: what, and the fix.
    Refused(String),
}

fn main() -> ExitCode {
    let done = match arguments::parse(std::env::args().skip(1)) {
        Ok(Chore::Help) => {
            print!("{HELP}");
            Ok(())
        }
        Ok(Chore::Test(wanted)) => test::run(&root(), &wanted),
        Ok(Chore::Tidy) => test::tidy_alone(&root()),
        Ok(Chore::Http) => test::http_alone(&root()),
        Ok(Chore::Bench(words)) => {
            programs::ensure_measured(&words).and_then(|()| cargo::bench(&root(), &words))
        }
        Err(why) => Err(Trouble::Refused(format!("{why}; `cargo xtask help` says what there is"))),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(Trouble::Failed) => FAILED.into(),
        Err(Trouble::Refused(why)) => {
            eprintln!("xtask: {why}");
            USAGE.into()
        }
    }
}

/// The repository, wherever in it the command was typed.
fn root() -> PathBuf {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    here.parent().map(PathBuf::from).unwrap_or(here)
}
