//! `runcue services`: every service with its use; `runcue services set` changes limits while jobs run.

use std::time::Duration;

use clap::Subcommand;
use comfy_table::{Cell, Color};
use runcue_core::service::KeyLimits;
use runcue_core::{Rate, ServiceName, ServiceSpec, Timestamp};
use runcue_store::ServiceInfo;

use crate::app::App;
use crate::exit::Exit;
use crate::trouble::Trouble;
use crate::value::{self, Limit};
use crate::view::{ServiceView, ServicesView};
use crate::{clock, gauge, table, words};

/// Flags of `services`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List services and their use
    List,
    /// Define a service, or change its limits while it is in use
    Set(SetArgs),
}

#[derive(Debug, clap::Args)]
struct SetArgs {
    /// The service
    name: ServiceName,
    /// Starts in a window, for example 60/min; several hold together; none lifts them
    #[arg(long, value_name = "RATE", value_parser = value::rate_limit)]
    rate: Vec<Limit<Rate>>,
    /// Jobs at once, or none
    #[arg(long, value_name = "N", value_parser = value::limit::<u32>)]
    max_concurrent: Option<Limit<u32>>,
    /// The same for each key by itself: starts in a window
    #[arg(long, value_name = "RATE", value_parser = value::rate_limit)]
    key_rate: Vec<Limit<Rate>>,
    /// The same for each key by itself: jobs at once
    #[arg(long, value_name = "N", value_parser = value::limit::<u32>)]
    key_max_concurrent: Option<Limit<u32>>,
    /// Failures in a row that open its circuit, or none
    #[arg(long, value_name = "N", value_parser = value::limit::<u32>)]
    circuit_threshold: Option<Limit<u32>>,
    /// How long its circuit stays open before a probe
    #[arg(long, value_name = "DURATION", value_parser = value::duration)]
    circuit_timeout: Option<Duration>,
    /// Let nothing use it
    #[arg(long, conflicts_with = "resume")]
    pause: bool,
    /// Let jobs use it again
    #[arg(long)]
    resume: bool,
}

/// Lists services or sets one.
pub async fn run(args: Args, app: &App) -> Result<Exit, Trouble> {
    match args.action {
        None | Some(Action::List) => {
            let now = clock::now();
            let services = app.store()?.services(now).await?;
            show(&services, now, app)
        }
        Some(Action::Set(args)) => set(&args, app).await,
    }
}

async fn set(args: &SetArgs, app: &App) -> Result<Exit, Trouble> {
    let store = app.new_store()?;
    let now = clock::now();
    let mine = |services: Vec<ServiceInfo>| -> Option<ServiceInfo> {
        services.into_iter().find(|service| service.spec.name == args.name)
    };
    let old = mine(store.services(now).await?);
    if old.is_none() {
        app.out.note(format!("{} is a new service", args.name));
    }
    let old = old.map_or_else(|| ServiceSpec::new(args.name.clone()), |service| service.spec);
    store.upsert_services(now, vec![changed(old, args)]).await?;
    let now = clock::now();
    let services: Vec<ServiceInfo> = mine(store.services(now).await?).into_iter().collect();
    show(&services, now, app)
}

/// The definition with what was said, and all else as it was.
fn changed(mut spec: ServiceSpec, args: &SetArgs) -> ServiceSpec {
    if !args.rate.is_empty() {
        spec.rates = args.rate.iter().filter_map(|rate| rate.get()).collect();
    }
    if let Some(max) = args.max_concurrent {
        spec.max_concurrent = max.get();
    }
    let mut per_key = spec.per_key.unwrap_or_default();
    if !args.key_rate.is_empty() {
        per_key.rates = args.key_rate.iter().filter_map(|rate| rate.get()).collect();
    }
    if let Some(max) = args.key_max_concurrent {
        per_key.max_concurrent = max.get();
    }
    spec.per_key = (per_key != KeyLimits::default()).then_some(per_key);
    if let Some(threshold) = args.circuit_threshold {
        spec.circuit_threshold = threshold.get();
    }
    spec.circuit_timeout = args.circuit_timeout.unwrap_or(spec.circuit_timeout);
    spec.paused = (spec.paused || args.pause) && !args.resume;
    spec
}

fn show(services: &[ServiceInfo], now: Timestamp, app: &App) -> Result<Exit, Trouble> {
    let views: Vec<ServiceView> = services.iter().map(|one| ServiceView::new(one, now)).collect();
    if app.out.json {
        app.out.document(&ServicesView { services: views })?;
    } else if views.is_empty() {
        app.out.note("there are no services; define one: runcue services set NAME --rate 60/min");
    } else {
        app.out.say(services_table(&views, now))?;
    }
    Ok(Exit::Ok)
}

/// Services as a table.
pub fn services_table(services: &[ServiceView], now: Timestamp) -> String {
    let mut table = table::new(&["SERVICE", "", "IN USE", "RATE", "CIRCUIT", "STATUS"]);
    for service in services {
        let gauge = gauge::of(service, now);
        let circuit = match service.circuit_threshold {
            Some(threshold) => format!("{}/{threshold} failures", service.circuit_failures),
            None => "-".to_owned(),
        };
        let color = if gauge.open { Color::Green } else { Color::Yellow };
        table.add_row(vec![
            Cell::new(words::one_line(service.name.as_str(), 30)),
            Cell::new(gauge.bar),
            Cell::new(gauge.concurrent),
            Cell::new(gauge.rate),
            Cell::new(circuit),
            Cell::new(gauge.status).fg(color),
        ]);
    }
    table::text(&table)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Words {
        #[command(flatten)]
        set: SetArgs,
    }

    fn set(spec: ServiceSpec, words: &[&str]) -> ServiceSpec {
        let words = Words::parse_from(["set", "api"].iter().chain(words));
        changed(spec, &words.set)
    }

    #[test]
    fn what_is_not_said_stays_as_it_was() {
        let plain = ServiceSpec::new(ServiceName::new("api").unwrap());
        let spec = set(plain, &["--rate", "60/min", "--rate", "5/s", "--max-concurrent", "4"]);
        assert_eq!((spec.rates.len(), spec.max_concurrent), (2, Some(4)));
        let spec = set(spec, &["--pause"]);
        assert_eq!((spec.rates.len(), spec.max_concurrent, spec.paused), (2, Some(4), true));
        let spec = set(spec, &["--resume", "--rate", "none", "--key-max-concurrent", "1"]);
        assert!(!spec.paused && spec.rates.is_empty());
        assert_eq!(spec.per_key.unwrap().max_concurrent, Some(1));
    }
}
