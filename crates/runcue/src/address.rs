//! Where a store is, and the one place that opens a store by its URL. A kind of store that this build leaves
//! out is known by name, so that whoever asks for it is told how to get it.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use runcue_store::{MemoryStore, Store, StoreError};

/// A kind of store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A SQLite file.
    Sqlite,
    /// An LMDB directory.
    Lmdb,
    /// A PostgreSQL database.
    Postgres,
    /// A Redis server.
    Redis,
    /// This process; gone with it.
    Memory,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 5] =
        [Self::Sqlite, Self::Lmdb, Self::Postgres, Self::Redis, Self::Memory];

    /// The schemes of its addresses, the usual one first.
    pub fn schemes(self) -> &'static [&'static str] {
        match self {
            Self::Sqlite => &["sqlite"],
            Self::Lmdb => &["lmdb"],
            Self::Postgres => &["postgres", "postgresql"],
            Self::Redis => &["redis", "rediss", "redis+unix"],
            Self::Memory => &["memory"],
        }
    }

    /// What an address looks like.
    pub fn example(self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite:queue.db",
            Self::Lmdb => "lmdb:queue",
            Self::Postgres => "postgres://user@host/database",
            Self::Redis => "redis://host:6379",
            Self::Memory => "memory:",
        }
    }

    /// Whether this build can open it.
    pub fn is_built(self) -> bool {
        match self {
            Self::Sqlite => cfg!(feature = "sqlite"),
            Self::Lmdb => cfg!(feature = "lmdb"),
            Self::Postgres => cfg!(feature = "postgres"),
            Self::Redis => cfg!(feature = "redis"),
            Self::Memory => true,
        }
    }

    /// The kinds that this build can open.
    pub fn built() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(|kind| kind.is_built())
    }

    /// Whether it is a file or a directory of this machine.
    pub fn is_on_disk(self) -> bool {
        matches!(self, Self::Sqlite | Self::Lmdb)
    }

    fn of(scheme: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.schemes().contains(&scheme))
    }
}

/// Why an address cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum AddressError {
    /// There is no such kind of store.
    #[error("{scheme}: is no kind of store; write {}", examples())]
    Unknown {
        /// What was given.
        scheme: String,
    },
    /// This build leaves that kind out.
    #[error("{scheme}: stores are not part of this build; build it with --features {feature}")]
    NotBuilt {
        /// What was given.
        scheme: String,
        /// The feature that brings it.
        feature: &'static str,
    },
    /// The rest of the address is not right.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<AddressError> for StoreError {
    fn from(error: AddressError) -> Self {
        match error {
            AddressError::Store(error) => error,
            AddressError::Unknown { ref scheme } | AddressError::NotBuilt { ref scheme, .. } => {
                let (place, said) = (format!("{scheme}:"), error.to_string());
                let why = said.strip_prefix(&place).unwrap_or(&said).trim_start().to_owned();
                Self::BadAddress { place, why }
            }
        }
    }
}

fn examples() -> String {
    Kind::built().map(Kind::example).collect::<Vec<_>>().join(" or ")
}

/// Where a store is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    kind: Kind,
    /// What stands between the scheme and the settings: a path, or the rest of a server's address.
    place: String,
    /// The scheme as it was written.
    scheme: String,
    /// What stands behind the question mark.
    settings: String,
}

impl Address {
    /// Reads a URL, or a bare path, which is a SQLite file's.
    pub fn parse(url: &str) -> Result<Self, AddressError> {
        let (scheme, rest) = split_scheme(url).unwrap_or(("sqlite", url));
        let kind =
            Kind::of(scheme).ok_or_else(|| AddressError::Unknown { scheme: scheme.to_owned() })?;
        if !kind.is_built() {
            let (scheme, feature) = (scheme.to_owned(), kind.schemes()[0]);
            return Err(AddressError::NotBuilt { scheme, feature });
        }
        let rest = match kind.is_on_disk() {
            true => rest.strip_prefix("//").unwrap_or(rest),
            false => rest,
        };
        let (place, settings) = rest.split_once('?').unwrap_or((rest, ""));
        let address = Self {
            kind,
            place: place.to_owned(),
            scheme: scheme.to_owned(),
            settings: settings.to_owned(),
        };
        address.check()?;
        Ok(address)
    }

    /// This process's own memory.
    pub fn memory() -> Self {
        let (place, settings) = (String::new(), String::new());
        Self { kind: Kind::Memory, place, scheme: "memory".to_owned(), settings }
    }

