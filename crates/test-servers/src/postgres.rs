//! PostgreSQL servers: a shared one with a database per test, and private ones that may be killed.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rustix::process::Signal;
use tempfile::TempDir;

use crate::keeper::{self, Kept};
use crate::place::{self, RunAs};
use crate::shared::{self, Membership};
use crate::{Certificate, Proxy, Trouble};

const PACKAGE: &str = "postgresql";
/// The superuser of every server here.
const USER: &str = "runcue";
/// Tries with another port if somebody else took it.
const TRIES: usize = 5;

/// How a private server is set up.
#[derive(Clone, Debug, Default)]
pub struct PostgresSettings {
    durable: bool,
    password: Option<String>,
    tls: Option<Certificate>,
    lines: Vec<(String, String)>,
}

impl PostgresSettings {
    /// Syncs to disk, as a server with data that matters does. Without it, a killed server still has
    /// everything, but a machine that loses power would not.
    #[must_use]
    pub fn durable(mut self) -> Self {
        self.durable = true;
        self
    }

    /// Asks for a password; [`Postgres::url`] has it.
    #[must_use]
    pub fn password(mut self, password: &str) -> Self {
        self.password = Some(password.to_owned());
        self
    }

    /// Speaks TLS to whoever asks for it.
    #[must_use]
    pub fn tls(mut self, certificate: &Certificate) -> Self {
        self.tls = Some(certificate.clone());
        self
    }

    /// A setting as in `postgresql.conf`.
    #[must_use]
    pub fn set(mut self, name: &str, value: &str) -> Self {
        self.lines.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Starts the server.
    ///
    /// # Errors
    /// If it is not installed or does not start.
    pub fn start(self) -> Result<Postgres, Trouble> {
        let directory = place::temporary()?;
        let cluster = Cluster::init(directory.path(), self)?;
        let (port, kept) = cluster.start_private()?;
        Ok(Postgres { cluster, port, kept, _directory: directory })
    }

    fn words(&self) -> Vec<String> {
        let sync = if self.durable { "on" } else { "off" };
        let fixed = [
            ("listen_addresses", "127.0.0.1"),
            ("unix_socket_directories", ""),
            ("fsync", sync),
            ("full_page_writes", sync),
            ("max_connections", "200"),
            ("shared_buffers", "64MB"),
        ];
        let fixed = fixed.into_iter().map(|(name, value)| format!("--{name}={value}"));
        let chosen = self.lines.iter().map(|(name, value)| format!("--{name}={value}"));
        fixed.chain(chosen).collect()
    }
}

/// A data directory and how its server is started.
#[derive(Debug)]
struct Cluster {
    run_as: RunAs,
    directory: PathBuf,
    data: PathBuf,
    log: PathBuf,
    settings: PostgresSettings,
}

impl Cluster {
    fn init(directory: &Path, settings: PostgresSettings) -> Result<Self, Trouble> {
        let run_as = RunAs::unprivileged()?;
        let home = directory.join("home");
        run_as.make_directory(&home)?;
        let data = home.join("data");
        let words: Vec<String> =
            ["-U", USER, "-E", "UTF8", "--locale=C", "--no-sync", "--no-instructions", "-D"]
                .into_iter()
                .map(str::to_owned)
                .chain([data.display().to_string()])
                .collect();
        place::run(&run_as.command(&place::program("initdb", PACKAGE)?, &words))?;
        let method = if settings.password.is_some() { "scram-sha-256" } else { "trust" };
        let rule = format!("host all all 127.0.0.1/32 {method}\n");
        let rules = match &settings.password {
            // The password is set with a first start that asks for none.
            Some(_) => "host all all 127.0.0.1/32 trust\n".to_owned(),
            None => rule.clone(),
        };
        let file = data.join("pg_hba.conf");
        fs::write(&file, rules).map_err(Trouble::with(file.display()))?;
        let cluster = Self {
            run_as,
            directory: directory.to_owned(),
            data,
            log: directory.join("log"),
            settings,
        };
        cluster.take_certificate()?;
        if let Some(password) = &cluster.settings.password {
            let (port, kept) = cluster.start_private()?;
            psql(
                &plain_url(port, "postgres"),
                &format!("ALTER ROLE {USER} PASSWORD '{password}'"),
            )?;
            let mut kept = kept;
            kept.stop(Signal::INT);
            fs::write(&file, rule).map_err(Trouble::with(file.display()))?;
        }
        Ok(cluster)
    }

    /// The server reads its key only from a file of its own.
    fn take_certificate(&self) -> Result<(), Trouble> {
        let Some(own) = &self.settings.tls else { return Ok(()) };
        for (from, name) in [(&own.certificate, "server.crt"), (&own.key, "server.key")] {
            let to = self.data.join(name);
            fs::copy(from, &to).map_err(Trouble::with(from.display()))?;
            self.run_as.take_file(&to)?;
        }
        Ok(())
    }

    fn line(&self, port: u16) -> Result<Vec<String>, Trouble> {
        let mut words = vec!["-D".to_owned(), self.data.display().to_string()];
        words.extend(["-p".to_owned(), port.to_string()]);
        words.extend(self.settings.words());
        if self.settings.tls.is_some() {
            // The names the server looks for by itself.
            words.push("--ssl=on".to_owned());
        }
        Ok(self.run_as.command(&place::program("postgres", PACKAGE)?, &words))
    }

    fn start_private(&self) -> Result<(u16, Kept), Trouble> {
        let mut last = None;
        for _ in 0..TRIES {
            let port = place::free_port()?;
            match self.start_on(port) {
                Ok(kept) => return Ok((port, kept)),
                Err(trouble) => last = Some(trouble),
            }
        }
        Err(last.unwrap_or_else(|| Trouble::new("PostgreSQL did not start")))
    }

