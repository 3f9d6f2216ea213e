//! The address of a store, and opening connections to it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use runcue_store::{Result, StoreError};
use tokio_postgres::config::SslMode;
use tokio_postgres::{Client, Config, Connection, Error, Socket};

use crate::failure::{explain, is_of_startup};
use crate::rows::{COLUMNS, READY_COLUMNS, STATES};
use crate::tls::{self, TlsStream};

/// The schema if none is named.
const SCHEMA_NAME: &str = "runcue";
/// The oldest server that has all that is used.
const OLDEST_SERVER: i32 = 120_000;
/// How long a connection attempt may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a request that is not small may take by itself.
const REPLY_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a request waits for a server that is away.
const PATIENCE: Duration = Duration::from_secs(15);
/// Between two looks when nothing is heard.
const LOOK: Duration = Duration::from_secs(1);
/// Jobs of a lane that are worth a run: few are claimed a few at a time, and a run is written anew with every claim.
const TOGETHER: usize = 32;

/// How a store is opened.
#[derive(Clone, Debug)]
pub struct Options {
    config: Config,
    tls: tls::Settings,
    /// The schema that holds the queue.
    pub schema: String,
    /// Whether the schema is made or brought up to date when the store is opened.
    pub migrate: bool,
    /// What was said or found of a pooler, by any of the connections that are opened with these options.
    pooler: Arc<AtomicBool>,
    /// The instants that callers pass count, not the server's clock. For tests with a virtual clock.
    pub callers_clock: bool,
    /// How long a request waits for a server that is away.
    pub patience: Duration,
    /// Between two looks whether others have written, when nothing is heard of it.
    pub look: Duration,
    /// So many jobs that are submitted to a lane together are written as a run. Fewer in tests of that.
    pub together: usize,
}

