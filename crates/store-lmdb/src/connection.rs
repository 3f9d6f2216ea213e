//! Opening the directory: address, settings, and the one environment that a process has of it.
//!
//! LMDB allows a process to open an environment only once, so all stores of a process on the same directory
//! share it. It is closed when the last of them is dropped.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use heed::types::Bytes;
use heed::{Database, Env, EnvFlags, EnvOpenOptions, WithoutTls};
use runcue_store::{Result, StoreError};

use crate::failure::explain;
use crate::format;
use crate::view::View;

/// The map's size unless told otherwise. The file is only as large as what is in it; this is the most it can
/// become.
const SIZE: u64 = 64 << 30;
/// The least that makes sense.
const LEAST: u64 = 1 << 20;
/// The size must be a multiple of a page; this is one of every machine's.
const STEP: u64 = 64 << 10;
/// Processes and threads that may read at once.
const READERS: u32 = 510;
/// Bytes of the lock file: a line of 64 for each reader, and what is said before them.
const LOCK_FILE: usize = (READERS as usize + 64) * 64;
/// How long an environment that is being closed in this process may take.
const CLOSING: Duration = Duration::from_secs(10);

/// What survives what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// Acknowledged work survives a crash of every process. After a power failure the latest transaction may be
    /// missing; the file is never damaged. LMDB's `MDB_NOMETASYNC`: a commit waits for the disk once.
    #[default]
    Normal,
    /// Acknowledged work survives a power failure too: a commit waits for the disk twice.
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

    fn flags(self) -> EnvFlags {
        match self {
            Self::Normal => EnvFlags::NO_META_SYNC,
            Self::Full => EnvFlags::empty(),
        }
    }
}

/// How a directory is opened.
#[derive(Clone, Debug)]
pub struct Options {
    /// The directory.
    pub path: PathBuf,
    /// What survives what.
    pub durability: Durability,
    /// The most that the queue can become, in bytes.
    pub size: u64,
}

impl Options {
    /// A directory in the default mode.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        let size = if usize::BITS < 64 { 1 << 30 } else { SIZE };
        Self { path: path.into(), durability: Durability::default(), size }
    }

    /// From `lmdb:DIRECTORY`, with `?durability=full` or `?size=16GiB` or both.
    pub fn parse(url: &str) -> Result<Self> {
        let bad = |why: &str| StoreError::BadAddress { place: url.to_owned(), why: why.to_owned() };
        let rest = url.strip_prefix("lmdb:").unwrap_or(url);
        let rest = rest.strip_prefix("//").unwrap_or(rest);
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        if path.is_empty() {
            return Err(bad("a directory is missing; write lmdb:queue"));
        }
        let mut options = Self::new(path);
        for part in query.split('&').filter(|part| !part.is_empty()) {
            match part.split_once('=') {
                Some(("durability", "normal")) => options.durability = Durability::Normal,
                Some(("durability", "full")) => options.durability = Durability::Full,
                Some(("size", text)) => {
                    let size = bytes(text).filter(|size| *size >= LEAST);
                    options.size = size.ok_or_else(|| {
                        bad("its size is not one; write at least 1MiB, such as size=16GiB")
                    })?;
                }
                _ => {
                    return Err(bad(
                        "the settings are durability=normal, durability=full and size=16GiB",
                    ));
                }
            }
        }
        Ok(options)
    }

    /// The directory as messages name it.
    pub fn place(&self) -> String {
        self.path.display().to_string()
    }
}

/// A size such as `16GiB`, `500MB` or `1048576`.
fn bytes(text: &str) -> Option<u64> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let factor: u64 = match unit {
        "" | "B" => 1,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "TB" => 1_000_000_000_000,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        "TiB" => 1 << 40,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(factor)
}

/// One database of the environment.
pub type Db = Database<'static, Bytes, Bytes>;

/// The environment of a directory, with its databases.
pub struct Environment {
    /// LMDB's.
    pub env: Env<WithoutTls>,
    /// Its databases, in the order of [`crate::view::Table`].
    pub tables: Vec<Db>,
    /// How it was opened.
    pub options: Options,
    gate: Gate,
}

/// Counts the transactions of this process: the map can only be made larger while there are none.
#[derive(Debug, Default)]
struct Gate {
    inside: Mutex<usize>,
    left: Condvar,
}

