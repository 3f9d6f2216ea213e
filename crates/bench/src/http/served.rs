//! A server in a process of its own: the hub on a new queue, or the raw floor. Knows how it is started, where it
//! serves, and how it is stopped.

use std::net::SocketAddr;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, setrlimit};
use serde::Deserialize;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use super::raw::RAW;
use crate::engine::program;
use crate::process;

/// How long a server has to end.
const END: Duration = Duration::from_secs(15);
/// What would change how a hub is reached or where its queue is.
const OF_HUBS: [&str; 7] = [
    "RUNCUE_TOKEN",
    "RUNCUE_STORE",
    "RUNCUE_CONFIG",
    "FORGE_INGEST_SECRET",
    "HUB_MODE",
    "PORT",
    "SQLITE_PATH",
];

/// A server in a process of its own.
pub struct Served {
    child: Child,
    process: u32,
    pub address: SocketAddr,
    /// Where its queue is; it goes with the server.
    _directory: TempDir,
}

#[derive(Deserialize)]
struct Serving {
    url: String,
}

impl Served {
    /// `runcue serve` on a SQLite file that is new.
    pub async fn hub() -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let mut command = Command::new(program()?);
        let store = format!("sqlite:{}", directory.path().join("queue.db").display());
        command.args(["--store", &store, "--json", "serve", "--listen", "127.0.0.1:0"]);
        for name in OF_HUBS {
            command.env_remove(name);
        }
        Self::start(command, directory).await
    }

    /// The raw floor.
    pub async fn raw() -> Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg(RAW);
        Self::start(command, tempfile::tempdir()?).await
    }

    async fn start(mut command: Command, directory: TempDir) -> Result<Self> {
        // No config file of the place where this runs is found from here.
        command.current_dir(directory.path()).kill_on_drop(true);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let process = child.id().context("the server ended at once")?;
        let output = child.stdout.as_mut().context("the server has no output")?;
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line).await?;
        let serving: Serving = serde_json::from_str(&line)
            .with_context(|| format!("the server did not say where it serves: {line:?}"))?;
        let address = serving.url.trim_start_matches("http://").parse()?;
        Ok(Self { child, process, address, _directory: directory })
    }

    /// Its processor time so far, in seconds.
    pub fn busy_seconds(&self) -> Result<f64> {
        process::busy_seconds(self.process)
    }

    /// Its memory.
    pub fn resident_megabytes(&self) -> Result<f64> {
        process::resident_megabytes(self.process)
    }

    /// Its open files and connections.
    pub fn open_files(&self) -> Result<usize> {
        process::open_files(self.process)
    }

    /// Asks it to end and waits until it has.
    pub async fn stop(mut self) -> Result<()> {
        drop(self.child.stdin.take());
        let process = Pid::from_raw(i32::try_from(self.process)?).context("no process")?;
        kill_process(process, Signal::TERM)?;
        tokio::time::timeout(END, self.child.wait()).await.context("the server did not end")??;
        Ok(())
    }
}

/// A thousand connections need more open files than most shells allow at first. The servers inherit the limit.
pub fn raise_file_limit() -> Result<()> {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })
        .context("the limit of open files cannot be raised")
}
