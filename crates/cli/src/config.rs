//! The config file: found in the project, else in the user's directory, read and checked.
//!
//! Owns where the file is looked for, `${NAME}` in its values, and which layer decides the store.
//! The environment comes in as a function, so that nothing here depends on the machine.

mod locate;
mod substitute;

use std::path::{Path, PathBuf};
use std::time::Duration;

pub use locate::{Found, locate};

use crate::runfile::fields::Fields;
use crate::runfile::{FileError, Format, Problems, parse_tree, read_text};

/// The store when nobody says anything.
pub const DEFAULT_STORE: &str = "sqlite:.runcue/queue.db";
/// The variable that names the store.
pub const STORE_VARIABLE: &str = "RUNCUE_STORE";

/// Looks up an environment variable.
pub type Env<'a> = &'a dyn Fn(&str) -> Option<String>;

const FIELDS: [&str; 5] = ["store", "jobs", "durability", "log", "retention"];
const KEEP_FIELDS: [&str; 2] = ["age", "count"];
const RETENTION_FIELDS: [&str; 7] =
    ["age", "count", "completed", "failed", "cancelled", "events", "usage"];

/// What a config file says. What it leaves out is `None`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Config {
    /// The file it was read from.
    pub path: Option<PathBuf>,
    /// The store URL; a relative path in it is relative to the project of the file.
    pub store: Option<String>,
    /// How many jobs may run at once.
    pub jobs: Option<u32>,
    /// What an acknowledged write survives.
    pub durability: Option<Durability>,
    /// The log filter, for example `info` or `runcue=debug`.
    pub log: Option<String>,
    /// How long finished jobs are kept.
    pub retention: Option<Retention>,
}

/// What an acknowledged write survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// The death of the process.
    Normal,
    /// The loss of power.
    Full,
}

/// How long finished jobs are kept: for all states, and for single ones.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Retention {
    /// For states that say nothing themselves.
    pub all: Keep,
    /// Completed jobs.
    pub completed: Option<Keep>,
    /// Failed and quarantined jobs.
    pub failed: Option<Keep>,
    /// Cancelled jobs.
    pub cancelled: Option<Keep>,
    /// Events.
    pub events: Option<Keep>,
    /// How long the log of service use goes back.
    pub usage: Option<Duration>,
}

/// How long and how many.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Keep {
    /// Not longer than this.
    pub age: Option<Duration>,
    /// Not more than this.
    pub count: Option<u64>,
}

/// Finds and reads the config file for the directory `start`; defaults if there is none.
pub fn load(start: &Path, env: Env<'_>) -> Result<Config, FileError> {
    let Some(found) = locate(start, env) else {
        return Ok(Config::default());
    };
    let text = read_text(&found.path)?;
    let format = Format::of(&found.path).unwrap_or(Format::Toml);
    let mut config = parse(&text, format, &found.path.display().to_string(), env)?;
    if let (Some(project), Some(store)) = (&found.project, &config.store) {
        config.store = Some(anchored(store, project, start));
    }
    config.path = Some(found.path);
    Ok(config)
}

/// Reads the text of a config file; `name` stands for the file in messages.
pub fn parse(text: &str, format: Format, name: &str, env: Env<'_>) -> Result<Config, FileError> {
    let mut root = parse_tree(text, format, name)?;
    let mut problems = Problems::new(name);
    substitute::fill(&mut root, "", env, &mut problems);
    if problems.count() > 0 {
        return Err(problems.into_error());
    }
    let mut config = Config::default();
    if let Some(fields) = Fields::open(&root, "", &FIELDS, &mut problems) {
        config.store = fields.word("store", &mut problems);
        config.jobs = fields.count("jobs", &mut problems);
        config.durability = durability(&fields, &mut problems);
        config.log = fields.word("log", &mut problems);
        config.retention = retention(&fields, &mut problems);
    }
    problems.finish(config)
}

fn durability(fields: &Fields<'_>, problems: &mut Problems) -> Option<Durability> {
    match fields.text("durability", problems)?.as_str() {
        "normal" => Some(Durability::Normal),
        "full" => Some(Durability::Full),
        other => {
            let message = format!(
                "is \"{other}\"; it must be normal (survives a crash of the process) or full (survives power loss)"
            );
            fields.refuse("durability", problems, message);
            None
        }
    }
}

fn retention(fields: &Fields<'_>, problems: &mut Problems) -> Option<Retention> {
    let node = fields.get("retention")?;
    let fields = Fields::open(node, "retention", &RETENTION_FIELDS, problems)?;
    let state = |name: &str, problems: &mut Problems| {
        let node = fields.get(name)?;
        let fields = Fields::open(node, &fields.path(name), &KEEP_FIELDS, problems)?;
        Some(keep(&fields, problems))
    };
    Some(Retention {
        all: keep(&fields, problems),
        completed: state("completed", problems),
        failed: state("failed", problems),
        cancelled: state("cancelled", problems),
        events: state("events", problems),
        usage: fields.span("usage", problems),
    })
}

fn keep(fields: &Fields<'_>, problems: &mut Problems) -> Keep {
    Keep {
        age: fields.span("age", problems),
        count: fields
            .whole("count", 1, i64::MAX, problems)
            .and_then(|count| u64::try_from(count).ok()),
    }
}

/// A store on a relative path means the project's directory, wherever below it the command runs.
fn anchored(store: &str, project: &Path, start: &Path) -> String {
    if project == start {
        return store.to_owned();
    }
    for scheme in ["sqlite:", "lmdb:"] {
        if let Some(path) = store.strip_prefix(scheme) {
            let special = path.is_empty() || path.starts_with([':', '/']);
            return match special {
                true => store.to_owned(),
                false => format!("{scheme}{}", project.join(path).display()),
            };
        }
    }
    store.to_owned()
}

/// Who decided which store to use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreFrom {
    /// Nobody: [`DEFAULT_STORE`].
    Default,
    /// The run file or the config file.
    File,
    /// [`STORE_VARIABLE`].
    Env,
    /// The command line.
    Flag,
}

/// The store to use: the flag before the environment before the file before the default. An empty
/// value counts as not given.
#[must_use]
pub fn resolve_store(flag: Option<&str>, env: Env<'_>, file: Option<&str>) -> (String, StoreFrom) {
    let variable = env(STORE_VARIABLE);
    let layers =
        [(flag, StoreFrom::Flag), (variable.as_deref(), StoreFrom::Env), (file, StoreFrom::File)];
    for (value, from) in layers {
        if let Some(url) = value.map(str::trim).filter(|url| !url.is_empty()) {
            return (url.to_owned(), from);
        }
    }
    (DEFAULT_STORE.to_owned(), StoreFrom::Default)
}

#[cfg(test)]
mod tests;
