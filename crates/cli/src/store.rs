//! Opens a store by its URL. Owns which schemes there are and what is said of one that cannot be used.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use runcue_store::{MemoryStore, Store};

use crate::nearest;
use crate::trouble::Trouble;

/// Schemes that can be opened.
pub const SCHEMES: [&str; 2] = ["sqlite:", "memory:"];
/// Schemes that are planned.
const LATER: [&str; 5] = ["postgres", "postgresql", "redis", "rediss", "lmdb"];

/// Where a store is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A SQLite file.
    Sqlite(PathBuf),
    /// This process; gone with it.
    Memory,
}

/// Whether a store may be made by opening it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// It must be there: a verb that only looks makes no queue by accident.
    Existing,
    /// It is made if need be.
    Create,
}

impl Address {
    /// Reads a URL, or a bare path.
    pub fn parse(url: &str) -> Result<Self, Trouble> {
        let Some((scheme, rest)) = split_scheme(url) else {
            return Self::file(url, url);
        };
        match scheme {
            "sqlite" => Self::file(rest.strip_prefix("//").unwrap_or(rest), url),
            "memory" => Ok(Self::Memory),
            _ if LATER.contains(&scheme) => {
                Err(Trouble::failed(format!("{scheme}: stores are not in this build yet"))
                    .help("use a SQLite file for now: --store sqlite:queue.db"))
            }
            _ => Err(unknown(scheme)),
        }
    }

    fn file(path: &str, url: &str) -> Result<Self, Trouble> {
        if path.is_empty() {
            let trouble = Trouble::usage(format!("the store {url:?} names no file"));
            return Err(trouble.help("write sqlite:PATH, for example sqlite:.runcue/queue.db"));
        }
        Ok(Self::Sqlite(PathBuf::from(path)))
    }

    /// The file, if it is one.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::Sqlite(path) => Some(path),
            Self::Memory => None,
        }
    }

    /// Opens the store.
    pub async fn open(&self, access: Access) -> Result<Arc<dyn Store>, Trouble> {
        match self {
            Self::Memory => Ok(Arc::new(MemoryStore::new())),
            Self::Sqlite(path) => {
                ready(path, access)?;
                open_sqlite(path).await
            }
        }
    }
}

async fn open_sqlite(path: &Path) -> Result<Arc<dyn Store>, Trouble> {
    Err(Trouble::failed(format!("{}: the SQLite store is not in this build yet", path.display())))
}

/// Makes the directory of a new file, or refuses to make one.
fn ready(path: &Path, access: Access) -> Result<(), Trouble> {
    if path.exists() {
        return Ok(());
    }
    if access == Access::Existing {
        let says = format!("there is no queue at {}", path.display());
        return Err(Trouble::failed(says)
            .help("`runcue add -- COMMAND` makes one here; --store names one elsewhere"));
    }
    match path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        Some(parent) => std::fs::create_dir_all(parent).map_err(|error| {
            let says = format!("the directory {} cannot be made: {error}", parent.display());
            Trouble::failed(says).help("name another file with --store sqlite:PATH")
        }),
        None => Ok(()),
    }
}

/// The scheme of a URL. A single letter is a drive, and a colon after a slash belongs to a path.
fn split_scheme(url: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = url.split_once(':')?;
    let is_scheme = scheme.len() > 1
        && scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
    is_scheme.then_some((scheme, rest))
}

fn unknown(scheme: &str) -> Trouble {
    let known = ["sqlite", "memory", "postgres", "redis", "lmdb"];
    let near = nearest::nearest(scheme, known);
    let near = near.map(|word| format!("did you mean {word}:? ")).unwrap_or_default();
    Trouble::usage(format!("{scheme}: is no kind of store"))
        .help(format!("{near}The kinds are {}, or a bare path", SCHEMES.join(", ")))
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite(path) => write!(f, "sqlite:{}", path.display()),
            Self::Memory => f.write_str("memory:"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sqlite(path: &str) -> Address {
        Address::Sqlite(PathBuf::from(path))
    }

    #[test]
    fn a_path_needs_no_scheme() {
        for (url, path) in [
            ("queue.db", "queue.db"),
            ("./a:b/queue.db", "./a:b/queue.db"),
            ("C:\\queue.db", "C:\\queue.db"),
            ("sqlite:queue.db", "queue.db"),
            ("sqlite:///var/queue.db", "/var/queue.db"),
        ] {
            assert_eq!(Address::parse(url).unwrap(), sqlite(path), "{url}");
        }
    }

    #[test]
    fn what_cannot_be_opened_says_so_and_names_what_can() {
        let told = |url| match Address::parse(url).unwrap_err() {
            Trouble::Told { says, help, .. } => format!("{says}; {}", help.unwrap()),
            Trouble::ReaderGone => unreachable!("nothing was written"),
        };
        assert!(told("postgres://db/x").contains("not in this build yet"));
        assert!(told("redis://h").contains("not in this build yet"));
        assert!(told("lmdb:dir").contains("not in this build yet"));
        assert!(told("mysql://db").contains("sqlite:, memory:"));
        assert!(told("sqlit:x").contains("did you mean sqlite:?"));
        assert!(told("sqlite:").contains("names no file"));
    }
}
