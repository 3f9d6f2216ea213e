//! `runcue worker`: takes jobs from a hub and runs them on this machine.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use runcue_agent::{Agent, AgentConfig, AgentError, Capability, HubTrouble};
use tokio_util::sync::CancellationToken;

use crate::app::App;
use crate::exit::Exit;
use crate::runner::{Interrupt, Signal, start_guard};
use crate::trouble::Trouble;
use crate::value;

/// Flags of `worker`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
A worker opens no port: it asks the hub for work and waits there. Ctrl-C once: finish what runs; twice: stop it and \
hand it back.")]
pub struct Args {
    /// The hub; may be repeated, any of them will do [env: HUB_URL] [default: http://127.0.0.1:3000]
    #[arg(long, value_name = "URL")]
    hub: Vec<String>,
    /// The token [env: RUNCUE_TOKEN, FORGE_INGEST_SECRET]
    #[arg(long, hide = true)]
    token: Option<String>,
    /// What this machine is called at the hub [env: NODE_ID] [default: the name of the machine]
    #[arg(long)]
    id: Option<String>,
    /// What people call it [env: NODE_NAME]
    #[arg(long)]
    name: Option<String>,
    /// How many jobs run at once
    #[arg(short, long, value_name = "N", default_value = "1")]
    jobs: u32,
    /// Only jobs of this type; may be repeated [env: WORKER_TYPES]
    #[arg(long = "type", value_name = "TYPE")]
    types: Vec<String>,
    /// A word that describes this machine; may be repeated [env: WORKER_TAGS]
    #[arg(long, value_name = "TAG")]
    tag: Vec<String>,
    /// Cores that are offered [env: WORKER_CORES] [default: what there is]
    #[arg(long, value_name = "N")]
    cores: Option<u32>,
    /// Memory that is offered [env: WORKER_RAM_GB] [default: what there is]
    #[arg(long, value_name = "GB")]
    ram_gb: Option<f64>,
    /// A program of this machine for jobs of a type that bring no solver; may be repeated
    #[arg(long, value_name = "TYPE=PATH")]
    program: Vec<String>,
    /// Run jobs that are commands (`runcue add -- CMD`)
    #[arg(long)]
    allow_commands: bool,
    /// Where verified solvers are kept [env: SOLVER_CACHE_DIR] [default: ~/.cache/runcue/solvers]
    #[arg(long, value_name = "DIRECTORY")]
    solver_dir: Option<PathBuf>,
    /// Fetch solvers from this host without TLS; may be repeated
    #[arg(long, value_name = "HOST")]
    allow_http_host: Vec<String>,
    /// Run solvers that have no checksum
    #[arg(long)]
    allow_unchecked_solvers: bool,
    /// How often running jobs are reported to the hub
    #[arg(long, value_name = "DURATION", value_parser = value::duration, default_value = "10s")]
    heartbeat: Duration,
    /// How long running jobs may go on after the first Ctrl-C or SIGTERM
    #[arg(long, value_name = "DURATION", value_parser = value::duration, default_value = "30s")]
    grace: Duration,
}

fn env(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// A list in a variable: JSON as documented, or words with commas.
fn list(name: &str) -> Result<Vec<String>, Trouble> {
    let Some(text) = env(name) else { return Ok(Vec::new()) };
    if !text.trim_start().starts_with('[') {
        let words = text.split(',').map(|word| word.trim().to_owned());
        return Ok(words.filter(|word| !word.is_empty()).collect());
    }
    serde_json::from_str(&text).map_err(|error| {
        Trouble::usage(format!("{name}: {error}")).help(format!("for example {name}='[\"gpu\"]'"))
    })
}

fn number<T: std::str::FromStr>(name: &str) -> Result<Option<T>, Trouble> {
    let Some(text) = env(name) else { return Ok(None) };
    let number = text.trim().parse().map(Some);
    number.map_err(|_| Trouble::usage(format!("{name} is {text:?}, a number is expected")))
}

/// What this machine is called.
pub fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let name = name.or_else(|| env("HOSTNAME")).or_else(|| env("COMPUTERNAME")).unwrap_or_default();
    let name = name.trim().to_owned();
    if name.is_empty() { "worker".to_owned() } else { name }
}

