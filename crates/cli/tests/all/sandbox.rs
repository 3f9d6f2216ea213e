//! A directory with a queue of its own, and the binary run in it.

use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// A directory of its own.
pub struct Sandbox {
    directory: TempDir,
    /// The store, if it is not the one that is taken by default.
    store: Option<String>,
    /// What else is in the environment.
    env: Vec<(String, String)>,
}

/// How a run of the binary ended.
#[derive(Debug)]
pub struct Ended {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Ended {
    /// Expects it to be fine.
    #[track_caller]
    pub fn ok(self) -> String {
        assert_eq!(self.code, 0, "stdout: {}\nstderr: {}", self.stdout, self.stderr);
        self.stdout
    }

    /// Expects an exit code and, on standard error, one line that begins with `error: ` and stands first. At most one
    /// begins with `help: `: a fix may stand in the line itself, and words that are not understood are answered with
    /// the usage behind it.
    #[track_caller]
    pub fn refused(self, code: i32) -> String {
        assert_eq!(self.code, code, "stdout: {}\nstderr: {}", self.stdout, self.stderr);
        assert!(self.stderr.starts_with("error: "), "{}", self.stderr);
        let begin = |word: &str| self.stderr.lines().filter(|line| line.starts_with(word)).count();
        assert_eq!((begin("error: "), begin("help: ") <= 1), (1, true), "{}", self.stderr);
        assert!(!self.stderr.contains("panicked"), "{}", self.stderr);
        self.stderr
    }

    /// Expects one JSON document.
    #[track_caller]
    pub fn json(self) -> Value {
        let text = self.ok();
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }
}

impl From<Output> for Ended {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

impl Sandbox {
    pub fn new() -> Self {
        Self { directory: TempDir::new().unwrap(), store: None, env: Vec::new() }
    }

    /// The same, with another store; a path in it is one in the directory.
    pub fn on(store: &str) -> Self {
        Self { store: Some(store.to_owned()), ..Self::new() }
    }

    /// The same, with one more variable in the environment.
    pub fn with_env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    pub fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path().join(name), text).unwrap();
    }

    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path().join(name)).unwrap_or_default()
    }

    /// The binary with these words, not started yet.
    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_runcue"));
        command
            .args(words)
            .current_dir(self.path())
            .env_remove("RUNCUE_STORE")
            .env_remove("RUNCUE_INSTANCE")
            .env_remove("RUST_LOG")
            .env_remove("TRACEPARENT")
            .env_remove("OTEL_EXPORTER_OTLP_ENDPOINT")
            .env_remove("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
            .env("HOME", self.path())
            .env("XDG_CONFIG_HOME", self.path())
            .env("TZ", "UTC")
            .stdin(Stdio::null());
        if let Some(store) = &self.store {
            command.env("RUNCUE_STORE", store);
        }
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Runs the binary to its end.
    pub fn run(&self, words: &[&str]) -> Ended {
        self.command(words).output().unwrap().into()
    }

    /// Runs the binary with something to read.
    pub fn run_with(&self, words: &[&str], input: &str) -> Ended {
        let mut child = self
            .command(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        child.wait_with_output().unwrap().into()
    }

    /// Starts the binary and leaves it running.
    pub fn start(&self, words: &[&str]) -> Child {
        self.command(words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// Adds a job and answers its id.
    #[track_caller]
    pub fn add(&self, words: &[&str]) -> String {
        let words: Vec<&str> = ["add"].iter().chain(words).copied().collect();
        self.run(&words).ok().trim().to_owned()
    }

    /// A job as JSON.
    #[track_caller]
    pub fn show(&self, id: &str) -> Value {
        self.run(&["show", id, "--json"]).json()
    }

    /// The state of a job.
    #[track_caller]
    pub fn state(&self, id: &str) -> String {
        self.show(id)["state"].as_str().unwrap().to_owned()
    }
}