impl Options {
    /// From `postgres://user:password@host:port/database?schema=runcue`. Settings besides those of
    /// PostgreSQL's own addresses: `schema`, `migrate=off`, `pooler=on`.
    pub fn parse(url: &str) -> Result<Self> {
        let bad = |why: String| StoreError::BadAddress { place: without_password(url), why };
        let (address, query) = url.split_once('?').unwrap_or((url, ""));
        if !address.starts_with("postgres://") && !address.starts_with("postgresql://") {
            return Err(bad("write postgres://user@host/database".to_owned()));
        }
        let mut left = Vec::new();
        let mut tls = tls::Settings::default();
        let (mut schema, mut migrate, mut pooler) = (SCHEMA_NAME.to_owned(), true, false);
        let mut patience = PATIENCE;
        for part in query.split('&').filter(|part| !part.is_empty()) {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            match (name, value) {
                ("schema", name) => schema = checked_schema(name).map_err(bad)?,
                ("migrate", "on" | "off") => migrate = value == "on",
                ("pooler", "on" | "off") => pooler = value == "on",
                ("migrate" | "pooler", _) => return Err(bad(format!("{name} is on or off"))),
                ("patience", seconds) => {
                    let seconds =
                        seconds.parse().map_err(|_| bad(format!("{part}: in seconds")))?;
                    patience = Duration::from_secs(seconds);
                }
                ("sslmode", mode) => tls.mode = tls::Mode::parse(mode).map_err(bad)?,
                ("sslrootcert", path) => tls.root = Some(path.into()),
                _ => left.push(part),
            }
        }
        let plain = if left.is_empty() {
            address.to_owned()
        } else {
            format!("{address}?{}", left.join("&"))
        };
        let mut config: Config = plain.parse().map_err(|error| bad(misread(&error)))?;
        config.ssl_mode(match tls.mode {
            tls::Mode::Disable => SslMode::Disable,
            tls::Mode::Prefer => SslMode::Prefer,
            _ => SslMode::Require,
        });
        if config.get_hosts().is_empty() {
            return Err(bad("a host is missing; write postgres://user@host/database".to_owned()));
        }
        if config.get_application_name().is_none() {
            config.application_name("runcue");
        }
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT_TIMEOUT);
        }
        config.keepalives_idle(Duration::from_secs(10)).tcp_user_timeout(Duration::from_secs(15));
        let (callers_clock, look, together) = (false, LOOK, TOGETHER);
        let pooler = Arc::new(AtomicBool::new(pooler));
        Ok(Self { config, tls, schema, migrate, pooler, callers_clock, patience, look, together })
    }

    /// Whether a pooler that hands out connections per transaction stands in between: nothing is listened to then, and
    /// nothing is left behind in a session.
    pub fn pooler(&self) -> bool {
        self.pooler.load(Ordering::Relaxed)
    }

    /// A pooler that nobody told of was found. All connections know from here on.
    pub(crate) fn found_pooler(&self) {
        if !self.pooler.swap(true, Ordering::Relaxed) {
            let place = self.place();
            tracing::warn!(place, "a pooler is in between; say so in the address with pooler=on");
        }
    }

    /// The database and schema as messages name them, without the password.
    pub fn place(&self) -> String {
        use tokio_postgres::config::Host;
        let host = match self.config.get_hosts().first() {
            Some(Host::Tcp(host)) => host.clone(),
            #[cfg(unix)]
            Some(Host::Unix(path)) => path.display().to_string(),
            _ => String::new(),
        };
        let port = self.config.get_ports().first().copied().unwrap_or(5432);
        let database = self.config.get_dbname().unwrap_or("");
        format!("postgres://{host}:{port}/{database} (schema {})", self.schema)
    }

    /// The schema as it stands in statements.
    pub(crate) fn quoted_schema(&self) -> String {
        format!("\"{}\"", self.schema.replace('"', "\"\""))
    }

    /// A statement for this schema. In its text the schema is called `runcue`, and `{job}`, `{ready}` and
    /// `{states}` stand for the columns of a job.
    pub(crate) fn sql(&self, text: &str) -> String {
        let text = text.replace("{job}", COLUMNS).replace("{ready}", READY_COLUMNS);
        let text = text.replace("{states}", STATES);
        text.replace("runcue.", &format!("{}.", self.quoted_schema()))
    }

    /// The channel on which commits are told of, named as the functions name it.
    pub(crate) fn channel(&self) -> String {
        format!("{}.", self.quoted_schema())
    }

    pub(crate) fn reply_timeout(rows: usize) -> Duration {
        REPLY_TIMEOUT + Duration::from_micros(500) * u32::try_from(rows).unwrap_or(u32::MAX)
    }

    /// Opens a connection with settings that hold for its whole session. Nothing if whoever answers does not take any:
    /// a pooler, whose sessions others use too.
    pub(crate) async fn connect_with(
        &self,
        settings: &[(&str, &str)],
    ) -> Result<Option<(Client, Connection<Socket, TlsStream>)>> {
        let mut options = self.clone();
        let mut words: Vec<String> =
            self.config.get_options().map(str::to_owned).into_iter().collect();
        words.extend(settings.iter().map(|(name, value)| format!("-c {name}={value}")));
        options.config.options(words.join(" "));
        match options.connect_or_hear().await? {
            Ok(connected) => Ok(Some(connected)),
            Err(error) if is_of_startup(&error) => Ok(None),
            Err(error) => Err(explain(self, &error)),
        }
    }

    /// Opens a connection. The second half has to be driven by somebody.
    pub(crate) async fn connect(&self) -> Result<(Client, Connection<Socket, TlsStream>)> {
        self.connect_or_hear().await?.map_err(|error| explain(self, &error))
    }

    /// Opens a connection, or answers what the server has against it.
    async fn connect_or_hear(
        &self,
    ) -> Result<std::result::Result<(Client, Connection<Socket, TlsStream>), Error>> {
        let tls = tls::connector(&self.tls)
            .map_err(|why| StoreError::BadAddress { place: self.place(), why })?;
        let connected = tokio::time::timeout(CONNECT_TIMEOUT, self.config.connect(tls)).await;
        match connected {
            Ok(heard) => Ok(heard),
            Err(_) => Err(StoreError::Unavailable(format!(
                "{} does not answer; check that it runs and can be reached",
                self.place()
            ))),
        }
    }

    /// Whether the server on a connection is new enough.
    pub(crate) async fn check_version(&self, client: &Client) -> Result<()> {
        let sql =
            "SELECT current_setting('server_version_num')::int, current_setting('server_version')";
        let row = client.query_typed(sql, &[]).await.map_err(|error| explain(self, &error))?;
        let (number, name): (i32, String) = (row[0].get(0), row[0].get(1));
        check_version(self, number, &name)
    }
}

