//! The way in: reads the words, runs the verb, and turns how it ended into an exit code and, if need be,
//! two lines on standard error.

use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use clap::Parser;
use runcue::Address;
use runcue_store::{Store, StoreError};
use tracing_subscriber::EnvFilter;

use crate::cli::{Cli, Color, Globals};
use crate::clock;
use crate::config::{self, Config};
use crate::exit::Exit;
use crate::out::{self, Out};
use crate::runfile::{FileError, Format, read_text};
use crate::runner;
use crate::store::{self, Access};
use crate::traces::Traces;
use crate::trouble::Trouble;

/// What every verb is given.
pub struct App {
    /// Where results and remarks go.
    pub out: Out,
    /// Flags of every verb.
    pub globals: Globals,
    /// What the config file says.
    pub config: Config,
    /// Spans, if there are to be any.
    pub traces: Traces,
    /// What was opened, to be closed when the verb is done.
    opened: Mutex<Vec<Arc<dyn Store>>>,
}

/// Runs the process.
pub fn main() -> ExitCode {
    if runner::guard_main().is_some() {
        return Exit::Ok.into();
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return refused(&error).into(),
    };
    set_color(cli.globals.color);
    let ended = run(cli);
    if let Err(trouble) = &ended {
        out::report(trouble);
    }
    ended.unwrap_or_else(|trouble| trouble.exit()).into()
}

fn run(cli: Cli) -> Result<Exit, Trouble> {
    let app = App::new(cli.globals)?;
    listen_to_logs(&app);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|error| Trouble::failed(format!("threads cannot be started: {error}")))?;
    let ended = runtime.block_on(async {
        let ended = cli.verb.run(&app).await;
        app.close().await;
        ended
    });
    // A thread that waits for a key or for standard input must not keep the process.
    runtime.shutdown_background();
    ended
}

/// Whoever opens a queue takes back the jobs of workers of this machine that are gone, without waiting for
/// their leases. A queue that cannot be written is still looked at.
fn take_back(store: &Arc<dyn Store>) {
    let taken = async {
        let gone = store.gone_workers().await?;
        if !gone.is_empty() {
            store.reap(clock::now(), gone).await?;
        }
        Ok::<(), StoreError>(())
    };
    if let Err(error) = wait_for(taken) {
        tracing::warn!(%error, "jobs of workers that are gone were not taken back");
    }
}

/// Waits for an answer of a store, in the middle of a thread that has other tasks.
fn wait_for<A>(answer: impl Future<Output = A>) -> A {
    let runtime = tokio::runtime::Handle::current();
    tokio::task::block_in_place(|| runtime.block_on(answer))
}

/// Help and version are fine and go to standard output; everything else is wrong usage.
fn refused(error: &clap::Error) -> Exit {
    // A reader that is gone has nothing to be told.
    let _ = error.print();
    if error.use_stderr() { Exit::Usage } else { Exit::Ok }
}

/// Log lines go to standard error, around any bars that are there: warnings, or more with `-v`.
fn listen_to_logs(app: &App) {
    let said = env("RUST_LOG").or_else(|| app.config.log.clone());
    let level = match (app.out.quiet, app.out.verbose) {
        (true, _) => "error",
        // Failed attempts are shown by the verbs themselves.
        (_, 0) => "warn,runcue_engine::complete=error",
        (_, 1) => "runcue=info,runcue_engine=info,warn",
        _ => "debug",
    };
    let filter = EnvFilter::try_new(said.as_deref().unwrap_or(level));
    let filter = filter.unwrap_or_else(|_| EnvFilter::new(level));
    let listener =
        tracing_subscriber::fmt().with_env_filter(filter).with_ansi(false).with_writer(|| LogLine);
    // Whoever asked for logs gets them whole; all others a line to read. A second listener, as in tests, is
    // no reason to stop.
    let _ = if said.is_some() || app.out.verbose > 0 {
        listener.try_init()
    } else {
        listener.without_time().with_target(false).try_init()
    };
}

