//! Reading the file of `runcue run FILE`: YAML, TOML or JSON into checked services, tasks and jobs.
//!
//! ```text
//! text ──tree──▶ maps, lists, scalars ──read──▶ sections ──expand──▶ jobs ──check──▶ RunFile
//! ```
//!
//! Owns the format of the file and every message about it. It knows no store and no engine: the
//! caller turns a [`RunFile`] into submissions. Reading starts no process and touches no file but
//! the one named and the directories of its `glob` patterns.
//!
//! Bounds: [`MAX_FILE_BYTES`] before anything is read, nesting and aliases in `tree`, [`MAX_JOBS`]
//! before anything is expanded.

mod check;
pub mod duration;
mod error;
mod expand;
pub(crate) mod fields;
mod fingerprint;
mod glob;
mod invocation;
mod model;
pub mod rate;
mod read;
mod shell;
mod suggest;
pub mod template;
pub(crate) mod tree;

use std::fs;
use std::io::Read;
use std::path::Path;

pub(crate) use error::Problems;
pub use error::{FileError, MAX_PROBLEMS, Problem};
pub use expand::MAX_JOBS;
pub(crate) use fingerprint::Fnv;
pub use invocation::{Invocation, JobView, NAMES};
pub use model::{
    Backoff, Command, Cost, JobDef, KeyLimits, Requires, RetryDef, RetryOn, RunFile, ScheduleDef,
    ServiceDef, TaskDef,
};
pub use rate::Rate;
pub use shell::quote;
pub use template::{ShellTemplate, Template};
pub use tree::Format;

/// The largest file that is read.
pub const MAX_FILE_BYTES: u64 = 16 * 1024 * 1024;

/// Reads and checks a run file. The notation follows from the extension, or else from the text.
pub fn load(path: &Path) -> Result<RunFile, FileError> {
    let file = path.display().to_string();
    let text = read_text(path)?;
    let format = Format::of(path).unwrap_or_else(|| Format::sniff(&text));
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    parse_in(&text, format, &file, directory)
}

/// Reads and checks the text of a run file; `name` stands for the file in messages. Patterns in
/// `glob` are relative to the current directory.
pub fn parse(text: &str, format: Format, name: &str) -> Result<RunFile, FileError> {
    parse_in(text, format, name, Path::new("."))
}

/// Like [`parse`], with `glob` patterns relative to `directory`.
pub fn parse_in(
    text: &str,
    format: Format,
    name: &str,
    directory: &Path,
) -> Result<RunFile, FileError> {
    let root = parse_tree(text, format, name)?;
    let mut problems = Problems::new(name);
    let mut sections = read::file(&root, &mut problems);
    drop(root);
    let mut expanded = expand::expand(&mut sections, directory, &mut problems);
    let schedules = expand::schedules(&mut sections, &mut problems);
    check::check(&sections, &mut expanded, &schedules, &mut problems);
    problems.finish(RunFile {
        name: sections.name,
        store: sections.store,
        queue: sections.queue,
        max_parallel: sections.max_parallel,
        services: sections.services,
        tasks: sections.tasks,
        schedules: expand::scheduled(sections.schedules, schedules),
        jobs: expanded.jobs,
    })
}

/// The tree of a text, with the error in the words of a file.
pub(crate) fn parse_tree(text: &str, format: Format, name: &str) -> Result<tree::Node, FileError> {
    tree::parse(text, format).map_err(|error| FileError::Syntax {
        file: name.to_owned(),
        line: (error.line > 0).then_some(error.line),
        message: error.message,
    })
}

/// The text of a file that is small enough and UTF-8.
pub(crate) fn read_text(path: &Path) -> Result<String, FileError> {
    let file = || path.display().to_string();
    let read = |source| FileError::Read { file: file(), source };
    let too_large = |size| FileError::TooLarge { file: file(), size, limit: MAX_FILE_BYTES };
    let opened = fs::File::open(path).map_err(read)?;
    let size = opened.metadata().map_err(read)?.len();
    if size > MAX_FILE_BYTES {
        return Err(too_large(size));
    }
    // A pipe has no size, and a file may grow while it is read.
    let mut bytes = Vec::new();
    opened.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(read)?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(too_large(bytes.len() as u64));
    }
    String::from_utf8(bytes).map_err(|error| {
        let good = error.utf8_error().valid_up_to();
        let breaks = error.as_bytes()[..good].iter().filter(|b| **b == b'\n');
        FileError::NotUtf8 { file: file(), line: breaks.count() + 1 }
    })
}

impl Format {
    /// The notation that a path's extension stands for.
    #[must_use]
    pub fn of(path: &Path) -> Option<Self> {
        let extension = path.extension()?.to_str()?.to_ascii_lowercase();
        match extension.as_str() {
            "yaml" | "yml" => Some(Self::Yaml),
            "toml" => Some(Self::Toml),
            "json" => Some(Self::Json),
            _ => None,
        }
    }

    /// A guess from the text: JSON starts with a brace; TOML has `[section]` or `key = value` where
    /// YAML has `key: value`.
    #[must_use]
    pub fn sniff(text: &str) -> Self {
        let mut lines = text
            .lines()
            .map(|line| line.trim_start_matches('\u{feff}').trim())
            .filter(|line| !line.is_empty() && !line.starts_with('#'));
        let Some(first) = lines.next() else {
            return Self::Yaml;
        };
        if first.starts_with('{') {
            return Self::Json;
        }
        let key = first.find(['=', ':']).map(|at| &first[at..=at]);
        if first.starts_with('[') || key == Some("=") {
            return Self::Toml;
        }
        Self::Yaml
    }
}

#[cfg(test)]
mod tests;