impl Gate {
    fn inside(&self) -> MutexGuard<'_, usize> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The right to look at the map.
pub struct Inside(Arc<Environment>);

impl Drop for Inside {
    fn drop(&mut self) {
        *self.0.gate.inside() -= 1;
        self.0.gate.left.notify_all();
    }
}

/// The environments that this process has open.
static OPEN: Mutex<Vec<(PathBuf, Weak<Environment>)>> = Mutex::new(Vec::new());

impl Environment {
    /// Opens a directory, making it if need be, or shares it if this process has it open.
    pub fn open(options: &Options) -> Result<Arc<Self>> {
        let place = options.place();
        let fail = |error: heed::Error| explain(&place, options.size, &error);
        std::fs::create_dir_all(&options.path).map_err(|error| no_directory(&place, &error))?;
        let path = options.path.canonicalize().map_err(|error| no_directory(&place, &error))?;
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|(_, known)| known.strong_count() > 0);
        let known = open.iter().find(|(known, _)| *known == path);
        if let Some(known) = known.and_then(|(_, known)| known.upgrade()) {
            format::check(known.ask(format::stored)?, &place)?;
            return same_mode(known, options);
        }
        make_lock_file(&path).map_err(|error| explain(&place, options.size, &error.into()))?;
        let env = map(&path, options).map_err(fail)?;
        check_length(&env, &path, &place)?;
        // Readers that were killed keep old pages from being used again.
        env.clear_stale_readers().map_err(fail)?;
        let tables = format::open(&env, &place, options.size)?;
        let (options, gate) = (options.clone(), Gate::default());
        let environment = Arc::new(Self { env, tables, options, gate });
        open.push((path, Arc::downgrade(&environment)));
        Ok(environment)
    }

    /// Asks a question of a snapshot.
    pub fn ask<R>(
        self: &Arc<Self>,
        question: impl FnOnce(View<'_>) -> heed::Result<R>,
    ) -> Result<R> {
        let answer = || -> heed::Result<R> {
            let (_inside, txn) = self.begin(|env| env.read_txn())?;
            question(View { tables: &self.tables, txn: &txn })
        };
        answer().map_err(|error| self.explain(&error))
    }

    /// Begins a transaction. If another process has made the map larger than it is here, this one takes that
    /// size over first.
    pub fn begin<'e, T>(
        self: &'e Arc<Self>,
        begin: impl Fn(&'e Env<WithoutTls>) -> heed::Result<T>,
    ) -> heed::Result<(Inside, T)> {
        loop {
            let inside = self.enter();
            match begin(&self.env) {
                Err(heed::Error::Mdb(heed::MdbError::MapResized)) => drop(inside),
                begun => return begun.map(|begun| (inside, begun)),
            }
            self.take_size_over()?;
        }
    }

    fn enter(self: &Arc<Self>) -> Inside {
        *self.gate.inside() += 1;
        Inside(Arc::clone(self))
    }

    /// The number of the latest transaction, by whomever. The map does not move meanwhile.
    pub fn last_transaction(self: &Arc<Self>) -> usize {
        let _inside = self.enter();
        self.env.info().last_txn_id
    }

    /// Waits until no transaction of this process is left, keeps others from beginning, and maps the file anew
    /// in the size that is written in it.
    fn take_size_over(&self) -> heed::Result<()> {
        let mut inside = self.gate.inside();
        while *inside > 0 {
            inside = self.gate.left.wait(inside).unwrap_or_else(PoisonError::into_inner);
        }
        #[expect(
            unsafe_code,
            reason = "the map may only be moved while this process has no transaction: every one is begun under the \
                      gate, the gate is empty, and it stays shut as long as its lock is held here"
        )]
        let resized = unsafe { self.env.resize(0) };
        tracing::info!(
            place = self.options.place(),
            "the map is as large as another process made it"
        );
        resized
    }

    /// Says what an error means.
    pub fn explain(&self, error: &heed::Error) -> StoreError {
        explain(&self.options.place(), self.options.size, error)
    }
}

/// A first look at an environment that is being opened. Others may fill more than this process has mapped between
/// its opening and the look; then it maps the size that is written in the file.
pub fn sized<T>(
    env: &Env<WithoutTls>,
    look: impl Fn(&Env<WithoutTls>) -> heed::Result<T>,
) -> heed::Result<T> {
    loop {
        match look(env) {
            Err(heed::Error::Mdb(heed::MdbError::MapResized)) => {
                #[expect(
                    unsafe_code,
                    reason = "the map may only be moved while this process has no transaction: nobody else has the \
                              environment before it is open, and the look that failed has ended its own"
                )]
                unsafe {
                    env.resize(0)?;
                }
            }
            seen => return seen,
        }
    }
}

/// What can be set for a directory is set by whoever opens it first.
fn same_mode(known: Arc<Environment>, options: &Options) -> Result<Arc<Environment>> {
    if known.options.durability == options.durability {
        return Ok(known);
    }
    let why = format!(
        "this process has it open with durability={}; open it with the same",
        known.options.durability.as_str()
    );
    Err(StoreError::BadAddress { place: options.place(), why })
}

fn no_directory(place: &str, error: &std::io::Error) -> StoreError {
    use std::io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem};
    let place = place.to_owned();
    match error.kind() {
        PermissionDenied | ReadOnlyFilesystem => {
            let why = format!("{error}; check the permissions of the directory it is in");
            StoreError::ReadOnly { place, why }
        }
        _ => {
            let why = format!("it cannot be made ({error}); name a directory, such as lmdb:queue");
            StoreError::BadAddress { place, why }
        }
    }
}

