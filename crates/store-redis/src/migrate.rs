//! The version of what is stored, and the checks at every new connection.

use redis::Value;
use runcue_store::{Result, StoreError};

use crate::connection::Link;
use crate::value::{number, parse, text};

/// The newest layout of keys that this version knows.
pub const SCHEMA: u32 = 1;

/// The oldest server that has every command used here.
const OLDEST: (u32, u32) = (7, 0);

/// Checks the server and what is stored there, or says why that cannot be used. Answers what tells this start
/// of this server from every other.
pub fn open(link: &mut Link) -> Result<String> {
    let info = link.plain(&[b"INFO", b"server"])?;
    let info = String::from_utf8_lossy(text(&info).unwrap_or_default()).into_owned();
    let field = |name: &str| {
        info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':').map(str::trim))
    };
    let version = field("redis_version").unwrap_or_default();
    let mut numbers = version.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
    let found = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if found < OLDEST {
        return Err(StoreError::BadAddress {
            place: link.place().to_owned(),
            why: format!("Redis {version} is too old; 7.0 or newer is needed"),
        });
    }
    let schema = link.command("HGET", "meta", &[b"schema"])?;
    match parse::<u32>(&schema) {
        Some(found) if found > SCHEMA => {
            let place = link.place().to_owned();
            return Err(StoreError::Newer { place, found, known: SCHEMA });
        }
        Some(_) => {}
        None => {
            let first = SCHEMA.to_string();
            let set: Value = link.command("HSETNX", "meta", &[b"schema", first.as_bytes()])?;
            tracing::debug!(place = link.place(), new = number::<u64>(&set), "the queue is new");
        }
    }
    Ok(field("run_id").unwrap_or_default().to_owned())
}
