//! `runcue up`: a hub, one worker of this machine and the dashboard, in one command, for a first look.

use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use runcue_agent::{Agent, AgentConfig};
use tokio_util::sync::CancellationToken;

use crate::app::App;
use crate::exit::Exit;
use crate::runner::{Interrupt, Signal, start_guard};
use crate::trouble::Trouble;
use crate::verbs::{serve, worker};

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
    let guard = Arc::new(Mutex::new(start_guard()?));
    let mut config = AgentConfig::new(served.url.clone(), worker::host_name());
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
    app.out.say(format!(
        "the dashboard of {} is at {}; a worker of this machine runs {} at a time; Ctrl-C stops",
        served.store, served.url, args.jobs
    ))?;
    if !args.no_open {
        show(&served.url);
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

/// Opens a page, where there is something to open it with; nobody is told if there is not.
fn show(url: &str) {
    let opener = if cfg!(target_os = "macos") {
        "open"
    } else if cfg!(windows) {
        "explorer"
    } else {
        "xdg-open"
    };
    let quiet = Command::new(opener)
        .arg(url)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    if let Ok(mut child) = quiet {
        // Somebody must wait for it, and it is not us.
        std::thread::spawn(move || child.wait());
    }
}