    fn start_on(&self, port: u16) -> Result<Kept, Trouble> {
        let kept = Kept::start(&self.directory, &self.line(port)?)?;
        keeper::await_ready("PostgreSQL", &self.log, || kept.is_alive(), || is_ready(port))?;
        Ok(kept)
    }
}

/// A server of one's own. Ends when this value is dropped or the process ends.
#[derive(Debug)]
pub struct Postgres {
    cluster: Cluster,
    port: u16,
    kept: Kept,
    _directory: TempDir,
}

impl Postgres {
    /// Settings to start one with.
    pub fn settings() -> PostgresSettings {
        PostgresSettings::default()
    }

    /// The address of its first database, for a superuser.
    pub fn url(&self) -> String {
        match &self.cluster.settings.password {
            Some(password) => {
                format!("postgres://{USER}:{password}@127.0.0.1:{}/postgres", self.port)
            }
            None => plain_url(self.port, "postgres"),
        }
    }

    /// The same database through a proxy to this server.
    pub fn url_through(&self, proxy: &Proxy) -> String {
        self.url().replace(&format!(":{}/", self.port), &format!(":{}/", proxy.port()))
    }

    /// The port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The pid of the server's main process.
    pub fn pid(&self) -> u32 {
        self.kept.pid()
    }

    /// Runs SQL and answers what `psql` prints, without decoration.
    ///
    /// # Errors
    /// What the server says.
    pub fn sql(&self, sql: &str) -> Result<String, Trouble> {
        psql(&self.url(), sql)
    }

    /// Kills every process of the server at once. [`Postgres::restart`] brings it back.
    pub fn kill9(&mut self) {
        self.kept.kill();
    }

    /// Stops every process of the server without ending it: connections stay open and nothing answers.
    pub fn freeze(&self) {
        self.kept.signal_all(Signal::STOP);
    }

    /// Lets a frozen server go on.
    pub fn thaw(&self) {
        self.kept.signal_all(Signal::CONT);
    }

    /// Shuts the server down in good order.
    pub fn stop(&mut self) {
        self.kept.stop(Signal::INT);
    }

    /// Starts the server again on the same port and data, after it was killed or stopped, or ends it first.
    ///
    /// # Errors
    /// If it does not start.
    pub fn restart(&mut self) -> Result<(), Trouble> {
        if self.kept.is_alive() {
            self.stop();
        }
        self.kept = self.cluster.start_on(self.port)?;
        Ok(())
    }
}

/// A database of one's own on the shared server. Dropped with this value.
#[derive(Debug)]
pub struct Database {
    port: u16,
    name: String,
}

impl Database {
    /// Its address.
    pub fn url(&self) -> String {
        plain_url(self.port, &self.name)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The port of the server on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Runs SQL and answers what `psql` prints, without decoration.
    ///
    /// # Errors
    /// What the server says.
    pub fn sql(&self, sql: &str) -> Result<String, Trouble> {
        psql(&self.url(), sql)
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        // The server is thrown away anyway; this only saves space while it runs.
        let _ = psql(
            &plain_url(self.port, "postgres"),
            &format!("DROP DATABASE \"{}\" WITH (FORCE)", self.name),
        );
    }
}

/// This process's use of the shared server.
static MEMBERSHIP: Mutex<Option<Membership>> = Mutex::new(None);

pub fn shared() -> Result<Database, Trouble> {
    let mut membership = MEMBERSHIP.lock().unwrap_or_else(PoisonError::into_inner);
    if membership.is_none() {
        *membership = Some(shared::join("postgres", is_ready_at, start_shared)?);
    }
    let state = membership.as_ref().map(|membership| membership.state.clone()).unwrap_or_default();
    drop(membership);
    let port = state.parse().map_err(|_| Trouble::new("the shared PostgreSQL has no port"))?;
    let name = place::unique("test");
    psql(&plain_url(port, "postgres"), &format!("CREATE DATABASE \"{name}\""))?;
    Ok(Database { port, name })
}

fn start_shared(place: &Path, own: &Path) -> Result<String, Trouble> {
    let settings = PostgresSettings::default().set("synchronous_commit", "off");
    let cluster = Cluster::init(own, settings)?;
    let mut last = None;
    for _ in 0..TRIES {
        let port = place::free_port()?;
        keeper::start_shared(place, own, &cluster.line(port)?)?;
        match keeper::await_ready("PostgreSQL", &cluster.log, || true, || is_ready(port)) {
            Ok(()) => return Ok(port.to_string()),
            Err(trouble) => last = Some(trouble),
        }
    }
    Err(last.unwrap_or_else(|| Trouble::new("PostgreSQL did not start")))
}

fn is_ready_at(state: &str) -> bool {
    state.parse().is_ok_and(is_ready)
}

fn is_ready(port: u16) -> bool {
    let Ok(program) = place::program("pg_isready", PACKAGE) else { return false };
    let words = ["-q", "-h", "127.0.0.1", "-p"].map(str::to_owned);
    let line: Vec<String> = [program.display().to_string()]
        .into_iter()
        .chain(words)
        .chain([port.to_string()])
        .collect();
    place::run(&line).is_ok()
}

fn plain_url(port: u16, database: &str) -> String {
    format!("postgres://{USER}@127.0.0.1:{port}/{database}")
}

fn psql(url: &str, sql: &str) -> Result<String, Trouble> {
    let program = place::program("psql", "postgresql-client")?;
    let words = ["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d", url, "-c", sql];
    let line: Vec<String> =
        [program.display().to_string()].into_iter().chain(words.map(str::to_owned)).collect();
    place::run(&line)
}