/// Where verified solvers are kept unless somebody says otherwise.
pub fn solver_dir() -> PathBuf {
    if let Some(own) = env("SOLVER_CACHE_DIR") {
        return match (own.strip_prefix("~/"), env("HOME")) {
            (Some(rest), Some(home)) => PathBuf::from(home).join(rest),
            _ => own.into(),
        };
    }
    let cache = env("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| env("HOME").map(|home| PathBuf::from(home).join(".cache")));
    cache.unwrap_or_else(std::env::temp_dir).join("runcue").join("solvers")
}

fn config(args: Args) -> Result<AgentConfig, Trouble> {
    let (cores, ram_gb) = Agent::machine_size();
    let worker_id = args.id.or_else(|| env("NODE_ID")).unwrap_or_else(host_name);
    let mut hubs = args.hub;
    if hubs.is_empty() {
        hubs.push(env("HUB_URL").unwrap_or_else(|| "http://127.0.0.1:3000".to_owned()));
    }
    let types = if args.types.is_empty() { list("WORKER_TYPES")? } else { args.types };
    let tags = if args.tag.is_empty() { list("WORKER_TAGS")? } else { args.tag };
    let token = args.token.or_else(|| env("RUNCUE_TOKEN")).or_else(|| env("FORGE_INGEST_SECRET"));
    let push = number("PUSH_INTERVAL_MS")?.map(Duration::from_millis);
    let wait = number("JOB_POLL_INTERVAL_MS")?.map(|ms: u64| Duration::from_millis(ms.max(1)));
    // Whoever says so wants the machine's metrics only.
    let enabled = env("WORKER_ENABLED").is_none_or(|word| word != "false" && word != "0");
    let base = AgentConfig::new(hubs[0].clone(), worker_id.clone());
    Ok(AgentConfig {
        hubs,
        token,
        name: args.name.or_else(|| env("NODE_NAME")).unwrap_or(worker_id),
        slots: if enabled { args.jobs as usize } else { 0 },
        types: types.into_iter().collect(),
        offers: Capability {
            cores: args.cores.or(number("WORKER_CORES")?).unwrap_or(cores),
            ram_gb: args.ram_gb.or(number("WORKER_RAM_GB")?).unwrap_or(ram_gb),
            tags: tags.into_iter().collect::<BTreeSet<_>>(),
        },
        solver_dir: args.solver_dir.unwrap_or_else(solver_dir),
        plain_hosts: args.allow_http_host.into_iter().collect(),
        unchecked_solvers: args.allow_unchecked_solvers,
        programs: programs(&args.program)?,
        commands: args.allow_commands,
        heartbeat: args.heartbeat,
        push_every: push.or(base.push_every),
        // Waiting at the hub finds work sooner than any poll; a documented interval is how long one wait lasts.
        wait: wait.map_or(base.wait, |wait| wait.max(Duration::from_secs(5))),
        grace: args.grace,
        ..base
    })
}

fn programs(named: &[String]) -> Result<BTreeMap<String, Vec<String>>, Trouble> {
    let pair = |text: &String| {
        let (task, path) =
            text.split_once('=').filter(|(task, path)| !task.is_empty() && !path.is_empty())?;
        Some((task.to_owned(), vec![path.to_owned()]))
    };
    named
        .iter()
        .map(|text| {
            pair(text).ok_or_else(|| {
                Trouble::usage(format!("--program {text}: TYPE=PATH is expected"))
                    .help("for example --program resize=./resize.sh")
            })
        })
        .collect()
}

/// Works until it is stopped.
pub async fn run(args: Args, app: &App) -> Result<Exit, Trouble> {
    let mut config = config(args)?;
    config.tracer = app.traces.tracer().clone();
    let guard = Arc::new(Mutex::new(start_guard()?));
    let marking = Arc::clone(&guard);
    config.prepare = Some(Arc::new(move |spec| {
        let mut guard = marking.lock().unwrap_or_else(PoisonError::into_inner);
        // Without a guard the job still runs; only a SIGKILL of ours would leave it behind.
        let _ = guard.ensure();
        guard.mark(spec);
    }));
    let told = format!(
        "worker {} of {}, {} at a time; Ctrl-C stops",
        config.worker_id,
        config.hubs.join(", "),
        config.slots
    );
    let agent = Agent::new(config).map_err(trouble)?;
    let mut interrupt = Interrupt::new()?;
    app.out.note(told);
    let (stop, now) = (CancellationToken::new(), CancellationToken::new());
    let mut signal = None;
    let mut working = std::pin::pin!(agent.run(stop.clone(), now.clone()));
    let ended = loop {
        tokio::select! {
            ended = &mut working => break ended,
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
    ended.map_err(trouble)?;
    Ok(signal.map_or(Exit::Ok, Signal::exit))
}

/// What a person reads of an agent that could not go on.
pub fn trouble(error: AgentError) -> Trouble {
    let said = Trouble::failed(error.to_string());
    match error {
        AgentError::Hub(HubTrouble::Refused { status: 401 | 403, .. }) => said.help(
            "set RUNCUE_TOKEN to a token with the role work; `runcue token create` makes one",
        ),
        _ => said,
    }
}