    /// Its kind.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The file or the directory, if it is one.
    pub fn path(&self) -> Option<&Path> {
        self.kind.is_on_disk().then(|| Path::new(&self.place))
    }

    /// Whether something is there already, as far as can be told without opening it.
    pub fn exists(&self) -> bool {
        match (self.kind, self.path()) {
            (Kind::Lmdb, Some(path)) => path.join("data.mdb").exists(),
            (_, Some(path)) => path.exists(),
            (_, None) => true,
        }
    }

    /// The same, with a durability where it says none and its kind has one to choose.
    #[must_use]
    pub fn or_durability(mut self, durability: Option<&str>) -> Self {
        let said = self.settings.split('&').any(|setting| setting.starts_with("durability="));
        if let Some(word) = durability.filter(|_| self.kind.is_on_disk() && !said) {
            let and = if self.settings.is_empty() { "" } else { "&" };
            self.settings = format!("{}{and}durability={word}", self.settings);
        }
        self
    }

    /// The same, with a relative path taken as one below a directory.
    #[must_use]
    pub fn below(mut self, directory: &Path) -> Self {
        if let Some(path) = self.path().filter(|path| path.is_relative()) {
            self.place = directory.join(path).to_string_lossy().into_owned();
        }
        self
    }

    /// The same from wherever one stands.
    #[must_use]
    pub fn absolute(self) -> Self {
        let here: PathBuf = std::env::current_dir().unwrap_or_default();
        self.below(&here)
    }

    /// The whole URL, secrets included. What is shown is [`fmt::Display`].
    pub fn url(&self) -> String {
        let Self { scheme, place, settings, .. } = self;
        let mark = if settings.is_empty() { "" } else { "?" };
        format!("{scheme}:{place}{mark}{settings}")
    }

    /// Opens the store, making it if need be.
    pub fn open(&self) -> Result<Arc<dyn Store>, StoreError> {
        match self.kind {
            Kind::Memory => Ok(Arc::new(MemoryStore::new())),
            #[cfg(feature = "sqlite")]
            Kind::Sqlite => Ok(Arc::new(runcue_store_sqlite::SqliteStore::open_url(&self.url())?)),
            #[cfg(feature = "lmdb")]
            Kind::Lmdb => Ok(Arc::new(runcue_store_lmdb::LmdbStore::open_url(&self.url())?)),
            #[cfg(feature = "postgres")]
            Kind::Postgres => Ok(Arc::new(runcue_store_postgres::open_url(&self.url())?)),
            #[cfg(feature = "redis")]
            Kind::Redis => Ok(Arc::new(runcue_store_redis::open_url(&self.url())?)),
            #[cfg(not(all(
                feature = "sqlite",
                feature = "lmdb",
                feature = "postgres",
                feature = "redis"
            )))]
            _ => {
                let (scheme, feature) = (self.scheme.clone(), self.kind.schemes()[0]);
                Err(AddressError::NotBuilt { scheme, feature }.into())
            }
        }
    }

    /// Copies the queue into a new SQLite file, as it is at one instant, if its kind can do that by itself.
    /// Answers whether it can.
    pub fn backup(&self, file: &Path) -> Result<bool, StoreError> {
        match self.kind {
            #[cfg(feature = "sqlite")]
            Kind::Sqlite => runcue_store_sqlite::backup(&self.url(), file).map(|()| true),
            _ => {
                let _ = file;
                Ok(false)
            }
        }
    }

    /// Makes the schema of a store that has one to be made beforehand, or brings it up to date. Answers the
    /// version that was found, zero for none, and the one it has now; nothing for a kind that sees to that
    /// whenever it is opened.
    pub async fn migrate(&self) -> Result<Option<(u32, u32)>, StoreError> {
        match self.kind {
            #[cfg(feature = "postgres")]
            Kind::Postgres => {
                let found = runcue_store_postgres::migrate(&self.url()).await?;
                Ok(Some((found, runcue_store_postgres::SCHEMA)))
            }
            _ => Ok(None),
        }
    }

    /// Whether the settings mean something, before anything is made.
    fn check(&self) -> Result<(), StoreError> {
        match self.kind {
            #[cfg(feature = "sqlite")]
            Kind::Sqlite => runcue_store_sqlite::Options::parse(&self.url()).map(drop),
            #[cfg(feature = "lmdb")]
            Kind::Lmdb => runcue_store_lmdb::Options::parse(&self.url()).map(drop),
            #[cfg(feature = "postgres")]
            Kind::Postgres => runcue_store_postgres::Options::parse(&self.url()).map(drop),
            #[cfg(feature = "redis")]
            Kind::Redis => runcue_store_redis::Options::parse(&self.url()).map(drop),
            _ => Ok(()),
        }
    }
}

