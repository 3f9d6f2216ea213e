//! Builds the dashboard and puts it into the hub. Where there is no Node, or where it cannot be built, the hub
//! serves a plain page instead and the build says so; nothing else depends on it. `RUNCUE_DASHBOARD=off` leaves it
//! out, `RUNCUE_DASHBOARD=DIRECTORY` takes one that is built already.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const SOURCES: [&str; 7] = [
    "package.json",
    "package-lock.json",
    "tsconfig.json",
    "vite.config.ts",
    "index.html",
    "src",
    "public",
];

fn main() {
    let root = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let out = PathBuf::from(std::env::var_os("OUT_DIR").unwrap_or_default());
    let dashboard = root.join("../../dashboard");
    println!("cargo::rerun-if-env-changed=RUNCUE_DASHBOARD");
    for source in SOURCES {
        println!("cargo::rerun-if-changed={}", dashboard.join(source).display());
    }
    let built = match std::env::var("RUNCUE_DASHBOARD") {
        Ok(word) if word == "off" => Ok(None),
        Ok(directory) => Ok(Some(PathBuf::from(directory))),
        Err(_) => build(&dashboard, &out),
    };
    let built = built.unwrap_or_else(|why| {
        println!("cargo::warning=the hub has no dashboard, only a plain page: {why}");
        None
    });
    let list = assets(built.as_deref()).unwrap_or_else(|error| {
        println!("cargo::warning=the dashboard cannot be read: {error}");
        String::new()
    });
    let text = format!("pub static ASSETS: &[(&str, &[u8])] = &[\n{list}];\n");
    if let Err(error) = fs::write(out.join("assets.rs"), text) {
        panic!("assets.rs cannot be written: {error}");
    }
}

/// Builds it beside everything else that cargo makes, so that nothing appears among the sources.
fn build(dashboard: &Path, out: &Path) -> Result<Option<PathBuf>, String> {
    if !dashboard.join("package.json").exists() {
        let ready = dashboard.join("dist");
        return Ok(ready.join("index.html").exists().then_some(ready));
    }
    let place = out.join("dashboard");
    let copied = fs::create_dir_all(&place).and_then(|()| {
        SOURCES.iter().try_for_each(|name| copy(&dashboard.join(name), &place.join(name)))
    });
    copied.map_err(|error| format!("its sources cannot be copied: {error}"))?;
    // Not `ci`: it wants the native parts of every other platform in the lock file too.
    npm(&place, &["install", "--no-save", "--ignore-scripts", "--no-audit", "--no-fund"])?;
    npm(&place, &["run", "build"])?;
    Ok(Some(place.join("dist")))
}

fn npm(place: &Path, words: &[&str]) -> Result<(), String> {
    let name = if cfg!(windows) { "npm.cmd" } else { "npm" };
    let ended = Command::new(name).args(words).current_dir(place).stdin(Stdio::null()).output();
    match ended {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err("npm is not here (install Node 20 to have one)".to_owned())
        }
        Err(error) => Err(format!("npm cannot be started: {error}")),
        Ok(ended) if ended.status.success() => Ok(()),
        Ok(ended) => {
            let text = String::from_utf8_lossy(&ended.stderr).into_owned();
            let text = if text.trim().is_empty() {
                String::from_utf8_lossy(&ended.stdout).into()
            } else {
                text
            };
            let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
            let last = lines.iter().rev().take(3).rev().copied().collect::<Vec<_>>().join(" / ");
            Err(format!("npm {} failed: {last}", words[0]))
        }
    }
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    if !from.is_dir() {
        return fs::copy(from, to).map(drop);
    }
    if to.exists() {
        fs::remove_dir_all(to)?;
    }
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        copy(&entry.path(), &to.join(entry.file_name()))?;
    }
    Ok(())
}

/// Every file as a line of Rust.
fn assets(built: Option<&Path>) -> io::Result<String> {
    let mut list = String::new();
    if let Some(built) = built {
        collect(built, built, &mut list)?;
    }
    Ok(list)
}

fn collect(root: &Path, directory: &Path, list: &mut String) -> io::Result<()> {
    let mut entries: Vec<PathBuf> = fs::read_dir(directory)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<io::Result<_>>()?;
    entries.sort();
    for path in entries {
        if path.is_dir() {
            collect(root, &path, list)?;
            continue;
        }
        if path.extension() == Some(OsStr::new("map")) {
            continue;
        }
        let name = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().replace('\\', "/");
        // Writing to a string cannot fail.
        let _ = writeln!(list, "    ({name:?}, include_bytes!({:?})),", path.display().to_string());
    }
    Ok(())
}
