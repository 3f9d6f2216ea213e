//! Redis servers: a shared one with a key prefix per test, and private ones that may be killed.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rustix::process::Signal;
use tempfile::TempDir;

use crate::keeper::{self, Kept};
use crate::shared::{self, Membership};
use crate::{Proxy, Trouble, place};

const PACKAGE: &str = "redis-server";
/// Tries with another port if somebody else took it.
const TRIES: usize = 5;

/// How a private server is set up. Without more it keeps an append-only file that is synced every second.
#[derive(Clone, Debug)]
pub struct RedisSettings {
    lines: Vec<(String, String)>,
    password: Option<String>,
    /// Where its data is, if not in its own directory.
    data: Option<PathBuf>,
}

impl Default for RedisSettings {
    fn default() -> Self {
        let lines = [
            ("bind", "127.0.0.1"),
            ("daemonize", "no"),
            ("save", ""),
            ("appendonly", "yes"),
            ("appendfsync", "everysec"),
        ];
        let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        Self { lines: lines.into_iter().map(owned).collect(), password: None, data: None }
    }
}

impl RedisSettings {
    /// Every reply waits until the change is on disk.
    #[must_use]
    pub fn durable(self) -> Self {
        self.set("appendfsync", "always")
    }

    /// Asks for a password; [`Redis::url`] has it.
    #[must_use]
    pub fn password(mut self, password: &str) -> Self {
        self.password = Some(password.to_owned());
        self.set("requirepass", password)
    }

    /// Keeps its data in this directory.
    #[must_use]
    pub fn data(mut self, directory: &Path) -> Self {
        self.data = Some(directory.to_owned());
        self
    }

    /// A setting as in `redis.conf`, instead of an earlier one of that name.
    #[must_use]
    pub fn set(mut self, name: &str, value: &str) -> Self {
        self.lines.retain(|(known, _)| known != name);
        self.lines.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Starts the server.
    ///
    /// # Errors
    /// If it is not installed or does not start.
    pub fn start(self) -> Result<Redis, Trouble> {
        let directory = place::temporary()?;
        let log = directory.path().join("log");
        let mut last = None;
        for _ in 0..TRIES {
            let port = place::free_port()?;
            match start_on(&self, directory.path(), port) {
                Ok(kept) => {
                    return Ok(Redis { settings: self, port, kept, log, directory });
                }
                Err(trouble) => last = Some(trouble),
            }
        }
        Err(last.unwrap_or_else(|| Trouble::new("Redis did not start")))
    }

    fn line(&self, directory: &Path, port: u16) -> Result<Vec<String>, Trouble> {
        let program = place::program("redis-server", PACKAGE)?;
        let mut line = vec![program.display().to_string()];
        let own = [
            ("port".to_owned(), port.to_string()),
            ("dir".to_owned(), self.data.as_deref().unwrap_or(directory).display().to_string()),
        ];
        for (name, value) in self.lines.iter().chain(&own) {
            line.push(format!("--{name}"));
            line.push(value.clone());
        }
        Ok(line)
    }
}

fn start_on(settings: &RedisSettings, directory: &Path, port: u16) -> Result<Kept, Trouble> {
    let log = directory.join("log");
    let kept = Kept::start(directory, &settings.line(directory, port)?)?;
    keeper::await_ready("Redis", &log, || kept.is_alive(), || is_ready(port))?;
    Ok(kept)
}

/// A server of one's own. Ends when this value is dropped or the process ends.
#[derive(Debug)]
pub struct Redis {
    settings: RedisSettings,
    port: u16,
    kept: Kept,
    log: PathBuf,
    directory: TempDir,
}

impl Redis {
    /// Settings to start one with.
    pub fn settings() -> RedisSettings {
        RedisSettings::default()
    }

    /// Its address.
    pub fn url(&self) -> String {
        self.url_at(self.port)
    }

    /// Its address through a proxy to this server.
    pub fn url_through(&self, proxy: &Proxy) -> String {
        self.url_at(proxy.port())
    }

    fn url_at(&self, port: u16) -> String {
        match &self.settings.password {
            Some(password) => format!("redis://:{password}@127.0.0.1:{port}/0"),
            None => format!("redis://127.0.0.1:{port}/0"),
        }
    }

