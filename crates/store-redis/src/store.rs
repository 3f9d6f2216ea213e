//! Opening a queue on a Redis server.

use std::time::Duration;

use runcue_store::overlay::{Backend, LARGE, ServerStore, Settings};
use runcue_store::{Result, StoreError};

use crate::backend::RedisBackend;
use crate::connection::Options;
use crate::persistence;
use crate::reader::RedisReader;

/// How long a request waits for a server that is away.
const PATIENCE: Duration = Duration::from_secs(10);

/// A queue on a Redis server.
pub type RedisStore = ServerStore<RedisBackend, RedisReader>;

/// Opens a queue. Says in the log what the server's settings mean for what it has acknowledged.
///
/// # Errors
/// One line that says what is wrong with the address or the server, and the fix.
pub fn open(options: Options) -> Result<RedisStore> {
    let instance = random(&options)?;
    let mut backend = RedisBackend::new(options.clone(), instance);
    let ears = backend.ears();
    // A server that cannot be used has nothing else to say.
    backend.connect()?;
    let persistence = persistence::inspect(&mut options.connect()?, &options)?;
    let settings = Settings {
        place: options.place.clone(),
        instance,
        callers_clock: options.caller_clock,
        patience: PATIENCE,
        listens_apart: true,
        large: LARGE,
    };
    ServerStore::new(backend, RedisReader::new(options, persistence, ears), settings)
}

/// Opens an address such as `redis://host:6379/0?prefix=runcue`.
///
/// # Errors
/// As [`open`], and if the address cannot be read.
pub fn open_url(url: &str) -> Result<RedisStore> {
    open(Options::parse(url)?)
}

/// What nobody can guess: tells this start of this program from every other.
pub(crate) fn random(options: &Options) -> Result<u128> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| {
        StoreError::Unavailable(format!("{}: no random numbers here: {error}", options.place))
    })?;
    Ok(u128::from_be_bytes(bytes))
}
