//! Opening the file: address, settings that every connection has, and the checks before first use.

use std::path::{Path, PathBuf};
use std::time::Duration;

use runcue_store::{Result, StoreError};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use crate::failure::{explain, explain_io, free_space};

/// Older versions can corrupt a file that two connections write and checkpoint at once.
const OLDEST_SQLITE: i32 = 3_051_003;
/// Pages in the log before they are moved into the file: 64 MiB, so that bulk work is not interrupted often.
const CHECKPOINT_PAGES: u32 = 16_384;
/// The same on a disk with little space, where the log must not take what the file needs: 4 MiB.
const CHECKPOINT_PAGES_SMALL: u32 = 1_000;
/// Space that is little, in bytes.
const LITTLE_SPACE: u64 = 1 << 30;
/// Page cache of the writing connection. SQLite walks through all of it at every commit that has moved pages
/// about, so that more of it costs more than it saves.
const WRITER_CACHE_KIB: u32 = 8 * 1024;
/// Page cache of a reading connection.
const READER_CACHE_KIB: u32 = 2 * 1024;

/// What survives what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// Acknowledged work survives a crash of every process. After a power failure the last moments may be
    /// missing; the file is never damaged.
    #[default]
    Normal,
    /// Acknowledged work survives a power failure too: every commit waits for the disk.
    Full,
}

impl Durability {
    /// Its name, as figures are published with it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "normal",
            Self::Full => "full",
        }
    }
}

/// How a file is opened.
#[derive(Clone, Debug)]
pub struct Options {
    /// The file.
    pub path: PathBuf,
    /// What survives what.
    pub durability: Durability,
}

impl Options {
    /// A file in the default mode.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), durability: Durability::default() }
    }

    /// From `sqlite:PATH` or `sqlite:PATH?durability=full`.
    pub fn parse(url: &str) -> Result<Self> {
        let bad = |why: &str| StoreError::BadAddress { place: url.to_owned(), why: why.to_owned() };
        let rest = url.strip_prefix("sqlite:").unwrap_or(url);
        let rest = rest.strip_prefix("//").unwrap_or(rest);
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        if path.is_empty() {
            return Err(bad("a path is missing; write sqlite:queue.db"));
        }
        let mut options = Self::new(path);
        for part in query.split('&').filter(|part| !part.is_empty()) {
            options.durability = match part {
                "durability=normal" => Durability::Normal,
                "durability=full" => Durability::Full,
                _ => return Err(bad("the only setting is durability=normal or durability=full")),
            };
        }
        Ok(options)
    }

    /// The file as messages name it.
    pub fn place(&self) -> String {
        self.path.display().to_string()
    }
}

/// The connection that writes.
pub fn writer(options: &Options) -> Result<Connection> {
    let place = options.place();
    prepare_directory(&options.path, &place)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection =
        Connection::open_with_flags(&options.path, flags).map_err(|e| explain(&place, &e))?;
    if rusqlite::version_number() < OLDEST_SQLITE {
        let why = format!("SQLite {} is too old; 3.51.3 or newer is needed", rusqlite::version());
        return Err(StoreError::BadAddress { place, why });
    }
    let mut settle = || -> rusqlite::Result<()> {
        // Several processes write in turns of about a millisecond: waiting in short steps keeps them fair.
        connection.busy_handler(Some(wait_a_little))?;
        let mode: String =
            connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))?;
        if mode != "wal" {
            tracing::warn!(
                place,
                mode,
                "write-ahead logging is not possible here; several processes will wait for each other"
            );
        }
        connection.pragma_update(None, "synchronous", options.durability.as_str())?;
        connection.pragma_update(None, "foreign_keys", true)?;
        connection.pragma_update(None, "wal_autocheckpoint", checkpoint_pages(&options.path))?;
        connection.pragma_update(None, "cache_size", -i64::from(WRITER_CACHE_KIB))?;
        connection.pragma_update(None, "temp_store", "memory")?;
        connection.pragma_update(None, "journal_size_limit", 64 * 1024 * 1024)
    };
    // A file that becomes one with a log while another process is at it is busy at once: SQLite does not ask the handler there.
    let mut tries = 0;
    while let Err(error) = settle() {
        if error.sqlite_error_code() != Some(ErrorCode::DatabaseBusy) || !wait_a_little(tries) {
            return Err(explain(&place, &error));
        }
        tries += 1;
    }
    keep_plans(&connection).map_err(|error| explain(&place, &error))?;
    connection.set_prepared_statement_cache_capacity(128);
    Ok(connection)
}

/// A connection that reads.
pub fn reader(options: &Options) -> Result<Connection> {
    let open = || -> rusqlite::Result<Connection> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(&options.path, flags)?;
        connection.busy_timeout(Duration::from_millis(5000))?;
        keep_plans(&connection)?;
        connection.pragma_update(None, "query_only", true)?;
        connection.pragma_update(None, "cache_size", -i64::from(READER_CACHE_KIB))?;
        connection.set_prepared_statement_cache_capacity(64);
        Ok(connection)
    };
    open().map_err(|error| explain(&options.place(), &error))
}

/// Without this SQLite plans a statement anew whenever a bound value changes, which costs more than
/// running it.
fn keep_plans(connection: &Connection) -> rusqlite::Result<()> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).map(drop)
}

fn checkpoint_pages(path: &Path) -> u32 {
    match free_space(path) {
        Some(free) if free < LITTLE_SPACE => CHECKPOINT_PAGES_SMALL,
        _ => CHECKPOINT_PAGES,
    }
}

fn prepare_directory(path: &Path, place: &str) -> Result<()> {
    let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) else {
        return Ok(());
    };
    std::fs::create_dir_all(parent)
        .map_err(|error| explain_io(place, &format!("its directory {}", parent.display()), &error))
}

fn wait_a_little(tries: i32) -> bool {
    let millis = u64::try_from(tries).unwrap_or(0).clamp(1, 5);
    std::thread::sleep(Duration::from_millis(millis));
    tries < 12_000
}