fn check_version(options: &Options, number: i32, name: &str) -> Result<()> {
    if number >= OLDEST_SERVER {
        return Ok(());
    }
    let why = format!("the server is PostgreSQL {name}; 12 or newer is needed, upgrade it");
    Err(StoreError::BadAddress { place: options.place(), why })
}

fn checked_schema(name: &str) -> std::result::Result<String, String> {
    let good = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if name.is_empty() || name.len() > 48 || !name.chars().all(good) {
        return Err(format!(
            "schema {name:?} cannot be used; take up to 48 letters, digits and underscores"
        ));
    }
    Ok(name.to_owned())
}

/// What is wrong with an address, in the parser's words and without its own prefix.
fn misread(error: &tokio_postgres::Error) -> String {
    let why = std::error::Error::source(error).map_or_else(|| error.to_string(), |e| e.to_string());
    format!("{why}; write postgres://user@host/database?schema=runcue")
}

/// An address that can be shown.
fn without_password(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let Some((user, host)) = rest.rsplit_once('@') else { return url.to_owned() };
    let user = user.split(':').next().unwrap_or("");
    format!("{scheme}://{user}@{host}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_schema_and_switches() {
        let options = Options::parse("postgres://me:secret@db:6432/app").unwrap();
        assert_eq!(
            (options.schema.as_str(), options.migrate, options.pooler()),
            ("runcue", true, false)
        );
        assert_eq!(options.place(), "postgres://db:6432/app (schema runcue)");
        let url = "postgresql://db/app?schema=jobs_2&migrate=off&pooler=on&connect_timeout=3";
        let options = Options::parse(url).unwrap();
        assert_eq!(
            (options.schema.as_str(), options.migrate, options.pooler()),
            ("jobs_2", false, true)
        );
    }

    #[test]
    fn a_bad_address_says_what_to_write_and_keeps_the_password() {
        for (url, hint) in [
            ("postgres:db", "write postgres://user@host/database"),
            ("postgres:///app", "a host is missing"),
            ("postgres://me:secret@db/app?schema=a%20b", "letters, digits and underscores"),
            ("postgres://me:secret@db/app?migrate=maybe", "migrate is on or off"),
            ("postgres://me:secret@db/app?sslmode=maybe", "sslmode"),
            ("postgres://me:secret@db/app?colour=red", "colour"),
            ("postgres://me:secret@db:port/app", "write postgres://"),
        ] {
            let text = Options::parse(url).unwrap_err().to_string();
            assert!(text.contains(hint), "{text}");
            assert!(!text.contains("secret") && !text.contains('\n'), "{text}");
        }
    }

    #[test]
    fn too_old_a_server_is_refused_with_the_fix() {
        let options = Options::parse("postgres://db/app").unwrap();
        let text = check_version(&options, 110_022, "11.22").unwrap_err().to_string();
        assert!(text.contains("PostgreSQL 11.22") && text.contains("upgrade"), "{text}");
        assert!(check_version(&options, 120_000, "12.0").is_ok());
    }
}