struct LogLine;

impl io::Write for LogLine {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(line);
        let text = text.trim();
        let told = match (text.strip_prefix("WARN "), text.strip_prefix("ERROR ")) {
            (Some(warning), _) => format!("warning: {warning}"),
            (_, Some(error)) => format!("error: {error}"),
            _ => text.to_owned(),
        };
        out::complain(&told);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn set_color(color: Color) {
    let choice = match color {
        Color::Auto => anstream::ColorChoice::Auto,
        Color::Always => anstream::ColorChoice::Always,
        Color::Never => anstream::ColorChoice::Never,
    };
    choice.write_global();
}

impl App {
    /// Reads the config file that belongs to the flags and the current directory.
    pub fn new(globals: Globals) -> Result<Self, Trouble> {
        let out = Out { json: globals.json, quiet: globals.quiet, verbose: globals.verbose };
        let config = read_config(globals.config.as_deref())?;
        Ok(Self { out, globals, config, traces: Traces::default(), opened: Mutex::default() })
    }

    /// Where the store is: the flag before the environment before the file before the default.
    pub fn address(&self) -> Result<Address, Trouble> {
        self.address_or(None)
    }

    /// The same, with what a run file says before what the config file says.
    pub fn address_or(&self, file: Option<&str>) -> Result<Address, Trouble> {
        let file = file.or(self.config.store.as_deref());
        let (url, _) = config::resolve_store(self.globals.store.as_deref(), &env, file);
        let durability = self.config.durability.map(|word| match word {
            config::Durability::Normal => "normal",
            config::Durability::Full => "full",
        });
        Ok(store::address(&url)?.or_durability(durability))
    }

    /// Opens the store, which must be there.
    pub fn store(&self) -> Result<Arc<dyn Store>, Trouble> {
        self.open(&self.address()?, Access::Existing)
    }

    /// Opens the store, and makes it if need be.
    pub fn new_store(&self) -> Result<Arc<dyn Store>, Trouble> {
        self.open(&self.address()?, Access::Create)
    }

    /// Opens a store that is closed when the verb is done.
    pub fn open(&self, address: &Address, access: Access) -> Result<Arc<dyn Store>, Trouble> {
        let store = self.open_as_it_is(address, access)?;
        wait_for(clock::follow(&*store));
        take_back(&store);
        Ok(store)
    }

    /// The same, but nothing is taken back from workers that are gone.
    pub fn open_as_it_is(
        &self,
        address: &Address,
        access: Access,
    ) -> Result<Arc<dyn Store>, Trouble> {
        let store = store::open(address, access)?;
        self.opened.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&store));
        Ok(store)
    }

    async fn close(&self) {
        let opened =
            std::mem::take(&mut *self.opened.lock().unwrap_or_else(PoisonError::into_inner));
        for store in opened {
            // What was answered is durable already; a store that cannot close has nothing more to lose.
            if let Err(error) = store.close().await {
                self.out.detail(format!("the store did not close: {error}"));
            }
        }
        self.traces.flush().await;
    }
}

fn env(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

fn read_config(named: Option<&Path>) -> Result<Config, Trouble> {
    let here = std::env::current_dir()
        .map_err(|error| Trouble::failed(format!("there is no current directory: {error}")))?;
    let read = match named {
        Some(path) => read_named_config(path),
        None => config::load(&here, &env),
    };
    read.map_err(|error| bad_file(&error))
}

fn read_named_config(path: &Path) -> Result<Config, FileError> {
    let text = read_text(path)?;
    let format = Format::of(path).unwrap_or(Format::Toml);
    let config = config::parse(&text, format, &path.display().to_string(), &env)?;
    Ok(Config { path: Some(path.to_owned()), ..config })
}

/// A file that cannot be used.
pub fn bad_file(error: &FileError) -> Trouble {
    Trouble::usage(error.to_string())
}
