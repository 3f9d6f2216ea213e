//! What the server's settings mean for what it has acknowledged, in plain words.

use redis::Value;
use runcue_store::{Result, StoreError};

use crate::connection::{Link, Options};
use crate::value::{field, pairs, text};

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
}

/// Reads the server's settings and says what they mean.
pub fn inspect(link: &mut Link, options: &Options) -> Result<Persistence> {
    let Some(settings) = read(link)? else {
        let unknown = Persistence::Unknown;
        tracing::warn!(place = options.place, "{}; {}", unknown.durability(), unknown.advice());
        return Ok(unknown);
    };
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
    let words: [&[u8]; 5] = [b"CONFIG", b"GET", b"appendonly", b"appendfsync", b"save"];
    let reply = match link.plain(&words) {
        Ok(reply) => reply,
        // Managed servers know no CONFIG, or forbid it.
        Err(StoreError::BadAddress { .. }) => return Ok(None),
        Err(error) => return Err(error),
    };
    let setting = |wanted: &str| {
        let found = pairs(&reply).find(|(name, _)| text(name) == Some(wanted.as_bytes()));
        let value: Option<&Value> = found.map(|(_, value)| value);
        value
            .and_then(text)
            .map(|text| String::from_utf8_lossy(text).into_owned())
            .unwrap_or_default()
    };
    Ok(Some(Settings {
        appendonly: setting("appendonly"),
        appendfsync: setting("appendfsync"),
        save: setting("save"),
    }))
}

/// What becomes of keys when memory is short, as the server tells everybody who may ask how it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Eviction {
    /// Which keys are thrown away, if any are.
    policy: Option<String>,
    /// How many were, since the server was started.
    lost: u64,
}

impl Eviction {
    /// From all that the server says of itself.
    pub fn of(info: &str) -> Self {
        let policy = field(info, "maxmemory_policy").filter(|policy| *policy != "noeviction");
        let lost = field(info, "evicted_keys").and_then(|count| count.parse().ok());
        Self { policy: policy.map(str::to_owned), lost: lost.unwrap_or(0) }
    }

    fn advice(policy: &str) -> String {
        format!(
            "the server throws keys away when memory is short (maxmemory-policy {policy}), and jobs with them; \
             CONFIG SET maxmemory-policy noeviction, or add eviction=accept to the address"
        )
    }

    /// A server that throws jobs away is not connected to.
    pub fn refuse(&self, place: &str) -> Result<()> {
        let Some(policy) = &self.policy else { return Ok(()) };
        Err(StoreError::BadAddress { place: place.to_owned(), why: Self::advice(policy) })
    }

    /// Looks again, and says what has changed since the last look, of which there may have been none.
    pub fn look(link: &mut Link, before: Option<&Self>) -> Result<Self> {
        let info = link.plain(&[b"INFO"])?;
        let now = Self::of(&String::from_utf8_lossy(text(&info).unwrap_or_default()));
        let place = link.place();
        if let Some(policy) = now.policy.as_ref()
            && before.is_none_or(|before| before.policy != now.policy)
        {
            let advice = Self::advice(policy);
            tracing::warn!(place, "{advice}; until then no new connection to it is made");
        }
        if let Some(before) = before
            && now.lost > before.lost
        {
            tracing::warn!(
                place,
                "the server has thrown {} keys away for want of memory; raise its maxmemory, and let \
                 `runcue doctor` see whether jobs are missing",
                now.lost - before.lost
            );
        }
        Ok(now)
    }
}
