//! From a description to a child process, and from the system's refusal to one the user can act on.
//!
//! Owns the mapping both ways. What happens to the child afterwards is `group`'s and `run`'s.
//!
//! The standard library uses `posix_spawn` (a `vfork`: its cost does not grow with our memory) as long as nothing
//! is asked that only `fork` can do. A process group and a directory keep that path; a changed `PATH` together with
//! a bare program name, a cleared environment, a uid or a closure do not. Hence `resolve`.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use tokio::process::Command;

use crate::command::CommandSpec;

/// Why a command could not be started. Nothing ran.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// The command line has no program.
    #[error("the command is empty: give at least a program")]
    Empty,
    /// There is no such program. Trying again will not help until it is installed.
    #[error("program `{program}` was not found: {hint}")]
    NotFound {
        /// As it stands in the command line.
        program: String,
        /// Where it was looked for.
        hint: String,
    },
    /// The program is there, but cannot be executed.
    #[error("`{program}` cannot be executed ({source}): check its mode bits and its first line")]
    NotExecutable {
        /// As it stands in the command line.
        program: String,
        /// What the system said.
        source: io::Error,
    },
    /// The directory to run in is not there.
    #[error("working directory `{}` is not an existing directory", cwd.display())]
    CwdMissing {
        /// The directory asked for.
        cwd: PathBuf,
    },
    /// Arguments and environment are larger than the system allows.
    #[error(
        "the arguments and environment of `{program}` are too long ({bytes} bytes given): pass data on standard input or in a file"
    )]
    TooLong {
        /// As it stands in the command line.
        program: String,
        /// The size of the arguments and of the variables that were added.
        bytes: usize,
    },
    /// The command line or environment holds something no system accepts, such as a NUL byte.
    #[error("the command line of `{program}` is invalid ({source}): it must not contain NUL bytes")]
    Invalid {
        /// As it stands in the command line.
        program: String,
        /// What the system said.
        source: io::Error,
    },
    /// The machine is short of processes, memory or file descriptors, or the file is being written. Try again later.
    #[error("`{program}` cannot be started right now: {source}")]
    Busy {
        /// As it stands in the command line.
        program: String,
        /// What the system said.
        source: io::Error,
    },
    /// Anything else the system said.
    #[error("`{program}` could not be started: {source}")]
    System {
        /// As it stands in the command line.
        program: String,
        /// What the system said.
        source: io::Error,
    },
}

impl SpawnError {
    /// Whether the same command may well start a little later.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Busy { .. })
    }
}

/// The command with piped output, in a process group of its own.
pub(crate) fn prepare(spec: &CommandSpec, stdin: Stdio) -> Result<Command, SpawnError> {
    let [program, args @ ..] = spec.argv.as_slice() else {
        return Err(SpawnError::Empty);
    };
    if program.is_empty() {
        return Err(SpawnError::Empty);
    }
    let mut command = match resolve(spec, program)? {
        Some(path) => named(&path, program),
        None => Command::new(program),
    };
    command.args(args);
    // We may have been started as part of a trace, which is not that of the work.
    for name in ["TRACEPARENT", "TRACESTATE"] {
        command.env_remove(name);
    }
    command.envs(spec.env.iter().map(|(name, value)| (name, value)));
    if let Some(cwd) = &spec.cwd {
        command.current_dir(cwd);
    }
    command.stdin(stdin);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    #[cfg(unix)]
    command.process_group(0);
    Ok(command)
}

#[cfg_attr(not(unix), expect(unused_variables, reason = "only Unix has a zeroth argument to set"))]
fn named(path: &Path, program: &str) -> Command {
    let mut command = Command::new(path);
    #[cfg(unix)]
    command.arg0(program);
    #[cfg(not(unix))]
    let command = command;
    command
}

/// Looks a bare program up on the `PATH` the command brings along, which keeps the fast way of spawning open.
fn resolve(spec: &CommandSpec, program: &str) -> Result<Option<PathBuf>, SpawnError> {
    let Some(path) = spec.own_path().filter(|_| cfg!(unix) && is_bare(program)) else {
        return Ok(None);
    };
    let base = spec.cwd.as_deref().unwrap_or(Path::new(""));
    let mut files = std::env::split_paths(path).map(|dir| base.join(dir).join(program));
    match files.find(|file| is_executable(file)) {
        // Relative to our directory now, while the child will look from its own.
        Some(file) => Ok(Some(std::path::absolute(&file).unwrap_or(file))),
        None => Err(SpawnError::NotFound {
            program: program.to_owned(),
            hint: format!("it is in no directory of the PATH this command sets ({path})"),
        }),
    }
}

fn is_bare(program: &str) -> bool {
    !program.contains(std::path::is_separator)
}

#[cfg(unix)]
fn is_executable(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    file.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn is_executable(file: &Path) -> bool {
    file.is_file()
}

/// Says what the system meant. The same error number stands for a missing directory and a missing program.
pub(crate) fn explain(spec: &CommandSpec, source: io::Error) -> SpawnError {
    let program = spec.argv.first().cloned().unwrap_or_default();
    if let Some(cwd) = &spec.cwd
        && !cwd.is_dir()
    {
        return SpawnError::CwdMissing { cwd: cwd.clone() };
    }
    if is_busy(&source) {
        return SpawnError::Busy { program, source };
    }
    if is_format(&source) {
        return SpawnError::NotExecutable { program, source };
    }
    match source.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory => {
            SpawnError::NotFound { hint: hint(spec, &program), program }
        }
        ErrorKind::PermissionDenied => SpawnError::NotExecutable { program, source },
        ErrorKind::ArgumentListTooLong => SpawnError::TooLong { program, bytes: size(spec) },
        ErrorKind::InvalidInput => SpawnError::Invalid { program, source },
        _ => SpawnError::System { program, source },
    }
}

fn hint(spec: &CommandSpec, program: &str) -> String {
    if is_bare(program) {
        let path = std::env::var("PATH").unwrap_or_default();
        return format!("install it, give its full path, or set PATH (now {path})");
    }
    let file = spec.cwd.as_deref().unwrap_or(Path::new("")).join(program);
    if file.exists() {
        "the file is there, but the interpreter its first line names is not".to_owned()
    } else {
        format!("there is no file `{}`", file.display())
    }
}

fn size(spec: &CommandSpec) -> usize {
    let args: usize = spec.argv.iter().map(|arg| arg.len() + 1).sum();
    let env = spec.env.iter().map(|(name, value)| name.len() + value.len() + 2);
    args + env.sum::<usize>()
}

#[cfg(unix)]
fn is_busy(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let busy = [Errno::AGAIN, Errno::NOMEM, Errno::MFILE, Errno::NFILE, Errno::TXTBSY];
    Errno::from_io_error(error).is_some_and(|errno| busy.contains(&errno))
}

#[cfg(not(unix))]
fn is_busy(error: &io::Error) -> bool {
    error.kind() == ErrorKind::OutOfMemory
}

#[cfg(unix)]
fn is_format(error: &io::Error) -> bool {
    rustix::io::Errno::from_io_error(error) == Some(rustix::io::Errno::NOEXEC)
}

/// `ERROR_BAD_EXE_FORMAT`.
#[cfg(not(unix))]
fn is_format(error: &io::Error) -> bool {
    error.raw_os_error() == Some(193)
}
