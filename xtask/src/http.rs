//! Property-based tests over HTTP: schemathesis reads the document of the hub's routes and asks a real hub in ways
//! that the document allows, and in many that it does not. How it asks is in `xtask/http`.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::Trouble;

/// A run that takes longer hangs somewhere.
const LONGEST: Duration = Duration::from_secs(300);
/// Any text will do: the hub is private to this test.
const TOKEN: &str = "for-this-test-only";

/// Runs them; the hub is the binary that the tests before this step have built.
pub fn test(root: &Path) -> Result<(), Trouble> {
    let python = installed(root)?;
    let place = root.join("target/http-test");
    let _ = fs::remove_dir_all(&place);
    fs::create_dir_all(&place).map_err(|error| refused("target/http-test", &error))?;
    let mut hub = Hub::start(root, &place)?;
    let asked = ask(root, &python, &hub.url);
    if hub.has_ended() {
        println!("xtask: http: the hub has ended; it said:");
        println!("{}", fs::read_to_string(place.join("hub.log")).unwrap_or_default());
        return Err(Trouble::Failed);
    }
    asked
}

/// A hub on a free port of loopback and a queue of its own, until it is dropped.
struct Hub {
    process: Child,
    url: String,
    /// Kept open: a hub that cannot write has lost its terminal.
    _output: BufReader<ChildStdout>,
}

impl Hub {
    fn start(root: &Path, place: &Path) -> Result<Self, Trouble> {
        let log = fs::File::create(place.join("hub.log"))
            .map_err(|error| refused("target/http-test/hub.log", &error))?;
        let mut command = Command::new(root.join("target/debug/runcue"));
        command.args(["--json", "--store", "sqlite:queue.db", "serve", "--listen", "127.0.0.1:0"]);
        for name in ["HUB_MODE", "PORT", "SQLITE_PATH", "FORGE_INGEST_SECRET", "RUNCUE_STORE"] {
            command.env_remove(name);
        }
        command.env("RUNCUE_TOKEN", TOKEN).current_dir(place);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log);
        let mut process =
            command.spawn().map_err(|error| refused("target/debug/runcue", &error))?;
        let Some(output) = process.stdout.take() else { return Err(Trouble::Failed) };
        let mut hub = Self { process, url: String::new(), _output: BufReader::new(output) };
        let mut line = String::new();
        let _ = hub._output.read_line(&mut line);
        match address(&line) {
            Some(url) => hub.url = url.to_owned(),
            None => {
                let said = fs::read_to_string(place.join("hub.log")).unwrap_or_default();
                return Err(Trouble::Refused(format!("the hub did not start: {line}{said}")));
            }
        }
        Ok(hub)
    }

    fn has_ended(&mut self) -> bool {
        !matches!(self.process.try_wait(), Ok(None))
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The address in the line that a hub writes when it listens.
fn address(line: &str) -> Option<&str> {
    let from = line.find("http://")?;
    line[from..].split('"').next()
}

fn ask(root: &Path, python: &Path, url: &str) -> Result<(), Trouble> {
    let settings = root.join("xtask/http");
    let mut command = Command::new(python.join("bin/schemathesis"));
    command.arg("--config-file").arg(settings.join("schemathesis.toml"));
    command.args(["run", &format!("{url}/openapi.json"), "--no-color"]);
    command.env("PYTHONPATH", &settings).env("PYTHONDONTWRITEBYTECODE", "1");
    command.env("SCHEMATHESIS_HOOKS", "hooks").env("RUNCUE_TOKEN", TOKEN);
    // The hub is on this machine, whatever proxy leads out of it.
    command.env("NO_PROXY", "127.0.0.1").env("no_proxy", "127.0.0.1");
    command.current_dir(root.join("target/http-test")).stdin(Stdio::null());
    let mut run = command.spawn().map_err(|error| refused("schemathesis", &error))?;
    let start = Instant::now();
    loop {
        match run.try_wait() {
            Ok(Some(status)) if status.success() => return Ok(()),
            Ok(Some(_)) => return Err(Trouble::Failed),
            Ok(None) if start.elapsed() < LONGEST => thread::sleep(Duration::from_millis(100)),
            _ => {
                let _ = run.kill();
                let _ = run.wait();
                println!("xtask: http: not done after {} s", LONGEST.as_secs());
                return Err(Trouble::Failed);
            }
        }
    }
}

/// Where Python's packages are, installed anew when those that are wanted have changed.
fn installed(root: &Path) -> Result<PathBuf, Trouble> {
    let wanted = root.join("xtask/http/requirements.txt");
    let place = root.join("target/schemathesis");
    let stamp = place.join("installed.txt");
    let list = fs::read(&wanted).map_err(|error| refused("xtask/http/requirements.txt", &error))?;
    if fs::read(&stamp).is_ok_and(|installed| installed == list) {
        return Ok(place);
    }
    println!("xtask: installing schemathesis with pip below target/schemathesis");
    let _ = fs::remove_dir_all(&place);
    let mut environment = Command::new("python3");
    environment.args(["-m", "venv"]).arg(&place);
    let mut packages = Command::new(place.join("bin/pip"));
    packages.args(["install", "--quiet", "--disable-pip-version-check", "--requirement"]);
    packages.arg(&wanted);
    for mut command in [environment, packages] {
        if !command.stdin(Stdio::null()).status().is_ok_and(|status| status.success()) {
            let why = "schemathesis cannot be installed: python3 with venv and PyPI are needed";
            return Err(Trouble::Refused(why.to_owned()));
        }
    }
    fs::write(&stamp, list).map_err(|error| refused("target/schemathesis", &error))?;
    Ok(place)
}

fn refused(what: &str, error: &std::io::Error) -> Trouble {
    Trouble::Refused(format!("{what}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_is_read_from_the_line_of_a_hub_that_listens() {
        let line = r#"{"url":"http://127.0.0.1:4321","store":"sqlite:queue.db"}"#;
        assert_eq!(address(line), Some("http://127.0.0.1:4321"));
        assert_eq!(address("no"), None);
    }
}