    /// The port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The pid of the server.
    pub fn pid(&self) -> u32 {
        self.kept.pid()
    }

    /// Where its files are.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// What the server wrote to its log.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Sends one command and answers the first line of the reply, as it is on the wire.
    ///
    /// # Errors
    /// If the server cannot be reached. An error that the server answers is a reply.
    pub fn command(&self, words: &[&str]) -> Result<String, Trouble> {
        let mut all = Vec::new();
        if let Some(password) = &self.settings.password {
            all.push(vec!["AUTH", password]);
        }
        all.push(words.to_vec());
        command(self.port, &all).map_err(Trouble::with("redis"))
    }

    /// Kills the server at once. [`Redis::restart`] brings it back.
    pub fn kill9(&mut self) {
        self.kept.kill();
    }

    /// Stops the server without ending it: connections stay open and nothing answers.
    pub fn freeze(&self) {
        self.kept.signal_all(Signal::STOP);
    }

    /// Lets a frozen server go on.
    pub fn thaw(&self) {
        self.kept.signal_all(Signal::CONT);
    }

    /// Shuts the server down in good order.
    pub fn stop(&mut self) {
        self.kept.stop(Signal::TERM);
    }

    /// Starts the server again on the same port and data, after it was killed or stopped, or ends it first.
    ///
    /// # Errors
    /// If it does not start.
    pub fn restart(&mut self) -> Result<(), Trouble> {
        if self.kept.is_alive() {
            self.stop();
        }
        self.kept = start_on(&self.settings, self.directory.path(), self.port)?;
        Ok(())
    }
}

/// A key prefix of one's own on the shared server.
#[derive(Debug)]
pub struct Prefix {
    port: u16,
    name: String,
}

impl Prefix {
    /// The server's address, with the prefix in it.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/0?prefix={}", self.port, self.name)
    }

    /// The prefix.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The port of the server on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }
}

/// This process's use of the shared server.
static MEMBERSHIP: Mutex<Option<Membership>> = Mutex::new(None);

pub fn shared() -> Result<Prefix, Trouble> {
    let mut membership = MEMBERSHIP.lock().unwrap_or_else(PoisonError::into_inner);
    if membership.is_none() {
        *membership = Some(shared::join("redis", is_ready_at, start_shared)?);
    }
    let state = membership.as_ref().map(|membership| membership.state.clone()).unwrap_or_default();
    let port = state.parse().map_err(|_| Trouble::new("the shared Redis has no port"))?;
    Ok(Prefix { port, name: place::unique("test") })
}

fn start_shared(place: &Path, own: &Path) -> Result<String, Trouble> {
    let settings = RedisSettings::default().set("appendfsync", "no");
    let mut last = None;
    for _ in 0..TRIES {
        let port = place::free_port()?;
        keeper::start_shared(place, own, &settings.line(own, port)?)?;
        match keeper::await_ready("Redis", &own.join("log"), || true, || is_ready(port)) {
            Ok(()) => return Ok(port.to_string()),
            Err(trouble) => last = Some(trouble),
        }
    }
    Err(last.unwrap_or_else(|| Trouble::new("Redis did not start")))
}

fn is_ready_at(state: &str) -> bool {
    state.parse().is_ok_and(is_ready)
}

/// Whether a server answers, if only to ask for a password; not while it still loads its data.
fn is_ready(port: u16) -> bool {
    let said = command(port, &[vec!["PING"]]);
    said.is_ok_and(|line| line.starts_with("+PONG") || line.starts_with("-NOAUTH"))
}

/// The first line of the reply to the last of these commands. Earlier replies must be one line each.
fn command(port: u16, commands: &[Vec<&str>]) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut line = String::new();
    for words in commands {
        let mut text = format!("*{}\r\n", words.len());
        for word in words {
            text.push_str(&format!("${}\r\n{word}\r\n", word.len()));
        }
        stream.write_all(text.as_bytes())?;
        line.clear();
        reader.read_line(&mut line)?;
    }
    Ok(line.trim_end().to_owned())
}
