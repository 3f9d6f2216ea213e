//! `runcue up`: a hub, one worker of this machine and the dashboard, in one command, for a first look.

use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use runcue_agent::{Agent, AgentConfig};
use tokio_util::sync::CancellationToken;

use crate::app::App;
use crate::exit::Exit;
use crate::out::Out;
use crate::runner::{Interrupt, Signal, start_guard};
use crate::trouble::Trouble;
use crate::verbs::{serve, worker};

/// An opener that fails later than this had opened something.
const OPENED: Duration = Duration::from_secs(5);

/// Flags of `up`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Try it: in another terminal, in the same directory, `runcue add -- echo hello`, and look at the dashboard.")]
pub struct Args {
    /// How many jobs the worker runs at once
    #[arg(short, long, value_name = "N", default_value = "2")]
    jobs: u32,
    /// Do not open the dashboard in a browser
    #[arg(long)]
    no_open: bool,
    /// Flags of the hub.
    #[command(flatten)]
    hub: serve::Args,
}

/// Serves and works until it is stopped.
pub async fn run(args: Args, app: &App) -> Result<Exit, Trouble> {
    let mut interrupt = Interrupt::new()?;
    let served = serve::open(args.hub, app).await?;
    let url = from_here(&served.url);
    let guard = Arc::new(Mutex::new(start_guard()?));
    let mut config = AgentConfig::new(url.clone(), worker::host_name());
    config.slots = args.jobs as usize;
    config.commands = true;
    config.token = served.token.clone();
    config.tracer = app.traces.tracer().clone();
    config.solver_dir = worker::solver_dir();
    let (cores, ram_gb) = Agent::machine_size();
    (config.offers.cores, config.offers.ram_gb) = (cores, ram_gb);
    config.prepare = Some(Arc::new(move |spec| {
        let mut guard = guard.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = guard.ensure();
        guard.mark(spec);
    }));
    let agent = Agent::new(config).map_err(worker::trouble)?;
    if app.out.json {
        app.out.record(&serve::Serving { url: url.clone(), store: served.store })?;
    } else {
        app.out.say(format!(
            "the dashboard of {} is at {url}; a worker of this machine runs {} at a time; Ctrl-C stops",
            served.store, args.jobs
        ))?;
        app.out.note("try it: in another terminal, in this directory, `runcue add -- echo hello`");
    }
    if !args.no_open {
        show(url, app.out);
    }
    let (stop, now, ended) =
        (CancellationToken::new(), CancellationToken::new(), CancellationToken::new());
    let hub = tokio::spawn(served.hub.serve(served.door, ended.clone().cancelled_owned()));
    let mut signal = None;
    let mut working = std::pin::pin!(agent.run(stop.clone(), now.clone()));
    let worked = loop {
        tokio::select! {
            worked = &mut working => break worked,
            next = interrupt.next() => {
                if signal.is_some() {
                    now.cancel();
                } else {
                    app.out.note("finishing what runs; once more to stop it and hand it back");
                }
                signal.get_or_insert(next);
                stop.cancel();
            }
        }
    };
    // The worker reports its last ends before its hub goes.
    ended.cancel();
    match hub.await {
        Ok(served) => served.map_err(serve::trouble)?,
        Err(error) => return Err(Trouble::failed(format!("the hub ended: {error}"))),
    }
    worked.map_err(worker::trouble)?;
    Ok(signal.map_or(Exit::Ok, Signal::exit))
}

/// The address by which this machine reaches a hub that listens on all of its addresses.
fn from_here(url: &str) -> String {
    url.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:")
}

/// Opens a page, where there is something to open it with.
fn show(url: String, out: Out) {
    let opener = if cfg!(target_os = "macos") {
        "open"
    } else if cfg!(windows) {
        "explorer"
    } else {
        "xdg-open"
    };
    let mut opener = Command::new(opener);
    opener.arg(&url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // The opener may become the browser, and Ctrl-C here is not meant for it.
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut opener, 0);
    let (started, began) = (opener.spawn(), Instant::now());
    // Somebody must wait for it, and it is not us.
    std::thread::spawn(move || {
        let ended = started.and_then(|mut child| child.wait());
        // Explorer says 1 when all went well.
        let opened = ended.is_ok_and(|status| status.success() || cfg!(windows));
        if !opened && began.elapsed() < OPENED {
            out.note(format!("no browser could be opened from here: go to {url}"));
        }
    });
}
