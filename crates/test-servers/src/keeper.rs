//! The small shell processes that start servers and outlive nobody's interest in them, and signals to
//! servers by pid.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, test_kill_process};

use crate::Trouble;

const PRIVATE: &str = include_str!("../sh/private.sh");
const SHARED: &str = include_str!("../sh/shared.sh");

/// How long a server may take to start. Generous: machines that run tests are busy.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// Between two looks whether it has.
const LOOK: Duration = Duration::from_millis(10);

/// A server process that ends with this one.
#[derive(Debug)]
pub struct Kept {
    keeper: Child,
    /// Its end tells the keeper to end the server.
    pipe: Option<ChildStdin>,
    server: Pid,
}

impl Kept {
    /// Starts a server whose output goes to the file `log` in a directory of its own.
    pub fn start(directory: &Path, line: &[String]) -> Result<Self, Trouble> {
        let mut keeper = Command::new("sh")
            .args(["-c", PRIVATE, "private.sh"])
            .arg(directory)
            .args(line)
            .current_dir("/")
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(Trouble::with("sh"))?;
        let server = read_pid(&mut keeper)?;
        let pipe = keeper.stdin.take();
        Ok(Self { keeper, pipe, server })
    }

    /// The server's pid.
    pub fn pid(&self) -> u32 {
        self.server.as_raw_nonzero().get().unsigned_abs()
    }

    /// Whether the server still runs.
    pub fn is_alive(&self) -> bool {
        is_running(self.server)
    }

    /// Ends the server and its children without giving them a moment, and waits until they are gone.
    pub fn kill(&mut self) {
        let children = children(self.server);
        if let Some(mut pipe) = self.pipe.take() {
            let _ = pipe.write_all(b"alive\n");
        }
        let _ = self.keeper.wait();
        for child in children {
            wait_until(|| !is_running(child));
        }
    }

    /// Asks the server to end and waits until it has.
    pub fn stop(&mut self, signal: Signal) {
        let _ = kill_process(self.server, signal);
        wait_until(|| !is_running(self.server));
        self.kill();
    }

    /// Sends a signal to the server and all its children.
    pub fn signal_all(&self, signal: Signal) {
        let _ = kill_process(self.server, signal);
        for child in children(self.server) {
            let _ = kill_process(child, signal);
        }
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Starts a server that others will use too; its keeper ends it after the last of them.
pub fn start_shared(place: &Path, own: &Path, line: &[String]) -> Result<(), Trouble> {
    let mut keeper = Command::new("sh")
        .args(["-c", SHARED, "shared.sh"])
        .arg(place)
        .arg(own)
        .args(line)
        .current_dir("/")
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(Trouble::with("sh"))?;
    read_pid(&mut keeper)?;
    Ok(())
}

fn read_pid(keeper: &mut Child) -> Result<Pid, Trouble> {
    let mut line = String::new();
    if let Some(said) = keeper.stdout.take() {
        BufReader::new(said).read_line(&mut line).map_err(Trouble::with("the keeper"))?;
    }
    let pid = line.trim().parse().ok().and_then(Pid::from_raw);
    pid.ok_or_else(|| Trouble::new("the keeper of a server did not start it"))
}

/// Waits until a server answers; if it does not, the end of its log.
pub fn await_ready(
    name: &str,
    log: &Path,
    is_alive: impl Fn() -> bool,
    is_ready: impl Fn() -> bool,
) -> Result<(), Trouble> {
    let start = Instant::now();
    while start.elapsed() < PATIENCE {
        if is_ready() {
            return Ok(());
        }
        if !is_alive() {
            break;
        }
        thread::sleep(LOOK);
    }
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    let last = lines[lines.len().saturating_sub(5)..].join("; ");
    Err(Trouble::new(format!("{name} did not start: {last}")))
}

fn wait_until(done: impl Fn() -> bool) {
    let start = Instant::now();
    while !done() && start.elapsed() < PATIENCE {
        thread::sleep(LOOK);
    }
}

/// Whether a process is there and not only waiting to be counted as ended.
fn is_running(pid: Pid) -> bool {
    match stat(pid.as_raw_nonzero().get()) {
        Some((state, _)) => state != "Z",
        None => !Path::new("/proc/self").exists() && test_kill_process(pid).is_ok(),
    }
}

fn children(parent: Pid) -> Vec<Pid> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid| stat(*pid).is_some_and(|(_, owner)| owner == parent.as_raw_nonzero().get()))
        .filter_map(Pid::from_raw)
        .collect()
}

/// The state of a process and its parent.
fn stat(pid: i32) -> Option<(String, i32)> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name may have spaces and brackets in it; what follows has not.
    let mut words = text.rsplit_once(')')?.1.split_whitespace();
    Some((words.next()?.to_owned(), words.next()?.parse().ok()?))
}