/// The address as it is shown: without its settings, and without a password.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scheme, place) = (&self.scheme, &self.place);
        let secret = match self.kind.is_on_disk() {
            true => None,
            false => place.rsplit_once('@').and_then(|(user, host)| {
                let (user, _) = user.strip_prefix("//").unwrap_or(user).split_once(':')?;
                Some((user, host))
            }),
        };
        match secret {
            Some((user, host)) => write!(f, "{scheme}://{user}:***@{host}"),
            None => write!(f, "{scheme}:{place}"),
        }
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

/// Opens a store by its address, making it if need be: `sqlite:queue.db`, a bare path, `lmdb:queue`, `memory:`.
pub fn open(url: &str) -> Result<Arc<dyn Store>, StoreError> {
    Address::parse(url)?.open()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_address_is_refused_with_those_that_would_do() {
        let error = open("mysql://queue").err().unwrap().to_string();
        assert!(error.contains("mysql:") && error.contains("memory:"), "{error}");
        assert!(open("memory:").is_ok());
    }

    #[test]
    fn a_kind_that_is_left_out_is_named_with_the_feature_that_brings_it() {
        for kind in Kind::ALL.into_iter().filter(|kind| !kind.is_built()) {
            let error = Address::parse(kind.example()).unwrap_err();
            assert!(matches!(error, AddressError::NotBuilt { .. }), "{error:?}");
            let feature = format!("--features {}", kind.schemes()[0]);
            assert!(error.to_string().contains(&feature), "{error}");
            assert!(StoreError::from(error).to_string().contains(&feature));
        }
    }

    #[test]
    #[cfg(feature = "sqlite")]
    fn a_path_needs_no_scheme_and_settings_are_kept() {
        for (url, path) in [
            ("queue.db", "queue.db"),
            ("./a:b/queue.db", "./a:b/queue.db"),
            ("C:\\queue.db", "C:\\queue.db"),
            ("sqlite:queue.db", "queue.db"),
            ("sqlite:///var/queue.db", "/var/queue.db"),
        ] {
            let address = Address::parse(url).unwrap();
            assert_eq!((address.kind(), address.path()), (Kind::Sqlite, Some(Path::new(path))));
        }
        let address = Address::parse("q.db?durability=full").unwrap().below(Path::new("/srv"));
        assert_eq!(address.url(), "sqlite:/srv/q.db?durability=full");
        assert_eq!(address.to_string(), "sqlite:/srv/q.db");
        assert_eq!(address.clone().or_durability(Some("normal")), address);
        let plain = Address::parse("q.db").unwrap().or_durability(Some("full"));
        assert_eq!(plain.url(), "sqlite:q.db?durability=full");
        assert!(Address::parse("sqlite:").unwrap_err().to_string().contains("path is missing"));
        assert!(Address::parse("q.db?mode=ro").unwrap_err().to_string().contains("durability"));
    }

    #[test]
    #[cfg(feature = "lmdb")]
    fn an_lmdb_directory_is_opened_by_its_address() {
        let directory = tempfile::tempdir().unwrap();
        let url = format!("lmdb:{}?size=16MiB", directory.path().join("q").display());
        let address = Address::parse(&url).unwrap();
        assert!(!address.exists());
        let store = address.open().unwrap();
        assert!(address.exists());
        assert!(store.durability().starts_with("normal"));
        assert!(Address::parse("lmdb:q?size=much").unwrap_err().to_string().contains("16GiB"));
    }

    #[test]
    fn a_password_is_not_shown() {
        let shown = |place: &str| {
            let (place, settings) = (place.to_owned(), String::new());
            let address =
                Address { kind: Kind::Postgres, place, scheme: "postgres".to_owned(), settings };
            (address.to_string(), address.url())
        };
        let (told, url) = shown("//me:s3c:r@t@host:5432/db");
        assert_eq!(told, "postgres://me:***@host:5432/db");
        assert_eq!(url, "postgres://me:s3c:r@t@host:5432/db");
        assert_eq!(shown("//host:5432/db").0, "postgres://host:5432/db");
    }
}
