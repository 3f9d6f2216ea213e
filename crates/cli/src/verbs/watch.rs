//! `runcue watch`: the queue on a full screen; without a terminal, a plain snapshot.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use ratatui::crossterm::event::{self, Event as TermEvent, KeyEventKind};
use runcue_store::Store;
use serde::Serialize;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use crate::app::App;
use crate::exit::Exit;
use crate::news::News;
use crate::screen::{Action, Screen, Snapshot, draw};
use crate::trouble::Trouble;
use crate::verbs::{events, groups, services, status};
use crate::view::{EventView, GroupView, ServiceView, StatusView};
use crate::{clock, out};
use runcue::Address;

/// The screen is looked at no more often than this, however busy the queue is.
const SHORTEST: Duration = Duration::from_millis(200);
/// And no less often, because rates and leases run out without any news.
const LONGEST: Duration = Duration::from_secs(1);
/// How long the key reader waits before it looks whether it is still needed.
const KEY_WAIT: Duration = Duration::from_millis(100);

/// Flags of `watch`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Keys: q quit, up/down choose a group, p pause or resume it, f filter, ? help"
)]
pub struct Args {}

#[derive(Serialize)]
struct WatchView<'a> {
    status: &'a StatusView,
    services: &'a [ServiceView],
    groups: Vec<GroupView>,
    events: Vec<EventView>,
}

/// Watches the queue.
pub async fn run(_: Args, app: &App) -> Result<Exit, Trouble> {
    let store = app.store()?;
    let address = app.address()?;
    if app.out.json || !out::is_terminal() {
        let seen = Snapshot::take(&*store, &address, clock::now()).await?;
        print(&seen, app)?;
        return Ok(Exit::Ok);
    }
    let seen = Snapshot::take(&*store, &address, clock::now()).await?;
    let mut terminal = ratatui::try_init()
        .map_err(|error| Trouble::failed(format!("the terminal cannot be used: {error}")))?;
    let ended = live(&mut terminal, store, &address, seen).await;
    ratatui::restore();
    ended.map(|()| Exit::Ok)
}

fn print(seen: &Snapshot, app: &App) -> Result<(), Trouble> {
    if app.out.json {
        return app.out.document(&WatchView {
            status: &seen.status,
            services: &seen.services,
            groups: seen.groups.iter().map(GroupView::from).collect(),
            events: seen.events.iter().map(EventView::from).collect(),
        });
    }
    app.out.say(status::describe(&seen.status, seen.at).trim_end())?;
    if !seen.services.is_empty() {
        app.out.say(format!("\n{}", services::services_table(&seen.services, seen.at)))?;
    }
    if !seen.groups.is_empty() {
        app.out.say(format!("\n{}", groups::groups_table(&seen.groups)))?;
    }
    if !seen.events.is_empty() {
        let lines: Vec<String> = seen.events.iter().map(events::line).collect();
        app.out.say(format!("\n{}", lines.join("\n")))?;
    }
    Ok(())
}

async fn live(
    terminal: &mut ratatui::DefaultTerminal,
    store: Arc<dyn Store>,
    address: &Address,
    first: Snapshot,
) -> Result<(), Trouble> {
    let mut keys = keys();
    let mut news = News::begin(&*store).await;
    let mut screen = Screen::new(first);
    let mut seen_at = Instant::now();
    loop {
        terminal.draw(|frame| draw(frame, &screen))?;
        tokio::select! {
            key = keys.recv() => {
                let Some(key) = key else { return Ok(()) };
                match screen.on_event(&key) {
                    Action::Quit => return Ok(()),
                    Action::SetPaused { group, paused } => {
                        store.set_group_paused(clock::now(), group, paused).await?;
                        screen.update(Snapshot::take(&*store, address, clock::now()).await?);
                    }
                    Action::None => {}
                }
            }
            () = worth_a_look(&mut news, seen_at) => {
                screen.update(Snapshot::take(&*store, address, clock::now()).await?);
                seen_at = Instant::now();
            }
        }
    }
}

/// Returns when it is worth looking again.
async fn worth_a_look(news: &mut News<'_>, seen_at: Instant) {
    sleep_until(seen_at + SHORTEST).await;
    news.wait((seen_at + LONGEST).saturating_duration_since(Instant::now())).await;
}

/// What is typed, read on a thread because the terminal can only be waited for by blocking.
fn keys() -> mpsc::Receiver<TermEvent> {
    let (typed, keys) = mpsc::channel(16);
    thread::spawn(move || {
        while !typed.is_closed() {
            let typing = event::poll(KEY_WAIT);
            match typing.and_then(|some| if some { event::read().map(Some) } else { Ok(None) }) {
                Ok(Some(TermEvent::Key(key))) if key.kind == KeyEventKind::Release => {}
                Ok(Some(event)) => {
                    if typed.blocking_send(event).is_err() {
                        return;
                    }
                }
                Ok(None) => {}
                Err(_) => return,
            }
        }
    });
    keys
}
