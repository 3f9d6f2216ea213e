//! `runcue serve`: the queue as an HTTP service, with its dashboard.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use runcue_hub::{Door, Hub, HubConfig, HubError, Role, StaticToken};
use serde::Serialize;

use crate::app::App;
use crate::exit::Exit;
use crate::runner::Interrupt;
use crate::trouble::Trouble;
use crate::value;

const PORT: u16 = 3000;

/// Flags of `serve`.
#[derive(Debug, clap::Args)]
#[group(skip)]
#[command(after_help = "\
On loopback nobody needs a token as long as there is none. Elsewhere one is required at start: set \
RUNCUE_TOKEN (or FORGE_INGEST_SECRET), or make some with `runcue token create`.")]
pub struct Args {
    /// Where to listen: ADDRESS:PORT, an address, or a port [default: 127.0.0.1:3000] [env: PORT]
    #[arg(long, value_name = "ADDRESS", value_parser = listen)]
    listen: Option<SocketAddr>,
    /// A name under which this hub is reached, besides addresses and localhost; may be repeated
    #[arg(long, value_name = "NAME")]
    host: Vec<String>,
    /// How long a job stays with a worker that is not heard of
    #[arg(long, value_name = "DURATION", value_parser = value::lease, default_value = "60s")]
    lease: Duration,
    /// How often jobs of silent workers are looked for
    #[arg(long, value_name = "DURATION", value_parser = value::duration, default_value = "15s")]
    reap_every: Duration,
    /// The certificate of this hub, a PEM file; it is then reached by https
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// The key of that certificate, a PEM file
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Take jobs whose solver has no checksum
    #[arg(long)]
    allow_unchecked_solvers: bool,
}

/// Where a hub listens.
#[derive(Debug, Serialize)]
pub struct Serving {
    /// Its address.
    pub url: String,
    /// Its store, as people call it.
    pub store: String,
}

fn listen(text: &str) -> Result<SocketAddr, String> {
    let loopback = IpAddr::V4(Ipv4Addr::LOCALHOST);
    if let Ok(port) = text.parse::<u16>() {
        return Ok(SocketAddr::new(loopback, port));
    }
    if let Ok(address) = text.parse::<IpAddr>() {
        return Ok(SocketAddr::new(address, PORT));
    }
    let text = text.replace("localhost:", "127.0.0.1:");
    text.parse()
        .map_err(|_| "an address and a port are expected, such as 127.0.0.1:3000".to_owned())
}

fn env(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Whether the environment of the founding document asks for a hub that others reach.
fn is_hosted() -> bool {
    env("HUB_MODE").is_some_and(|word| word == "true" || word == "1")
}

fn address(asked: Option<SocketAddr>) -> Result<SocketAddr, Trouble> {
    if let Some(asked) = asked {
        return Ok(asked);
    }
    let ip = if is_hosted() { Ipv4Addr::UNSPECIFIED } else { Ipv4Addr::LOCALHOST };
    let port = match env("PORT") {
        None => PORT,
        Some(text) => text.parse().map_err(|_| {
            Trouble::usage(format!("PORT is {text:?}, which is no port")).help("1 to 65535 are")
        })?,
    };
    Ok(SocketAddr::new(IpAddr::V4(ip), port))
}

fn tokens() -> Vec<StaticToken> {
    let given = ["RUNCUE_TOKEN", "FORGE_INGEST_SECRET"].into_iter();
    given
        .filter_map(|name| {
            let secret = env(name)?;
            Some(StaticToken { name: name.to_lowercase(), role: Role::Admin, secret })
        })
        .collect()
}

/// Every waiting worker and every reader of a stream is an open file, and the usual bound is meant for programs
/// that have no such guests: it is raised as far as the system allows.
#[cfg(unix)]
fn allow_many_connections() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        tracing::debug!("the bound of open files stays as it is: {error}");
    }
}

#[cfg(not(unix))]
fn allow_many_connections() {}

/// A hub that is ready to be served.
pub struct Served {
    /// The hub.
    pub hub: Hub,
    /// Where connections come in.
    pub door: Door,
    /// Its address.
    pub url: String,
    /// Its store, as people call it.
    pub store: String,
    /// A token that may do everything, if one is needed.
    pub token: Option<String>,
}

/// Opens the store, the door and the hub.
pub async fn open(args: Args, app: &App) -> Result<Served, Trouble> {
    let listen = address(args.listen)?;
    allow_many_connections();
    let tokens = tokens();
    let token = tokens.first().map(|token| token.secret.clone());
    let loopback = listen.ip().is_loopback();
    let queue = app.address_or(sqlite_path().as_deref())?;
    let store = app.open(&queue, crate::store::Access::Create)?;
    let kept = runcue_hub::tokens::list(&*store).await?;
    if !loopback && tokens.is_empty() && kept.is_empty() {
        let why = format!("{listen} can be reached from elsewhere and there is no token");
        return Err(Trouble::failed(why)
            .help("make one with `runcue token create NAME`, set RUNCUE_TOKEN to a long random text, or listen on 127.0.0.1"));
    }
    let listener = tokio::net::TcpListener::bind(listen).await.map_err(|error| {
        Trouble::failed(format!("{listen} cannot be listened on: {error}"))
            .help("choose another with --listen; port 0 takes any that is free")
    })?;
    let bound = listener.local_addr().unwrap_or(listen);
    let scheme = if args.tls_cert.is_some() { "https" } else { "http" };
    let door = match (&args.tls_cert, &args.tls_key) {
        (Some(certificate), Some(key)) => Door::tls(listener, certificate, key),
        _ => Door::plain(listener),
    };
    let door = door.map_err(|error| {
        Trouble::failed(error.to_string()).help("--tls-cert and --tls-key name PEM files")
    })?;
    let config = HubConfig {
        place: queue.to_string(),
        lease: args.lease,
        reap_every: args.reap_every,
        hosts: args.host,
        tokens,
        open: loopback,
        tls: args.tls_cert.is_some(),
        unchecked_solvers: args.allow_unchecked_solvers,
        tracer: app.traces.tracer().clone(),
        ..HubConfig::default()
    };
    let hub = Hub::open(store, config).await.map_err(trouble)?;
    Ok(Served { hub, door, url: format!("{scheme}://{bound}"), store: queue.to_string(), token })
}

/// Serves until it is stopped.
pub async fn run(args: Args, app: &App) -> Result<Exit, Trouble> {
    let mut interrupt = Interrupt::new()?;
    let served = open(args, app).await?;
    let serving = Serving { url: served.url, store: served.store };
    if app.out.json {
        app.out.record(&serving)?;
    } else {
        app.out.say(format!("serving {} at {}; Ctrl-C stops", serving.store, serving.url))?;
    }
    let (told, signal) = tokio::sync::oneshot::channel();
    let stop = async move {
        let signal = interrupt.next().await;
        // The receiver is gone only if serving has ended by itself.
        let _ = told.send(signal);
    };
    served.hub.serve(served.door, stop).await.map_err(trouble)?;
    Ok(signal.await.map_or(Exit::Ok, |signal| signal.exit()))
}

/// The founding document's name for where the queue is.
fn sqlite_path() -> Option<String> {
    env("SQLITE_PATH").map(|path| format!("sqlite:{path}"))
}

/// What a person reads of a hub that could not go on.
pub fn trouble(error: HubError) -> Trouble {
    match error {
        HubError::Store(error) => error.into(),
        other => Trouble::failed(other.to_string()),
    }
}
