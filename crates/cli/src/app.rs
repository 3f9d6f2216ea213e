//! The way in: reads the words, runs the verb, and turns how it ended into an exit code and, if need be,
//! two lines on standard error.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use runcue_store::Store;

use crate::cli::{Cli, Color, Globals};
use crate::config::{self, Config};
use crate::exit::Exit;
use crate::out::{self, Out};
use crate::runfile::{FileError, Format, read_text};
use crate::store::{Access, Address};
use crate::trouble::Trouble;

/// What every verb is given.
#[derive(Debug)]
pub struct App {
    /// Where results and remarks go.
    pub out: Out,
    /// Flags of every verb.
    pub globals: Globals,
    /// What the config file says.
    pub config: Config,
}

/// Runs the process.
pub fn main() -> ExitCode {
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
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|error| Trouble::failed(format!("threads cannot be started: {error}")))?;
    let ended = runtime.block_on(cli.verb.run(&app));
    // A thread that waits for a key or for standard input must not keep the process.
    runtime.shutdown_background();
    ended
}

/// Help and version are fine and go to standard output; everything else is wrong usage.
fn refused(error: &clap::Error) -> Exit {
    // A reader that is gone has nothing to be told.
    let _ = error.print();
    if error.use_stderr() { Exit::Usage } else { Exit::Ok }
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
        Ok(Self { out, globals, config })
    }

    /// Where the store is: the flag before the environment before the file before the default.
    pub fn address(&self) -> Result<Address, Trouble> {
        self.address_or(None)
    }

    /// The same, with what a run file says before what the config file says.
    pub fn address_or(&self, file: Option<&str>) -> Result<Address, Trouble> {
        let file = file.or(self.config.store.as_deref());
        let (url, _) = config::resolve_store(self.globals.store.as_deref(), &env, file);
        Address::parse(&url)
    }

    /// Opens the store, which must be there.
    pub async fn store(&self) -> Result<Arc<dyn Store>, Trouble> {
        self.address()?.open(Access::Existing).await
    }

    /// Opens the store, and makes it if need be.
    pub async fn new_store(&self) -> Result<Arc<dyn Store>, Trouble> {
        self.address()?.open(Access::Create).await
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
