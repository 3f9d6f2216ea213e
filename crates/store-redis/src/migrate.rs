//! The version of what is stored, and the checks at every new connection.

use redis::Value;
use runcue_store::{Result, StoreError};

use crate::connection::{Batch, Link, Options};
use crate::persistence::Eviction;
use crate::value::{field, number, parse, text};

/// The newest layout of keys that this version knows.
pub const SCHEMA: u32 = 3;

/// The oldest server that has every command used here.
const OLDEST: (u32, u32) = (7, 0);

/// Checks the server and what is stored there, or says why that cannot be used. Answers what tells this start
/// of this server from every other.
pub fn open(link: &mut Link, options: &Options) -> Result<String> {
    let info = link.plain(&[b"INFO"])?;
    let info = String::from_utf8_lossy(text(&info).unwrap_or_default()).into_owned();
    check_version(link.place(), field(&info, "redis_version").unwrap_or_default())?;
    if !options.accept_eviction {
        Eviction::of(&info).refuse(link.place())?;
    }
    let schema = link.command("HGET", "meta", &[b"schema"])?;
    match parse::<u32>(&schema) {
        Some(found) if found > SCHEMA => {
            let place = link.place().to_owned();
            return Err(StoreError::Newer { place, found, known: SCHEMA });
        }
        Some(SCHEMA) => {}
        Some(found) => {
            // Rows of schema 1 are read as they are and written anew when they change. What schema 2 counted of
            // held jobs goes; its counts of ready ones stay as notes of the lanes that have some. Daemons that know
            // nothing of this one write no more: their scripts look at the schema.
            let raise = "if tonumber(redis.call('HGET', KEYS[1], 'schema')) < tonumber(ARGV[1]) then \
                         redis.call('HSET', KEYS[1], 'schema', ARGV[1]) \
                         redis.call('UNLINK', string.sub(KEYS[1], 1, -5) .. 'held') end";
            let mut batch = Batch::default();
            link.queue_text(&mut batch, raise, &[SCHEMA.to_string().as_bytes()]);
            link.all(&batch)?;
            tracing::info!(
                place = link.place(),
                "the queue is raised from schema {found} to {SCHEMA}"
            );
        }
        None => {
            let first = SCHEMA.to_string();
            let set: Value = link.command("HSETNX", "meta", &[b"schema", first.as_bytes()])?;
            tracing::debug!(place = link.place(), new = number::<u64>(&set), "the queue is new");
        }
    }
    Ok(field(&info, "run_id").unwrap_or_default().to_owned())
}

/// Whether a server of this version is new enough.
fn check_version(place: &str, version: &str) -> Result<()> {
    let mut numbers = version.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
    let found = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if found >= OLDEST {
        return Ok(());
    }
    let why = format!("the server is Redis {version}; 7.0 or newer is needed, upgrade it");
    Err(StoreError::BadAddress { place: place.to_owned(), why })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_old_a_server_is_refused_with_the_fix() {
        for old in ["6.2.14", "2.8.0", "6"] {
            let line = check_version("redis://db/0", old).unwrap_err().to_string();
            assert!(line.contains(&format!("Redis {old};")) && line.contains("upgrade"), "{line}");
        }
        for good in ["7.0.0", "7.0.15", "8.2.1", "10.0"] {
            assert!(check_version("redis://db/0", good).is_ok(), "{good}");
        }
    }
}
