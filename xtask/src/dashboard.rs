//! The dashboard's own tests: types, logic, and every page in a real browser against the real hub.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::Trouble;

/// The oldest Node that builds the dashboard, as major and minor version.
const NODE: (u32, u32) = (20, 19);

/// Runs them all; the hub is the binary that the tests before this step have built.
pub fn test(root: &Path) -> Result<(), Trouble> {
    let directory = root.join("dashboard");
    if !directory.join("package.json").exists() {
        return Ok(());
    }
    let path = path_with_node(root)?;
    let hub = root.join("target/debug/runcue");
    let serve = format!("{} serve --listen 127.0.0.1:{{port}}", hub.display());
    for words in [
        &["install", "--no-save", "--ignore-scripts", "--no-audit", "--no-fund"][..],
        &["run", "check"],
        &["test"],
        &["run", "e2e"],
    ] {
        println!("xtask: dashboard: npm {}", words.join(" "));
        let mut npm = Command::new("npm");
        npm.args(words).current_dir(&directory).env("PATH", &path).env("RUNCUE_E2E", &serve);
        match npm.stdin(Stdio::null()).status() {
            Ok(status) if status.success() => {}
            Ok(_) => return Err(Trouble::Failed),
            Err(error) => {
                return Err(Trouble::Refused(format!("npm could not be started: {error}")));
            }
        }
    }
    Ok(())
}

/// The path on which a Node that is new enough comes first. An older one, as Debian has it, brings a newer one from
/// npm's registry, kept below `target`.
fn path_with_node(root: &Path) -> Result<OsString, Trouble> {
    let path = env::var_os("PATH").unwrap_or_default();
    if version("node").is_some_and(|version| version >= NODE) {
        return Ok(path);
    }
    let place = root.join("target/node");
    let program = place.join("node_modules/node/bin");
    if version(&program.join("node").display().to_string()).is_none_or(|version| version < NODE) {
        println!("xtask: installing Node {} with npm below target/node", NODE.0);
        let wanted = format!("node@{}", NODE.0);
        let done = Command::new("npm")
            .args(["install", "--no-save", "--no-audit", "--no-fund", "--prefix"])
            .arg(&place)
            .arg(&wanted)
            .stdin(Stdio::null())
            .status();
        if !done.is_ok_and(|status| status.success()) {
            let why = format!("Node {}.{} or newer is needed for the dashboard", NODE.0, NODE.1);
            return Err(Trouble::Refused(why));
        }
    }
    let places: Vec<PathBuf> = [program].into_iter().chain(env::split_paths(&path)).collect();
    env::join_paths(places).map_err(|error| Trouble::Refused(error.to_string()))
}

fn version(program: &str) -> Option<(u32, u32)> {
    let output = Command::new(program).arg("--version").stdin(Stdio::null()).output().ok()?;
    parse(&String::from_utf8_lossy(&output.stdout))
}

fn parse(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.trim().strip_prefix('v')?.split('.');
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_as_numbers() {
        assert_eq!(parse("v20.20.2\n"), Some((20, 20)));
        assert!(parse("v20.9.0").unwrap() < NODE && parse("v22.1.0").unwrap() > NODE);
        assert_eq!(parse("node"), None);
    }
}
