//! What the server's settings mean for what it has acknowledged, in plain words.

use redis::Value;
use runcue_store::{Result, StoreError};

use crate::connection::{Link, Options};
use crate::value::{pairs, text};

/// What a server keeps when it, or its machine, goes down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Persistence {
    /// Append-only file, synced before every reply.
    Always,
    /// Append-only file, synced every second.
    EverySecond,
    /// Append-only file, synced when the operating system likes.
    Sometimes,
    /// Snapshots now and then.
    Snapshots,
    /// Nothing at all.
    Nothing,
    /// The server does not say.
    Unknown,
}

impl Persistence {
    /// The words for every figure that is published.
    pub fn durability(self) -> &'static str {
        match self {
            Self::Always => "redis appendfsync always: survives power loss of the server",
            Self::EverySecond => {
                "redis appendfsync everysec: a crash of the server may lose the last two seconds"
            }
            Self::Sometimes => {
                "redis appendfsync no: power loss of the server may lose the last half minute"
            }
            Self::Snapshots => {
                "redis snapshots: a crash of the server loses everything since the last snapshot"
            }
            Self::Nothing => "redis without persistence: lost when the server stops",
            Self::Unknown => "redis with unknown persistence: the server does not say",
        }
    }

    /// Whether a crash of the server may lose what was acknowledged.
    pub fn may_lose(self) -> bool {
        self != Self::Always
    }

    /// What to do about it.
    fn advice(self) -> &'static str {
        match self {
            Self::Unknown => "CONFIG is forbidden here; ask whoever runs the server",
            _ => "to lose nothing: CONFIG SET appendonly yes, CONFIG SET appendfsync always",
        }
    }

    fn of(settings: &Settings) -> Self {
        match (&*settings.appendonly, &*settings.appendfsync) {
            ("yes", "always") => Self::Always,
            ("yes", "everysec") => Self::EverySecond,
            ("yes", _) => Self::Sometimes,
            _ if !settings.save.is_empty() => Self::Snapshots,
            _ => Self::Nothing,
        }
    }
}

#[derive(Debug, Default)]
struct Settings {
    appendonly: String,
    appendfsync: String,
    save: String,
    eviction: String,
}

/// Reads the server's settings, says what they mean, and refuses a server that throws jobs away.
pub fn inspect(link: &mut Link, options: &Options) -> Result<Persistence> {
    let Some(settings) = read(link)? else {
        let unknown = Persistence::Unknown;
        tracing::warn!(place = options.place, "{}; {}", unknown.durability(), unknown.advice());
        return Ok(unknown);
    };
    if settings.eviction != "noeviction" && !options.accept_eviction {
        return Err(StoreError::BadAddress {
            place: options.place.clone(),
            why: format!(
                "the server throws keys away when memory is short (maxmemory-policy {}), and jobs with them; \
                 CONFIG SET maxmemory-policy noeviction, or add eviction=accept to the address",
                settings.eviction
            ),
        });
    }
    let found = Persistence::of(&settings);
    if found.may_lose() {
        tracing::warn!(place = options.place, "{}; {}", found.durability(), found.advice());
    } else {
        tracing::info!(place = options.place, "{}", found.durability());
    }
    Ok(found)
}

/// Nothing if the server does not tell its settings.
fn read(link: &mut Link) -> Result<Option<Settings>> {
    let words: [&[u8]; 6] =
        [b"CONFIG", b"GET", b"appendonly", b"appendfsync", b"save", b"maxmemory-policy"];
    let reply = match link.plain(&words) {
        Ok(reply) => reply,
        // Managed servers know no CONFIG, or forbid it.
        Err(StoreError::BadAddress { .. }) => return Ok(None),
        Err(error) => return Err(error),
    };
    let field = |wanted: &str| {
        let found = pairs(&reply).find(|(name, _)| text(name) == Some(wanted.as_bytes()));
        let value: Option<&Value> = found.map(|(_, value)| value);
        value
            .and_then(text)
            .map(|text| String::from_utf8_lossy(text).into_owned())
            .unwrap_or_default()
    };
    Ok(Some(Settings {
        appendonly: field("appendonly"),
        appendfsync: field("appendfsync"),
        save: field("save"),
        eviction: field("maxmemory-policy"),
    }))
}
