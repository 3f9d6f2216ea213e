//! `runcue status`: the queue at a glance, and what to do when work waits and nothing will happen.

use std::fmt::Write;

use runcue_core::{StateWord, Timestamp};
use runcue_store::Store;

use crate::app::App;
use crate::exit::Exit;
use crate::trouble::Trouble;
use crate::view::StatusView;
use crate::{clock, gauge, words};
use runcue::Address;

/// Flags of `status`.
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Shows the queue at a glance.
pub async fn run(_: Args, app: &App) -> Result<Exit, Trouble> {
    let store = app.store()?;
    let now = clock::now();
    let view = look(&*store, &app.address()?, now).await?;
    if app.out.json {
        app.out.document(&view)?;
    } else {
        app.out.say(describe(&view, now).trim_end())?;
    }
    Ok(Exit::Ok)
}

/// The queue at a glance.
pub async fn look(
    store: &dyn Store,
    address: &Address,
    now: Timestamp,
) -> Result<StatusView, Trouble> {
    Ok(StatusView::look(store, address.to_string(), now).await?)
}

/// The word for what an acknowledged write survives, without its explanation.
pub fn durability(store: &dyn Store) -> &'static str {
    StatusView::durability_of(store)
}

/// The glance in words.
pub fn describe(view: &StatusView, now: Timestamp) -> String {
    let mut text = String::new();
    let _ = writeln!(text, "{} ({})", view.store, view.durability);
    let counts = StateWord::ALL.into_iter().map(|state| (state, view.counts.get(state)));
    let counts: Vec<String> =
        counts.filter(|(_, n)| *n > 0).map(|(state, n)| format!("{n} {state}")).collect();
    let counts = if counts.is_empty() { "no jobs".to_owned() } else { counts.join("  ") };
    let _ = writeln!(text, "  jobs      {counts}");
    if view.counts.queued > 0 {
        let _ = writeln!(text, "  queued    {}", queued(view, now));
    }
    let _ = writeln!(text, "  workers   {}", workers(view));
    for service in &view.blocked_services {
        let gauge = gauge::of(service, now);
        let _ = writeln!(
            text,
            "  service   {} {} {} {} {}",
            service.name, gauge.bar, gauge.concurrent, gauge.rate, gauge.status
        );
    }
    if !view.paused_groups.is_empty() {
        let names: Vec<&str> = view.paused_groups.iter().map(|group| group.as_str()).collect();
        let _ = writeln!(text, "  paused    {}", words::one_line(&names.join(", "), 80));
    }
    if let Some(hint) = &view.hint {
        let yellow = anstyle::AnsiColor::Yellow.on_default();
        let _ = writeln!(text, "{yellow}hint:{yellow:#} {hint}");
    }
    text
}

fn queued(view: &StatusView, now: Timestamp) -> String {
    let mut parts = vec![format!("{} ready", view.ready)];
    if view.delayed > 0 {
        parts.push(format!("{} wait for a time", view.delayed));
    }
    if view.blocked > 0 {
        parts.push(format!("{} wait for other jobs", view.blocked));
    }
    if let Some(at) = view.oldest_ready_at {
        let age = words::span(now.since(Timestamp::from_millis(at)));
        parts.push(format!("the oldest since {age}"));
    }
    parts.join(", ")
}

fn workers(view: &StatusView) -> String {
    let alive = view.live_workers().count() as u64;
    let (held, slots) = view
        .live_workers()
        .fold((0, 0), |(held, slots), w| (held + w.held, slots + u64::from(w.slots)));
    let gone = view.workers.len() as u64 - alive;
    let mut text = match alive {
        0 => "none".to_owned(),
        _ => format!("{} running, {held} of {slots} slots busy", words::count(alive, "worker")),
    };
    if gone > 0 {
        text += &format!(", {gone} not heard of lately");
    }
    text
}
