//! Where the config file is: in the directory or one above it, up to the project's root, else in
//! the user's config directory.
//!
//! The way up ends at the directory with `.git`, or at the home directory. Where neither is above,
//! only the starting directory counts: a file in `/tmp` must not decide for everything below it.

use std::path::{Path, PathBuf};

use super::Env;

const NAMES: [&str; 6] = [
    "runcue.toml",
    "runcue.yaml",
    "runcue.yml",
    ".runcue/config.toml",
    ".runcue/config.yaml",
    ".runcue/config.yml",
];
const USER_NAMES: [&str; 3] = ["config.toml", "config.yaml", "config.yml"];

/// A config file that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The file.
    pub path: PathBuf,
    /// The directory it speaks for; `None` for the user's own file, which speaks for every one.
    pub project: Option<PathBuf>,
}

/// Looks for the config file from the directory `start`, which should be absolute.
#[must_use]
pub fn locate(start: &Path, env: Env<'_>) -> Option<Found> {
    let home = absolute(env, "HOME");
    for directory in ways_up(start, home.as_deref()) {
        for name in NAMES {
            let path = directory.join(name);
            if path.is_file() {
                return Some(Found { path, project: Some(directory.to_owned()) });
            }
        }
    }
    let user = absolute(env, "XDG_CONFIG_HOME").or_else(|| Some(home?.join(".config")))?;
    USER_NAMES
        .iter()
        .map(|name| user.join("runcue").join(name))
        .find(|path| path.is_file())
        .map(|path| Found { path, project: None })
}

/// The directories to look in, the nearest first.
fn ways_up<'a>(start: &'a Path, home: Option<&Path>) -> Vec<&'a Path> {
    let mut directories = Vec::new();
    for directory in start.ancestors() {
        directories.push(directory);
        if directory.join(".git").exists() || Some(directory) == home {
            return directories;
        }
    }
    vec![start]
}

fn absolute(env: Env<'_>, name: &str) -> Option<PathBuf> {
    env(name).map(PathBuf::from).filter(|path| path.is_absolute())
}
