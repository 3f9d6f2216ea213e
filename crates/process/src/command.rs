//! What to run: a command line with its environment, directory and input.
//!
//! Owns the description only. Spawning is `spawn`, running is `run`, and filling templates is the caller's.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// A command, ready to be run. Arguments are a list and never pass through a shell, unless
/// [`CommandSpec::shell`] asks for one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandSpec {
    /// The program, then its arguments. A program without a slash is looked up on `PATH`.
    pub argv: Vec<String>,
    /// Variables added to the inherited environment; a later one wins.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<(String, String)>,
    /// The directory to run in; ours if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<PathBuf>,
    /// What the command reads on standard input; nothing if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdin: Option<Vec<u8>>,
}

impl CommandSpec {
    /// A command from its program and arguments.
    pub fn new<I, S>(argv: I) -> Self
    where
        I: IntoIterator<Item = S>,
        S: Into<String>,
    {
        Self { argv: argv.into_iter().map(Into::into).collect(), ..Self::default() }
    }

    /// A line for the system's shell: `sh -c` on Unix, `cmd /C` on Windows.
    ///
    /// Values that come from outside belong in `env`, not in the line.
    #[must_use]
    pub fn shell(line: String) -> Self {
        let (shell, flag) = if cfg!(windows) { ("cmd", "/C") } else { ("sh", "-c") };
        Self::new([shell.to_owned(), flag.to_owned(), line])
    }

    /// The same command with one more environment variable.
    #[must_use]
    pub fn with_env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    /// The same command in another directory.
    #[must_use]
    pub fn with_cwd(mut self, cwd: impl Into<PathBuf>) -> Self {
        self.cwd = Some(cwd.into());
        self
    }

    /// The same command with something to read on standard input.
    #[must_use]
    pub fn with_stdin(mut self, input: impl Into<Vec<u8>>) -> Self {
        self.stdin = Some(input.into());
        self
    }

    /// The `PATH` this command sets for itself, if it sets one.
    pub(crate) fn own_path(&self) -> Option<&str> {
        let path = self.env.iter().rev().find(|(name, _)| name == "PATH");
        path.map(|(_, value)| value.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spec_survives_a_round_trip_through_json() {
        let spec = CommandSpec::shell("echo hi".to_owned())
            .with_env("A", "1")
            .with_cwd("/tmp")
            .with_stdin("in");
        let json = serde_json::to_string(&spec).unwrap();
        assert_eq!(serde_json::from_str::<CommandSpec>(&json).unwrap(), spec);
    }

    #[test]
    fn only_argv_is_required() {
        let spec: CommandSpec = serde_json::from_str(r#"{"argv":["true"]}"#).unwrap();
        assert_eq!(spec, CommandSpec::new(["true"]));
    }

    #[test]
    fn the_last_path_wins() {
        let spec = CommandSpec::new(["x"]).with_env("PATH", "/a").with_env("PATH", "/b");
        assert_eq!(spec.own_path(), Some("/b"));
    }
}
