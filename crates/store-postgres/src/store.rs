//! [`PostgresStore`]: opening a queue on a PostgreSQL server.

use runcue_store::overlay::{Backend, LARGE, ServerStore, Settings};
use runcue_store::{Result, StoreError};

use crate::backend::PostgresBackend;
use crate::connection::Options;
use crate::reader::Readers;

/// A queue in a schema of a PostgreSQL database.
pub type PostgresStore = ServerStore<PostgresBackend, Readers>;

/// Opens a queue, making or upgrading its schema if that is wanted. Waits for the server's answer; what can
/// be known at once (a wrong address, password or version) is an error.
pub fn open(options: Options) -> Result<PostgresStore> {
    let place = options.place();
    let opening = options.clone();
    // A thread of its own: a runtime cannot be driven where another one is.
    let opened = std::thread::spawn(move || {
        let mut backend = PostgresBackend::new(opening)?;
        backend.connect()?;
        let durability = backend.durability()?;
        Ok::<_, StoreError>((backend, durability))
    });
    let failed = |why: String| StoreError::Unavailable(format!("{place}: {why}"));
    let (backend, durability) =
        opened.join().map_err(|_| failed("opening it failed".to_owned()))??;
    let settings = Settings {
        place: place.clone(),
        instance: random()?,
        callers_clock: options.callers_clock,
        patience: options.patience,
        listens_apart: false,
        large: LARGE,
    };
    let readers = Readers::start(options, durability)
        .map_err(|error| failed(format!("no thread to read: {error}")))?;
    ServerStore::new(backend, readers, settings)
}

/// Opens an address such as `postgres://user@host/database?schema=runcue`.
pub fn open_url(url: &str) -> Result<PostgresStore> {
    open(Options::parse(url)?)
}

/// What nobody can guess.
pub(crate) fn random() -> Result<u128> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| StoreError::Unavailable(error.to_string()))?;
    Ok(u128::from_be_bytes(bytes))
}
