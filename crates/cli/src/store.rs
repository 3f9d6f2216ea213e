//! Opens a store by its URL. Owns which schemes there are and what is said of one that cannot be used.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use runcue_store::{MemoryStore, Store};
use runcue_store_sqlite::{Durability, Options, SqliteStore};

use crate::nearest;
use crate::trouble::Trouble;

/// Schemes that can be opened.
pub const SCHEMES: [&str; 2] = ["sqlite:", "memory:"];
/// Schemes that are planned.
const LATER: [&str; 5] = ["postgres", "postgresql", "redis", "rediss", "lmdb"];

/// Where a store is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A SQLite file, and what an acknowledged write survives if the URL says so.
    Sqlite(PathBuf, Option<Durability>),
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
            "sqlite" => {
                let rest = rest.strip_prefix("//").unwrap_or(rest);
                let (path, settings) = rest.split_once('?').unwrap_or((rest, ""));
                Self::file(path, url)?.with_settings(settings, url)
            }
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
        Ok(Self::Sqlite(PathBuf::from(path), None))
    }

    fn with_settings(self, settings: &str, url: &str) -> Result<Self, Trouble> {
        let durability = match settings {
            "" => return Ok(self),
            "durability=normal" => Durability::Normal,
            "durability=full" => Durability::Full,
            _ => {
                let trouble = Trouble::usage(format!("the store {url:?} has an unknown setting"));
                return Err(trouble.help("the settings are durability=normal and durability=full"));
            }
        };
        Ok(self.or_durability(Some(durability)))
    }

    /// The same, with what it says nothing about.
    #[must_use]
    pub fn or_durability(self, durability: Option<Durability>) -> Self {
        match self {
            Self::Sqlite(path, said) => Self::Sqlite(path, said.or(durability)),
            other => other,
        }
    }

    /// The same from wherever one stands.
    #[must_use]
    pub fn absolute(&self) -> Self {
        match self {
            Self::Sqlite(path, durability) => {
                let whole = std::path::absolute(path).unwrap_or_else(|_| path.clone());
                Self::Sqlite(whole, *durability)
            }
            Self::Memory => Self::Memory,
        }
    }

    /// The file, if it is one.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::Sqlite(path, _) => Some(path),
            Self::Memory => None,
        }
    }

    /// Opens the store.
    pub fn open(&self, access: Access) -> Result<Arc<dyn Store>, Trouble> {
        match self {
            Self::Memory => Ok(Arc::new(MemoryStore::new())),
            Self::Sqlite(path, durability) => {
                ready(path, access)?;
                let mut options = Options::new(path);
                options.durability = durability.unwrap_or_default();
                Ok(Arc::new(SqliteStore::open(options)?))
            }
        }
    }
}

/// Refuses to make a file that was only to be looked at.
fn ready(path: &Path, access: Access) -> Result<(), Trouble> {
    if access == Access::Create || path.exists() {
        return Ok(());
    }
    let says = format!("there is no queue at {}", path.display());
    let help = "`runcue add -- COMMAND` makes one here; --store names one elsewhere";
    Err(Trouble::failed(says).help(help))
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
            Self::Sqlite(path, _) => write!(f, "sqlite:{}", path.display()),
            Self::Memory => f.write_str("memory:"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sqlite(path: &str) -> Address {
        Address::Sqlite(PathBuf::from(path), None)
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
        assert!(told("sqlite:x?mode=ro").contains("durability=full"));
    }
}
