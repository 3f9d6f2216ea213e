//! Calling cargo from inside cargo.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::Trouble;

/// What `cargo run` tells a program about the program itself. Handed on to a second cargo it would be
/// wrong there, and build scripts that read it would run again every time.
const ABOUT_US: [&str; 6] = [
    "CARGO_MANIFEST_DIR",
    "CARGO_MANIFEST_PATH",
    "CARGO_BIN_NAME",
    "CARGO_CRATE_NAME",
    "CARGO_PRIMARY_PACKAGE",
    "OUT_DIR",
];

/// A cargo of the same toolchain, at the root of the repository.
pub fn cargo(root: &Path) -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.current_dir(root);
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if ABOUT_US.contains(&text.as_ref()) || text.starts_with("CARGO_PKG_") {
            command.env_remove(&name);
        }
    }
    command
}

/// Whether cargo has a subcommand.
pub fn has(root: &Path, subcommand: &str) -> bool {
    let mut command = cargo(root);
    command.args([subcommand, "--version"]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Builds the program and runs the benchmarks, which start it.
pub fn bench(root: &Path, words: &[String]) -> Result<(), Trouble> {
    let mut build = cargo(root);
    build.args([
        "build",
        "--profile",
        "dist",
        "--locked",
        "-p",
        "runcue-cli",
        "-p",
        "runcue-bench",
    ]);
    let mut bench = cargo(root);
    bench.args(["run", "--profile", "dist", "--locked", "-p", "runcue-bench", "--"]).args(words);
    for mut command in [build, bench] {
        match command.status() {
            Ok(status) if status.success() => {}
            Ok(_) => return Err(Trouble::Failed),
            Err(error) => {
                return Err(Trouble::Refused(format!("cargo could not be started: {error}")));
            }
        }
    }
    Ok(())
}