/// LMDB makes its lock file with holes and maps it; on a full disk the first write to a hole would end the process. So a new
/// one is made here, with all it needs, and comes to its place in one step: somebody else may open the directory, too.
fn make_lock_file(path: &Path) -> std::io::Result<()> {
    let file = path.join("lock.mdb");
    if file.exists() {
        return Ok(());
    }
    let own = (0..1000).map(|n| path.join(format!("lock.mdb.{n}"))).find_map(|own| {
        let made = File::create_new(&own);
        let is_taken = |error: &std::io::Error| error.kind() == ErrorKind::AlreadyExists;
        (!made.as_ref().is_err_and(is_taken)).then_some((own, made))
    });
    // Where that cannot be made, or has no links, LMDB does it or says what is the matter.
    let Some((own, Ok(mut made))) = own else { return Ok(()) };
    let written = made.write_all(&vec![0; LOCK_FILE]);
    if written.is_ok() {
        let _ = std::fs::hard_link(&own, &file);
    }
    let _ = std::fs::remove_file(own);
    written
}

/// Maps the file. A process that has just let go of it may need a moment to do so.
fn map(path: &Path, options: &Options) -> heed::Result<Env<WithoutTls>> {
    let size = usize::try_from(options.size.next_multiple_of(STEP)).unwrap_or(1 << 30);
    let mut settings = EnvOpenOptions::new().read_txn_without_tls();
    settings.map_size(size).max_dbs(64).max_readers(READERS);
    loop {
        #[expect(
            unsafe_code,
            reason = "LMDB maps the file. The map stays valid because only LMDB writes the file, under its own lock \
                      (NO_LOCK is not set), and because the length is checked before the first look; NO_META_SYNC \
                      puts only the latest transaction at risk, not the file"
        )]
        let opened = unsafe { settings.flags(options.durability.flags()).open(path) };
        match opened {
            Err(heed::Error::EnvAlreadyOpened) => match heed::env_closing_event(path) {
                Some(closing) if !closing.wait_timeout(CLOSING) => {
                    return Err(heed::Error::EnvAlreadyOpened);
                }
                _ => {}
            },
            other => return other,
        }
    }
}

/// A file that is shorter than its pages would end the process at the first look beyond its end.
fn check_length(env: &Env<WithoutTls>, path: &Path, place: &str) -> Result<()> {
    let file = path.join("data.mdb");
    let page = u64::from(env.unnamed_database_stat().page_size);
    let needed = (env.info().last_page_number as u64 + 1) * page;
    // Asked for last: others may make the file longer meanwhile, and never shorter.
    let there = std::fs::metadata(&file).map(|file| file.len()).unwrap_or(0);
    if there >= needed {
        return Ok(());
    }
    let why = format!(
        "{} has {there} bytes of {needed}: its end is missing; stop all workers and restore a backup",
        file.display()
    );
    Err(StoreError::Corrupt { place: place.to_owned(), why })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;
    use crate::view::Table;

    /// What another process does in that moment is done by hand here: this one may not have a directory open twice.
    #[test]
    fn a_file_that_grows_while_it_is_being_opened_is_opened() {
        let (small, large) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let options = |at: &tempfile::TempDir, size| Options { size, ..Options::new(at.path()) };
        let grown = Environment::open(&options(&large, 64 << 20)).unwrap();
        for number in 0..8u8 {
            let mut txn = grown.env.write_txn().unwrap();
            let table = grown.tables[Table::Meta as usize];
            table.put(&mut txn, &[number], &vec![number; 1 << 20]).unwrap();
            txn.commit().unwrap();
        }
        let env = map(small.path(), &options(&small, LEAST)).unwrap();
        let file = std::fs::OpenOptions::new().write(true).open(small.path().join("data.mdb"));
        let bytes = std::fs::read(large.path().join("data.mdb")).unwrap();
        file.unwrap().write_all_at(&bytes, 0).unwrap();
        assert!(env.read_txn().is_err(), "more is written than it has mapped");
        let tables = format::open(&env, "small", LEAST).unwrap();
        let txn = env.read_txn().unwrap();
        // The latest snapshot or the one before, whichever its lock file counts to.
        let late = View { tables: &tables, txn: &txn }.get(Table::Meta, &[6]).unwrap();
        assert_eq!(late.map(<[u8]>::len), Some(1 << 20));
    }

    #[test]
    fn an_address_has_settings_and_what_is_wrong_with_it_is_told() {
        let options = Options::parse("lmdb:q?durability=full&size=16MiB").unwrap();
        assert_eq!((options.durability, options.size), (Durability::Full, 16 << 20));
        assert_eq!(options.path, Path::new("q"));
        assert_eq!(Options::parse("lmdb:///var/q").unwrap().path, Path::new("/var/q"));
        for (url, told) in [
            ("lmdb:", "a directory is missing"),
            ("lmdb:q?size=big", "size=16GiB"),
            ("lmdb:q?size=5", "at least 1MiB"),
            ("lmdb:q?speed=high", "durability=full"),
        ] {
            let error = Options::parse(url).unwrap_err().to_string();
            assert!(error.contains(told) && error.contains(url), "{error}");
        }
    }
}
